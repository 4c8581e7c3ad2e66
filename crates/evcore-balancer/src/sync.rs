//! The atomics of the accept lock and of the worker group.
//!
//! The loom models include those files together with a `sync` module of their own
//! (`tests/loom/sync.rs`), and so check the code that ships over loom's atomics.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};
