//! loom's atomics in place of `src/sync.rs`, which can be made to do less than they should.
//!
//! A mutant is a fault that each operation of one test has. loom runs all threads of a model on one
//! thread of the system, so a thread-local variable reaches all of them and no other test.

#![allow(dead_code, reason = "each model uses some of it")]

use std::cell::Cell;

use loom::sync::atomic;

pub(crate) use loom::sync::atomic::Ordering;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// What is wrong with the atomics of this test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// No operation acquires, and there is no fence, which would acquire too.
    NoAcquire,
    /// No operation releases.
    NoRelease,
    /// There is no fence.
    NoFence,
    /// To compare and to store are two steps.
    TwoSteps,
    /// A word is emptied whatever it is.
    AnyoneEmpties,
}

thread_local! {
    static FAULT: Cell<Fault> = const { Cell::new(Fault::None) };
}

/// Gives all atomics of this test a fault.
pub(crate) fn plant(fault: Fault) {
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
            Fault::AnyoneEmpties if new == 0 => Ok(self.0.swap(0, success)),
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
    assert_eq!(order, SeqCst, "the only one that is used");
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
