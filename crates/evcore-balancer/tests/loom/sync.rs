//! loom's atomics in place of `src/sync.rs`, with faults that can be injected.
//!
//! A mutant is a test in which every atomic operation has one fault. loom runs all threads of a model
//! on one thread of the system, so a thread-local variable reaches all of them and no other test.

#![allow(dead_code, reason = "each model uses a part of this file")]

use std::cell::Cell;

use loom::sync::atomic;

pub(crate) use loom::sync::atomic::Ordering;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The fault of the atomics in this test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// No operation acquires. There is no fence either, because a fence acquires too.
    NoAcquire,
    /// No operation releases.
    NoRelease,
    /// There is no fence.
    NoFence,
    /// Comparing and storing are two steps.
    TwoSteps,
    /// An exchange that empties a word ignores the expected value.
    EmptyingIgnoresValue,
}

thread_local! {
    static FAULT: Cell<Fault> = const { Cell::new(Fault::None) };
}

/// Injects a fault into all atomics of this test.
pub(crate) fn inject(fault: Fault) {
    FAULT.set(fault);
}

#[derive(Debug, Default)]
pub(crate) struct AtomicU32(atomic::AtomicU32);

impl AtomicU32 {
    pub(crate) fn load(&self, order: Ordering) -> u32 {
        self.0.load(weakened(order))
    }

    pub(crate) fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, weakened(order));
    }

    pub(crate) fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        match FAULT.get() {
            Fault::TwoSteps => self.compare_and_store(current, new),
            Fault::EmptyingIgnoresValue if new == 0 => Ok(self.0.swap(0, success)),
            _ => self
                .0
                .compare_exchange(current, new, weakened(success), failure),
        }
    }

    fn compare_and_store(&self, current: u32, new: u32) -> Result<u32, u32> {
        let found = self.0.load(Acquire);
        if found != current {
            return Err(found);
        }
        self.0.store(new, Release);
        Ok(found)
    }
}

pub(crate) fn fence(order: Ordering) {
    assert_eq!(order, SeqCst, "the code uses no other fence");
    if !matches!(FAULT.get(), Fault::NoFence | Fault::NoAcquire) {
        atomic::fence(order);
    }
}

fn weakened(order: Ordering) -> Ordering {
    match (FAULT.get(), order) {
        (Fault::NoAcquire, Acquire) | (Fault::NoRelease, Release) => Relaxed,
        (_, AcqRel | SeqCst) => panic!("no operation uses {order:?}"),
        _ => order,
    }
}
