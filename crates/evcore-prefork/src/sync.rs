//! The atomics and the lock of `signal_state.rs` and `thread_channel.rs`, here the standard
//! library's. The tests `tests/loom_*.rs` include those two files, with loom's types in place of
//! this module. The crate as a whole cannot use loom's types, because a static cannot contain them.

pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering, fence},
};
