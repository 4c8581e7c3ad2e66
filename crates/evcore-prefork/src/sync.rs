//! The atomics and the lock of `signal_state.rs` and `thread_channel.rs`, here the standard
//! library's. The tests `tests/loom_*.rs` include those two files, and have loom's types in place
//! of this module. This crate itself cannot use loom's types, because its state of signals is a
//! static, which cannot contain loom's atomics.

pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering, fence},
};
