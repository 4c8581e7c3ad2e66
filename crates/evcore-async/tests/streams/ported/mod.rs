//! Assertions of tokio's and async-io's own tests, in tests of ours.
//!
//! Each test names its origin: `tokio/tests/FILE.rs`, or `tests/FILE.rs` of async-io, smol's reactor.
//! There are no tests of features that evcore-async does not have: halves that are joined again, ticks
//! that are sent late in bursts, timers of a paused clock (`tests/simulation` has those), several tasks
//! that wait for one listener.

mod connections;
mod copies;
mod datagrams;
mod time;
