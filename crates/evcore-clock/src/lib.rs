#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock;

mod shared_clock;
mod snapshot;

mod ring;
mod sync;

mod time_source;

mod ticker;
mod updates;

mod manual;
mod zone;

pub mod stamp;

mod civil;

pub use clock::Clock;
pub use manual::ManualTimeSource;
pub use shared_clock::SharedClock;
pub use snapshot::Snapshot;
pub use stamp::Stamp;
pub use ticker::{Ticker, TickerError};
pub use time_source::{SystemTimeSource, TimeSource, WallTime};
pub use updates::ClockUpdates;

// A clock may be created on one thread and used on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Clock>();
    is_send::<SharedClock>();
};
