#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod queue;
mod wheel;

#[cfg(test)]
mod oracle;

pub use queue::TimerQueue;
pub use wheel::TimerWheel;
