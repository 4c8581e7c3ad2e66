//! The atomics and the lock of `signal_state.rs` and `thread_channel.rs`, here the standard library's.
//! The models of `tests/loom_*.rs` replace them by loom's: the shipped state of signals is a static,
//! and loom's atomics cannot be in one.

pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering, fence},
};
