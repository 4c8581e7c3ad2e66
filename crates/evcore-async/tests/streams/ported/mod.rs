//! Assertions of tokio's and async-io's own tests, in tests of ours.
//!
//! Each test names its origin: `tokio/tests/FILE.rs`, or `tests/FILE.rs` of async-io, smol's
//! reactor. Their tests of features that evcore-async does not have are left out, such as joining
//! the halves of a stream, missed ticks in bursts, or several tasks that wait for one listener.

mod connections;
mod copies;
mod datagrams;
mod time;
