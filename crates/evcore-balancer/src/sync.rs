//! The atomics of the accept lock: the standard library's, or loom's when loom checks it.

#[cfg(evcore_loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(evcore_loom))]
pub(crate) use std::sync::atomic::{AtomicU32, Ordering};
