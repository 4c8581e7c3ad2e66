//! The atomics of the accept lock and of the worker group.
//!
//! The loom models include the files of lock, group and policies together with a `sync` module of
//! their own (`tests/loom/sync.rs`). So they check the code that ships over loom's atomics.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};
