//! The atomics of the shared clock: the standard library's, or loom's in the loom tests.

#[cfg(evcore_loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(evcore_loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
