#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod flight_recorder;
mod histogram;
mod histograms;
mod instruments;
mod options;
mod slow_turn;
mod watchdog;

pub use flight_recorder::FlightRecorder;
pub use histogram::Histogram;
pub use histograms::Histograms;
pub use instruments::Instruments;
pub use options::InstrumentOptions;
pub use slow_turn::{SlowStep, SlowTurn};
pub use watchdog::Watchdog;

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Histograms>();
    is_send::<Watchdog<u8>>();
    is_send::<FlightRecorder<u8>>();
    is_send::<Instruments<u8>>();
};
