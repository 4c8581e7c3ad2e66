//! Locks, condition variables and threads: the standard library's, or loom's in the loom tests.

#[cfg(not(evcore_loom))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::Builder,
};

#[cfg(evcore_loom)]
pub(crate) use loom::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::Builder,
};
