//! The atomics of `signal_state.rs`, here the standard library's. `tests/loom_signal_state.rs`
//! replaces them by loom's: the shipped state is a static, and loom's atomics cannot be in one.

pub(crate) use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, Ordering, fence};
