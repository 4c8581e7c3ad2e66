//! The atomics of what workers share: the standard library's, or loom's when loom checks it.
//!
//! [`SharedU32`] is the word that crosses processes: where a test may end a process at any
//! operation on it, one that has a point before each.

#[cfg(evcore_loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(evcore_loom))]
pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(not(evcore_planted))]
pub(crate) use AtomicU32 as SharedU32;

#[cfg(evcore_planted)]
pub(crate) use crate::points::PointedU32 as SharedU32;
