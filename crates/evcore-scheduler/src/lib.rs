#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod job;
mod scheduler;

mod jobs;
mod thread;

mod sync;

pub use job::Job;
pub use scheduler::Scheduler;
