//! Tests that repeat the assertions of tokio's and async-io's own tests.
//!
//! Each test names its origin: `tokio/tests/FILE.rs`, or `tests/FILE.rs` of async-io, smol's
//! reactor. Their tests of features that evcore-async does not have are left out. Examples of such
//! features are joining the halves of a stream, missed ticks in bursts, and several tasks that wait
//! for one listener.

mod connections;
mod copies;
mod datagrams;
mod time;
