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

/// A descriptor, and the kernel's watch of it.
#[derive(Default)]
struct Descriptor {
    state: Mutex<State>,
    changed: Condvar,
    /// How often it was written to. The standard library's, so that it orders nothing else.
    writes: std::sync::atomic::AtomicUsize,
}

#[derive(Default)]
struct State {
    /// It is readable.
    rung: bool,
    /// A one-shot watch has an event that was not delivered yet, whether it is still true or not.
    queued: bool,
}

impl Bell for Descriptor {
    fn ring(&self) {
        self.writes.fetch_add(1, Relaxed);
        let mut state = self.state.lock().unwrap();
        (state.rung, state.queued) = (true, true);
        self.changed.notify_one();
    }

    fn silence(&self) -> bool {
        std::mem::take(&mut self.state.lock().unwrap().rung)
    }
}

impl Descriptor {
    fn wait(&self, watch: Watch) {
        let mut state = self.state.lock().unwrap();
        while !state.reports(watch) {
            state = self.changed.wait(state).unwrap();
        }
        state.queued = false;
    }

    /// Watches anew, which a one-shot watch needs after each event.
    fn watch_again(&self) {
        let mut state = self.state.lock().unwrap();
        state.queued = state.rung;
    }
}

impl State {
    fn reports(&self, watch: Watch) -> bool {
        match watch {
            Watch::Level => self.rung,
            Watch::OneShot => self.queued,
        }
    }
}

/// What a wait reports.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// That there is something to be read: epoll, kqueue, poll and select.
    Level,
    /// That there was when the event was queued: event ports.
    OneShot,
}

/// What a poller does to take a wake. Returns whether it has taken one.
type Take<W> = fn(&Alarm<W, Descriptor>) -> bool;

/// What ships.
fn take<W: Word>(alarm: &Alarm<W, Descriptor>) -> bool {
    alarm.take()
}

/// What ships, for a wait that other events have ended: it looks at the flag first.
fn take_early<W: Word>(alarm: &Alarm<W, Descriptor>) -> bool {
    alarm.is_raised() && alarm.take()
}

/// What a poller does after waits that the waker has ended, and after those that it has not.
struct Poller<W> {
    watch: Watch,
    woken: Take<W>,
    not_woken: Take<W>,
}

impl<W: Word> Poller<W> {
    fn with(watch: Watch) -> Self {
        Self {
            watch,
            woken: take,
            not_woken: take_early,
        }
    }
}

/// All interleavings, where that takes seconds; else those with so many preemptions.
type Bound = Option<usize>;

/// `threads` note and wake, `wakes` times each, and a poller waits until it has seen all.
fn no_wake_up_is_lost<W>(threads: usize, wakes: usize, preemptions: Bound, poller: Poller<W>)
where
    W: Word + From<AtomicBool> + Send + Sync + 'static,
{
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    let Poller { watch, .. } = poller;
    let (woken, not_woken) = (poller.woken, poller.not_woken);
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

        let mut taken = 0;
        let mut take_by = |take: Take<W>| {
            let writes = alarm.bell().writes.load(Relaxed);
            assert!(writes <= taken + 1, "at most one write between two takes");
            taken += usize::from(take(&alarm));
            let writes = alarm.bell().writes.load(Relaxed);
            assert!(taken <= writes, "a wake is taken once");
        };
        let is_missing = || notes.iter().any(|note| note.load(Relaxed) < wakes);
        while is_missing() {
            // A wait that other events end, and one that nothing but the waker ends.
            take_by(not_woken);
            if is_missing() {
                alarm.bell().wait(watch);
                take_by(woken);
                if watch == Watch::OneShot {
                    alarm.bell().watch_again();
                }
            }
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());

        take_by(woken);
        assert!(!alarm.is_raised(), "the next wake rings");
    });
}

#[test]
fn a_thread_wakes_a_level_triggered_poller() {
    no_wake_up_is_lost::<Sound>(1, 2, None, Poller::with(Watch::Level));
    no_wake_up_is_lost::<Sound>(1, 3, Some(4), Poller::with(Watch::Level));
}

#[test]
fn a_thread_wakes_a_poller_with_one_shot_events() {
    no_wake_up_is_lost::<Sound>(1, 2, None, Poller::with(Watch::OneShot));
    no_wake_up_is_lost::<Sound>(1, 3, Some(4), Poller::with(Watch::OneShot));
}

#[test]
fn two_threads_wake_a_level_triggered_poller() {
    no_wake_up_is_lost::<Sound>(2, 1, Some(4), Poller::with(Watch::Level));
    no_wake_up_is_lost::<Sound>(2, 2, Some(3), Poller::with(Watch::Level));
}

#[test]
fn two_threads_wake_a_poller_with_one_shot_events() {
    no_wake_up_is_lost::<Sound>(2, 1, Some(4), Poller::with(Watch::OneShot));
    no_wake_up_is_lost::<Sound>(2, 2, Some(3), Poller::with(Watch::OneShot));
}

/// Without a look at the flag, all interleavings can be had.
#[test]
fn two_threads_wake_a_poller_that_relies_on_its_kernel() {
    let poller = Poller {
        not_woken: |_| false,
        ..Poller::with(Watch::Level)
    };
    no_wake_up_is_lost::<Sound>(2, 1, None, poller);
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
    fn load(&self, order: Ordering) -> bool {
        self.0.load(order)
    }

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

/// Two threads wake once each, by a flag with a fault.
fn two_threads_wake_by<M: Fault + Send + Sync + 'static>() {
    no_wake_up_is_lost::<Flag<M>>(2, 1, Some(3), Poller::with(Watch::Level));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_must_release() {
    two_threads_wake_by::<WakeReleasesNothing>();
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_acknowledgement_must_acquire() {
    two_threads_wake_by::<AcknowledgementAcquiresNothing>();
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_acknowledgement_must_read_what_it_overwrites() {
    two_threads_wake_by::<AcknowledgementStores>();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_must_look_and_raise_in_one_step() {
    two_threads_wake_by::<WakeInTwoSteps>();
}

#[test]
#[should_panic(expected = "at most one write")]
fn a_wake_must_look() {
    two_threads_wake_by::<WakeAlwaysRings>();
}

/// A thread wakes, a poller takes each wake in a wrong way.
fn a_thread_wakes_one_that_takes_by(take: Take<Sound>) {
    let poller = Poller {
        woken: take,
        ..Poller::with(Watch::Level)
    };
    no_wake_up_is_lost::<Sound>(1, 3, Some(3), poller);
}

#[test]
#[should_panic(expected = "deadlock")]
fn silencing_must_come_before_the_acknowledgement() {
    a_thread_wakes_one_that_takes_by(|alarm| {
        alarm.acknowledge();
        alarm.bell().silence()
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn what_was_silenced_must_be_acknowledged() {
    a_thread_wakes_one_that_takes_by(|alarm| alarm.bell().silence());
}

#[test]
#[should_panic(expected = "a wake is taken once")]
fn a_raised_flag_alone_must_not_be_taken_for_a_wake() {
    let poller = Poller {
        not_woken: |alarm: &Alarm<Sound, _>| {
            let is_raised = alarm.is_raised();
            if is_raised {
                alarm.bell().silence();
                alarm.acknowledge();
            }
            is_raised
        },
        ..Poller::with(Watch::Level)
    };
    no_wake_up_is_lost(1, 2, Some(3), poller);
}

#[test]
#[should_panic(expected = "a wake is taken once")]
fn a_queued_event_alone_must_not_be_taken_for_a_wake() {
    let poller = Poller {
        woken: |alarm: &Alarm<Sound, _>| {
            alarm.take();
            true
        },
        ..Poller::with(Watch::OneShot)
    };
    no_wake_up_is_lost(1, 2, Some(3), poller);
}
