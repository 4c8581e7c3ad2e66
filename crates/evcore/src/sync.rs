//! The atomics that handles share with the loop: the standard library's, or loom's under
//! loom.

#[cfg(not(evcore_loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};

#[cfg(evcore_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64};
