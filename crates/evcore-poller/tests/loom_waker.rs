//! Every interleaving of the waker's flag: the file that ships, over loom's atomics.
//!
//! Threads note something and wake; a poller waits until it has seen all of it. A wake-up that is
//! lost, or that does not bring what was done before it, leaves the poller waiting for ever, which
//! loom reports as a deadlock. Each mutant does a little less than it should, and must be caught.

#![cfg(evcore_loom)]

#[path = "../src/alarm.rs"]
mod alarm;

// The standard library's `Arc`: loom's panics in its `drop` after a deadlock, which aborts.
use std::sync::{
    Arc,
    atomic::Ordering::{self, Acquire, Relaxed, Release},
};

use alarm::{Alarm, Bell, Word};
use loom::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
    thread,
};

/// A descriptor: rung until a wait has seen it (edge-triggered), or until silenced (level).
#[derive(Default)]
struct Descriptor {
    rung: Mutex<bool>,
    changed: Condvar,
    /// How often it was written to. The standard library's, so that it orders nothing else.
    writes: std::sync::atomic::AtomicUsize,
}

impl Bell for Descriptor {
    fn ring(&self) {
        self.writes.fetch_add(1, Relaxed);
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn silence(&self) {
        *self.rung.lock().unwrap() = false;
    }
}

impl Descriptor {
    fn wait(&self, triggered: Triggered) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        if triggered == Triggered::Edge {
            *rung = false;
        }
    }
}

/// What a watch reports: each write, or that something is there to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Triggered {
    Edge,
    Level,
}

/// What a poller does when a wait has brought a wake-up.
type Answer<W> = fn(&Alarm<W, Descriptor>);

/// As epoll, which sees each write once.
fn acknowledge<W: Word>(alarm: &Alarm<W, Descriptor>) {
    alarm.acknowledge();
}

/// As poll, which sees what is written until it is read.
fn drain<W: Word>(alarm: &Alarm<W, Descriptor>) {
    alarm.drain();
}

/// `threads` note and wake, `wakes` times each, and a poller waits until it has seen all.
fn no_wake_up_is_lost<W>(threads: usize, wakes: usize, triggered: Triggered, answer: Answer<W>)
where
    W: Word + From<AtomicBool> + Send + Sync + 'static,
{
    let mut model = loom::model::Builder::new();
    // All interleavings where that takes seconds, else those with few enough preemptions.
    model.preemption_bound = (threads * wakes > 3).then_some(3);
    model.check(move || {
        let word = W::from(AtomicBool::new(false));
        let alarm = Arc::new(Alarm::new(word, Descriptor::default()));
        // Relaxed as well: whether they are seen is up to the alarm alone.
        let notes: Arc<Vec<_>> = Arc::new((0..threads).map(|_| AtomicUsize::new(0)).collect());

        let wakers: Vec<_> = (0..threads)
            .map(|me| {
                let (alarm, notes) = (Arc::clone(&alarm), Arc::clone(&notes));
                thread::spawn(move || {
                    for note in 1..=wakes {
                        notes[me].store(note, Relaxed);
                        alarm.wake();
                    }
                })
            })
            .collect();

        let mut acknowledged = 0;
        while notes.iter().any(|note| note.load(Relaxed) < wakes) {
            alarm.bell().wait(triggered);
            let writes = alarm.bell().writes.load(Relaxed);
            assert!(
                writes <= acknowledged + 1,
                "at most one write between two acknowledgements"
            );
            answer(&alarm);
            acknowledged += 1;
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}

#[test]
fn a_thread_wakes_an_edge_triggered_poller() {
    no_wake_up_is_lost::<Sound>(1, 3, Triggered::Edge, acknowledge);
}

#[test]
fn a_thread_wakes_a_level_triggered_poller() {
    no_wake_up_is_lost::<Sound>(1, 3, Triggered::Level, drain);
}

#[test]
fn two_threads_wake_an_edge_triggered_poller() {
    no_wake_up_is_lost::<Sound>(2, 1, Triggered::Edge, acknowledge);
    no_wake_up_is_lost::<Sound>(2, 2, Triggered::Edge, acknowledge);
}

#[test]
fn two_threads_wake_a_level_triggered_poller() {
    no_wake_up_is_lost::<Sound>(2, 1, Triggered::Level, drain);
    no_wake_up_is_lost::<Sound>(2, 2, Triggered::Level, drain);
}

/// loom's flag, with the fault that `M` makes.
struct Flag<M>(AtomicBool, std::marker::PhantomData<M>);

/// loom's flag as it should be.
type Sound = Flag<None>;

impl<M> From<AtomicBool> for Flag<M> {
    fn from(flag: AtomicBool) -> Self {
        Self(flag, std::marker::PhantomData)
    }
}

impl<M: Fault> Word for Flag<M> {
    fn swap(&self, raised: bool, order: Ordering) -> bool {
        M::swap(&self.0, raised, order)
    }
}

trait Fault {
    fn swap(flag: &AtomicBool, raised: bool, order: Ordering) -> bool;
}

enum None {}

impl Fault for None {
    fn swap(flag: &AtomicBool, raised: bool, order: Ordering) -> bool {
        flag.swap(raised, order)
    }
}

/// A wake does not release what was done before it.
enum WakeReleasesNothing {}

impl Fault for WakeReleasesNothing {
    fn swap(flag: &AtomicBool, raised: bool, order: Ordering) -> bool {
        flag.swap(raised, if raised { Acquire } else { order })
    }
}

/// An acknowledgement does not acquire what was done before the wakes.
enum AcknowledgementAcquiresNothing {}

impl Fault for AcknowledgementAcquiresNothing {
    fn swap(flag: &AtomicBool, raised: bool, order: Ordering) -> bool {
        flag.swap(raised, if raised { order } else { Release })
    }
}

/// An acknowledgement lowers the flag without reading who raised it.
enum AcknowledgementStores {}

impl Fault for AcknowledgementStores {
    fn swap(flag: &AtomicBool, raised: bool, order: Ordering) -> bool {
        if raised {
            return flag.swap(raised, order);
        }
        flag.store(false, Release);
        true
    }
}

/// A wake looks at the flag and raises it in two steps.
enum WakeInTwoSteps {}

impl Fault for WakeInTwoSteps {
    fn swap(flag: &AtomicBool, raised: bool, order: Ordering) -> bool {
        if !raised {
            return flag.swap(raised, order);
        }
        let before = flag.load(Acquire);
        flag.store(true, Release);
        before
    }
}

/// A wake does not look whether the flag was raised.
enum WakeAlwaysRings {}

impl Fault for WakeAlwaysRings {
    fn swap(flag: &AtomicBool, raised: bool, order: Ordering) -> bool {
        flag.swap(raised, order) && !raised
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_must_release() {
    no_wake_up_is_lost::<Flag<WakeReleasesNothing>>(2, 1, Triggered::Edge, acknowledge);
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_acknowledgement_must_acquire() {
    let mutant = no_wake_up_is_lost::<Flag<AcknowledgementAcquiresNothing>>;
    mutant(2, 1, Triggered::Edge, acknowledge);
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_acknowledgement_must_read_what_it_overwrites() {
    no_wake_up_is_lost::<Flag<AcknowledgementStores>>(2, 1, Triggered::Edge, acknowledge);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_must_look_and_raise_in_one_step() {
    no_wake_up_is_lost::<Flag<WakeInTwoSteps>>(2, 1, Triggered::Edge, acknowledge);
}

#[test]
#[should_panic(expected = "at most one write")]
fn a_wake_must_look() {
    no_wake_up_is_lost::<Flag<WakeAlwaysRings>>(2, 1, Triggered::Edge, acknowledge);
}

#[test]
#[should_panic(expected = "deadlock")]
fn silencing_must_come_before_the_acknowledgement() {
    no_wake_up_is_lost::<Sound>(1, 3, Triggered::Level, |alarm| {
        alarm.acknowledge();
        alarm.bell().silence();
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn what_was_silenced_must_be_acknowledged() {
    no_wake_up_is_lost::<Sound>(1, 2, Triggered::Level, |alarm| alarm.bell().silence());
}
