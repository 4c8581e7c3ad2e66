#![doc = include_str!("../README.md")]
//!
//! # How to record a program
//!
//! Take any [`Acceptor`](evcore::Acceptor), and use its streams through
//! [`Transport`](evcore::Transport), as for a simulation. Read the time from the loop's clock.
//! Random numbers, the order of a `HashMap` and threads make a replay differ, so get random numbers
//! and threads from an [`Outside`] that the caller passes in.

mod address;
mod call;
mod difference;
mod file;
mod filter;
mod format;
mod group;
mod handle;
mod outside;
mod pool;
mod recorded_loop;
mod recorded_stream;
mod recorder;
mod recording;
mod replay;
mod replayed_loop;
mod replayed_stream;
mod requests;
mod tape;
mod writer;

pub use call::{Call, What};
pub use difference::Difference;
pub use handle::RecordedHandle;
pub use outside::Outside;
pub use pool::RecordedPool;
pub use recorded_stream::{RecordedConnector, RecordedListener, RecordedStream};
pub use recorder::Recorder;
pub use recording::{End, Recording, Refused};
pub use replay::Replay;
pub use replayed_stream::{ReplayedConnector, ReplayedListener, ReplayedStream};
