//! The atomics of what workers share: the standard library's, or loom's when loom checks it.

#[cfg(evcore_loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(evcore_loom))]
pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};
