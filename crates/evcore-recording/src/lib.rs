#![doc = include_str!("../README.md")]
//!
//! # How to record a program
//!
//! Take any [`Acceptor`](evcore::Acceptor), and use its streams through
//! [`Transport`](evcore::Transport), as for a simulation. Read the time from the loop's clock. A
//! random number, an order of a `HashMap` or a thread makes a replay differ: take its source from the
//! caller.

mod address;
mod call;
mod file;
mod format;
mod recorder;
mod recording;
mod replay;
mod writer;

pub use call::{Call, What};
pub use recorder::{RecordedListener, RecordedStream, Recorder};
pub use recording::{End, Recording, Refused};
pub use replay::{Difference, Replay, ReplayedListener, ReplayedStream};
