#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod pool;

mod shared;
mod sync;

pub use pool::Pool;
#[doc(hidden)] // Only simulators need it.
pub use shared::SimulatedJob;

// A value can move to another thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Pool<u32, u8>>();
};
