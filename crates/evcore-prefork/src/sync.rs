//! The atomics and the lock of `signal_state.rs` and `thread_channel.rs`, here the standard
//! library's. The models of `tests/loom_*.rs` replace them by loom's. They include the files,
//! because the shipped state of signals is a static, which cannot have loom's atomics.

pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering, fence},
};
