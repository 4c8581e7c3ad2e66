#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod queue;

mod wheel;

mod tree;

mod heap;

mod lazy;

mod cancelable;

#[cfg(any(feature = "scheduler", evcore_loom))]
mod scheduler;

#[cfg(any(feature = "scheduler", evcore_loom))]
mod sync;

#[cfg(test)]
mod oracle;

pub use cancelable::Cancelable;
pub use heap::TimerHeap;
pub use lazy::{NeverEarly, WithinSlack};
pub use queue::TimerQueue;
#[cfg(any(feature = "scheduler", evcore_loom))]
pub use scheduler::{Job, Scheduler};
pub use tree::TimerTree;
pub use wheel::TimerWheel;
