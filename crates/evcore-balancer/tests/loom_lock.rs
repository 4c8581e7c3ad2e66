//! Every interleaving of the accept lock: the code that ships, over loom's atomics.
//!
//! The lock guards a cell that is not atomic; loom fails when two accesses to it are not ordered.
//! Each mutant is a word that does a little less than it should, and must be caught.

#![cfg(evcore_loom)]
#![allow(unsafe_code, reason = "a cell that threads share is what is tested")]

use std::{fmt, num::NonZeroU32};

use evcore_balancer::{RawAcceptMutex, Word};
use loom::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{
            AtomicU32,
            Ordering::{self, Acquire, Relaxed, Release},
        },
    },
    thread,
};

struct Guarded<W> {
    mutex: RawAcceptMutex<W>,
    cell: UnsafeCell<u32>,
}

// SAFETY: not a fact but the claim under test; loom panics before an access that contradicts it.
unsafe impl<W: Sync> Sync for Guarded<W> {}

impl<W: Word + From<AtomicU32> + fmt::Debug> Guarded<W> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            mutex: RawAcceptMutex::new(W::from(AtomicU32::new(0))),
            cell: UnsafeCell::new(0),
        })
    }

    /// Locks, if it can, and writes, but never unlocks.
    fn lock_and_write(&self, who: u32) -> bool {
        let locked = self.mutex.try_lock(owner(who));
        if locked {
            // loom's part is to see the access; there is no need to make one.
            self.cell.with_mut(|_| ());
        }
        locked
    }

    /// One turn of a worker: try once, write, unlock. Says whether it had the lock.
    fn turn(&self, who: u32) -> bool {
        let locked = self.lock_and_write(who);
        if locked {
            assert!(self.mutex.unlock(owner(who)), "nobody took it away");
        }
        locked
    }
}

fn owner(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn workers_exclude_each_other<W>(workers: u32, turns: u32)
where
    W: Word + From<AtomicU32> + fmt::Debug + Send + Sync + 'static,
{
    loom::model(move || {
        let guarded = Guarded::<W>::new();
        // The thread of the test is the last of the workers.
        let others: Vec<_> = (1..workers)
            .map(|who| {
                let guarded = Arc::clone(&guarded);
                thread::spawn(move || (0..turns).filter(|_| guarded.turn(who)).count())
            })
            .collect();
        let mine = (0..turns).filter(|_| guarded.turn(workers)).count();
        let theirs: usize = others.into_iter().map(|t| t.join().unwrap()).sum();
        assert!(mine + theirs > 0, "somebody got the lock");
        assert_eq!(guarded.mutex.owner(), None);
    });
}

/// Worker 1 takes the lock and dies, with it or (`tidy`) after having released it.
/// Its parent reaps it, frees what it held and goes to work itself, while worker 2 is at work.
fn a_parent_frees_what_the_dead_held<W>(tidy: bool)
where
    W: Word + From<AtomicU32> + fmt::Debug + Send + Sync + 'static,
{
    loom::model(move || {
        let guarded = Guarded::<W>::new();
        let spawn = |work: fn(&Guarded<W>)| {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || work(&guarded))
        };
        let dying = spawn(if tidy {
            |guarded| _ = guarded.turn(1)
        } else {
            |guarded| _ = guarded.lock_and_write(1)
        });
        let other = spawn(|guarded| _ = guarded.turn(2));

        dying.join().unwrap();
        let freed = guarded.mutex.force_unlock(owner(1));
        assert!(!(tidy && freed), "a tidy worker holds nothing when it dies");
        guarded.turn(3);

        other.join().unwrap();
        assert_eq!(guarded.mutex.owner(), None, "nobody is left who holds it");
    });
}

#[test]
fn two_workers_exclude_each_other() {
    workers_exclude_each_other::<AtomicU32>(2, 2);
}

#[test]
fn three_workers_exclude_each_other() {
    workers_exclude_each_other::<AtomicU32>(3, 1);
}

#[test]
fn a_lock_that_its_owner_died_with_is_freed_once_and_for_one() {
    a_parent_frees_what_the_dead_held::<AtomicU32>(false);
}

#[test]
fn the_living_keep_the_lock_when_the_dead_is_freed() {
    a_parent_frees_what_the_dead_held::<AtomicU32>(true);
}

/// A word with a fault; which one, `M` says.
#[derive(Debug)]
struct Faulty<M>(AtomicU32, std::marker::PhantomData<M>);

trait Fault {
    /// The ordering used where `order` was asked for.
    fn order(order: Ordering) -> Ordering {
        order
    }

    fn compare_exchange(
        word: &AtomicU32,
        current: u32,
        new: u32,
        success: Ordering,
    ) -> Result<u32, u32> {
        word.compare_exchange(current, new, Self::order(success), Relaxed)
    }
}

impl<M> From<AtomicU32> for Faulty<M> {
    fn from(word: AtomicU32) -> Self {
        Self(word, std::marker::PhantomData)
    }
}

impl<M: Fault> Word for Faulty<M> {
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, order);
    }

    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        _failure: Ordering,
    ) -> Result<u32, u32> {
        M::compare_exchange(&self.0, current, new, success)
    }
}

/// Locking does not acquire.
#[derive(Debug)]
struct NoAcquire;

impl Fault for NoAcquire {
    fn order(order: Ordering) -> Ordering {
        if order == Acquire { Relaxed } else { order }
    }
}

/// Unlocking, by whomever, does not release.
#[derive(Debug)]
struct NoRelease;

impl Fault for NoRelease {
    fn order(order: Ordering) -> Ordering {
        if order == Release { Relaxed } else { order }
    }
}

/// Comparing and storing are two steps.
#[derive(Debug)]
struct TwoSteps;

impl Fault for TwoSteps {
    fn compare_exchange(
        word: &AtomicU32,
        current: u32,
        new: u32,
        _success: Ordering,
    ) -> Result<u32, u32> {
        let found = word.load(Acquire);
        if found != current {
            return Err(found);
        }
        word.store(new, Release);
        Ok(found)
    }
}

/// Unlocking does not ask whose lock it is.
#[derive(Debug)]
struct AnybodyFrees;

impl Fault for AnybodyFrees {
    fn compare_exchange(
        word: &AtomicU32,
        current: u32,
        new: u32,
        success: Ordering,
    ) -> Result<u32, u32> {
        if new == 0 {
            return Ok(word.swap(0, success));
        }
        word.compare_exchange(current, new, success, Relaxed)
    }
}

#[test]
#[should_panic(expected = "Causality violation")]
fn locking_must_acquire() {
    workers_exclude_each_other::<Faulty<NoAcquire>>(2, 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn unlocking_must_release() {
    workers_exclude_each_other::<Faulty<NoRelease>>(2, 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn freeing_what_the_dead_held_must_release() {
    a_parent_frees_what_the_dead_held::<Faulty<NoRelease>>(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn comparing_and_storing_must_be_one_step() {
    workers_exclude_each_other::<Faulty<TwoSteps>>(2, 1);
}

#[test]
#[should_panic(expected = "a tidy worker holds nothing")]
fn freeing_must_ask_whose_lock_it_is() {
    a_parent_frees_what_the_dead_held::<Faulty<AnybodyFrees>>(true);
}
