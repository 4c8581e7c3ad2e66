//! loom's atomics in place of `src/sync.rs`, with faults that can be injected, and threads that
//! die.
//!
//! A mutant is a test in which every atomic operation, or every worker, has one fault. loom runs
//! all threads of a model on one thread of the system, so a thread-local variable reaches all of
//! them and no other test.
//!
//! The operations of a thread that has died have no effect. So a thread can die after any
//! operation, although its code runs on, and nothing has to unwind.

#![allow(dead_code, reason = "each model uses a part of this file")]

use std::cell::Cell;

use loom::{
    sync::atomic,
    thread::{self, ThreadId},
};

pub(crate) use loom::sync::atomic::Ordering;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The fault of the atomics in this test, or of the workers that use them.
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
    /// A worker becomes leader before it registers.
    LeadsFirst,
    /// A leader that has notified another worker stops before that one has become leader.
    StopsFirst,
    /// A worker ignores that a sync has answered a notification.
    IgnoresAnswer,
    /// A worker clears its notifier after the sync instead of before.
    ClearsLate,
    /// A worker that plans to notify another one does not notify it.
    IsMute,
    /// `release_dead` notifies no worker.
    ReleasesMutely,
}

thread_local! {
    static FAULT: Cell<Fault> = const { Cell::new(Fault::None) };
    static MORTAL: Cell<Option<Mortal>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Mortal {
    thread: ThreadId,
    /// Number of operations that still have an effect before the thread dies.
    left: u32,
    is_dead: bool,
}

pub(crate) fn inject(fault: Fault) {
    FAULT.set(fault);
}

pub(crate) fn is_injected(fault: Fault) -> bool {
    FAULT.get() == fault
}

pub(crate) fn all_live() {
    MORTAL.set(None);
}

pub(crate) fn die_after(operations: u32) {
    MORTAL.set(Some(Mortal {
        thread: thread::current().id(),
        left: operations,
        is_dead: false,
    }));
}

/// Returns whether the mortal thread has died. No thread is mortal afterwards.
pub(crate) fn has_died() -> bool {
    MORTAL.take().is_some_and(|mortal| mortal.is_dead)
}

/// Counts an operation of this thread. Returns whether it has an effect.
pub(crate) fn is_alive() -> bool {
    let Some(mut mortal) = MORTAL.get() else {
        return true;
    };
    if mortal.thread != thread::current().id() {
        return true;
    }
    mortal.is_dead |= mortal.left == 0;
    mortal.left = mortal.left.saturating_sub(1);
    MORTAL.set(Some(mortal));
    !mortal.is_dead
}

#[derive(Debug, Default)]
pub(crate) struct AtomicU32(atomic::AtomicU32);

impl AtomicU32 {
    pub(crate) fn load(&self, order: Ordering) -> u32 {
        if is_alive() {
            self.0.load(weakened(order))
        } else {
            0
        }
    }

    pub(crate) fn store(&self, value: u32, order: Ordering) {
        if is_alive() {
            self.0.store(value, weakened(order));
        }
    }

    pub(crate) fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        if !is_alive() {
            return Err(0);
        }
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
    if !matches!(FAULT.get(), Fault::NoFence | Fault::NoAcquire) && is_alive() {
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
