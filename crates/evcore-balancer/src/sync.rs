//! The atomics of the accept lock, of the worker group and of the scoreboard. The loom models have
//! a `sync` module of their own, so they run the shipped files over loom's atomics.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
