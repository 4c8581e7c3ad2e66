//! The atomics of the accept lock, of the worker group and of the scoreboard.
//!
//! The loom models include the files of lock, group, policies and scoreboard together with a `sync`
//! module of their own. So they check the shipped code, run over loom's atomics.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
