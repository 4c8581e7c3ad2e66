#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod job;
mod manual;
mod scheduler;

mod jobs;
mod shared;
mod thread;

mod sync;

pub use job::Job;
pub use manual::ManualTime;
pub use scheduler::Scheduler;

// A value can move to another thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Scheduler>();
    is_send::<Job>();
    is_send::<ManualTime>();
};
