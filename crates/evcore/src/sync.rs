//! The atomics and the lock that handles share with the loop: the standard library's, or loom's under
//! loom.

#[cfg(not(evcore_loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
};

#[cfg(evcore_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
};
