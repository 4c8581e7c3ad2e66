//! Tests the accept lock in every interleaving. The shipped file runs over loom's atomics.
//!
//! The lock guards a cell that is not atomic. loom fails if two accesses to it are not ordered.
//! Each mutant is a model over faulty atomics, which loom must reject.

#![cfg(evcore_loom)]
#![allow(unsafe_code, reason = "the test shares a cell between threads")]

#[path = "../src/accept_mutex.rs"]
#[allow(dead_code, reason = "the crate uses the rest")]
pub mod accept_mutex;
#[path = "loom/shared_memory.rs"]
mod shared_memory;
#[path = "loom/sync.rs"]
mod sync;
#[path = "../src/worker_id.rs"]
#[allow(dead_code, reason = "the crate uses the rest")]
pub mod worker_id;

use accept_mutex::AcceptMutex;
use loom::{cell::UnsafeCell, sync::Arc, thread};
use sync::{Fault, inject};
use worker_id::WorkerId;

struct Guarded {
    mutex: AcceptMutex,
    cell: UnsafeCell<u32>,
}

// SAFETY: this is the claim under test. loom panics before an access that contradicts it.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            mutex: AcceptMutex::new().unwrap(),
            cell: UnsafeCell::new(0),
        })
    }

    /// Tries the lock. After a success, writes the cell and keeps the lock.
    fn lock_and_write(&self, slot: usize) -> bool {
        let locked = self.mutex.try_lock(id(slot));
        if locked {
            // loom only has to see the access.
            self.cell.with_mut(|_| ());
        }
        locked
    }

    /// Runs one turn of a worker: tries the lock, and after a success writes the cell and unlocks.
    /// Returns whether the worker got the lock.
    fn turn(&self, slot: usize) -> bool {
        let locked = self.lock_and_write(slot);
        if locked {
            assert!(
                self.mutex.unlock(id(slot)),
                "another worker has released the lock"
            );
        }
        locked
    }
}

fn id(slot: usize) -> WorkerId {
    WorkerId::from_slot(slot)
}

fn workers_exclude_each_other(workers: usize, turns: u32) {
    loom::model(move || {
        let guarded = Guarded::new();
        // The thread of the test is worker 0.
        let others: Vec<_> = (1..workers)
            .map(|slot| {
                let guarded = Arc::clone(&guarded);
                thread::spawn(move || (0..turns).filter(|_| guarded.turn(slot)).count())
            })
            .collect();
        let mine = (0..turns).filter(|_| guarded.turn(0)).count();
        let theirs: usize = others.into_iter().map(|t| t.join().unwrap()).sum();
        assert!(mine + theirs > 0, "no worker got the lock");
        assert_eq!(guarded.mutex.owner(), None);
    });
}

/// Worker 1 tries the lock and dies. If `released` is true, it releases the lock before it dies.
/// The parent reaps worker 1, frees its lock and then takes a turn itself. Meanwhile worker 2 takes
/// a turn.
fn a_parent_frees_the_lock_of_a_dead_worker(released: bool) {
    loom::model(move || {
        let guarded = Guarded::new();
        let spawn = |work: fn(&Guarded)| {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || work(&guarded))
        };
        let dying = spawn(if released {
            |guarded| _ = guarded.turn(1)
        } else {
            |guarded| _ = guarded.lock_and_write(1)
        });
        let other = spawn(|guarded| _ = guarded.turn(2));

        dying.join().unwrap();
        let freed = guarded.mutex.force_unlock(id(1));
        assert!(!(released && freed), "the dead worker held nothing");
        guarded.turn(3);

        other.join().unwrap();
        assert_eq!(guarded.mutex.owner(), None, "all workers have unlocked");
    });
}

#[test]
fn two_workers_exclude_each_other() {
    workers_exclude_each_other(2, 2);
}

#[test]
fn three_workers_exclude_each_other() {
    workers_exclude_each_other(3, 1);
}

#[test]
fn the_lock_of_a_dead_owner_has_one_new_owner() {
    a_parent_frees_the_lock_of_a_dead_worker(false);
}

#[test]
fn a_living_owner_keeps_the_lock_when_another_is_released() {
    a_parent_frees_the_lock_of_a_dead_worker(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_locking_does_not_acquire() {
    inject(Fault::NoAcquire);
    workers_exclude_each_other(2, 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_unlocking_does_not_release() {
    inject(Fault::NoRelease);
    workers_exclude_each_other(2, 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_force_unlocking_does_not_release() {
    inject(Fault::NoRelease);
    a_parent_frees_the_lock_of_a_dead_worker(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_comparing_and_storing_are_two_steps() {
    inject(Fault::TwoSteps);
    workers_exclude_each_other(2, 1);
}

#[test]
#[should_panic(expected = "the dead worker held nothing")]
fn mutant_force_unlocking_ignores_the_owner() {
    inject(Fault::EmptyingIgnoresValue);
    a_parent_frees_the_lock_of_a_dead_worker(true);
}
