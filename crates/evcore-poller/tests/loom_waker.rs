//! Every interleaving of the waker's flag: the file that ships, over loom's atomics.
//!
//! Threads note something and wake; a poller waits until it has seen all of it. A wake-up that is
//! lost, or that does not bring what was done before it, leaves the poller waiting for ever, which
//! loom reports as a deadlock. Each mutant does a little less than it should, and must be caught.

#![cfg(evcore_loom)]

#[path = "../src/wake_flag.rs"]
mod wake_flag;

// The standard library's `Arc`: loom's panics in its `drop` after a deadlock, which aborts.
use std::sync::{
    Arc,
    atomic::Ordering::{self, Acquire, Relaxed, Release},
};

use loom::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
    thread,
};
use wake_flag::{Doorbell, WakeFlag, Word};

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
    /// What was written and not read.
    rings: u64,
    /// The watch has an event that was not delivered yet, whether it is still true or not.
    queued: bool,
}

impl Doorbell for Descriptor {
    fn ring(&self) {
        self.writes.fetch_add(1, Relaxed);
        self.state.lock().unwrap().rings += 1;
        // The kernel needs_scan at the descriptor without its lock. So an event that was queued before may
        // be delivered for this ring, and then another one.
        self.state.lock().unwrap().queued = true;
        self.changed.notify_one();
    }

    fn silence(&self) -> u64 {
        std::mem::take(&mut self.state.lock().unwrap().rings)
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

    /// Begins another watch, which has an event if there is something to be read.
    fn watch_again(&self) {
        let mut state = self.state.lock().unwrap();
        state.queued = state.rings > 0;
    }
}

impl State {
    fn reports(&self, watch: Watch) -> bool {
        match watch {
            Watch::Level => self.rings > 0,
            Watch::Edge => self.rings > 0 && self.queued,
            Watch::OneShot => self.queued,
        }
    }
}

/// What a wait reports.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// That there is something to be read: kqueue, poll and select.
    Level,
    /// The same, once for each write: epoll.
    Edge,
    /// That there was something when the event was queued, once a watch: event ports.
    OneShot,
}

/// What a poller does to take a wake. Returns whether it has taken one.
type Take<W> = fn(&WakeFlag<W, Descriptor>) -> bool;

/// What a poller does after waits that the waker has ended, after those that it has not, and then.
struct Poller<W> {
    watch: Watch,
    woken: Take<W>,
    not_woken: Take<W>,
    then: fn(&WakeFlag<W, Descriptor>),
    /// The first of the threads rings by hand.
    is_lent: bool,
}

impl<W: Word> Poller<W> {
    /// What ships.
    fn with(watch: Watch) -> Self {
        Self {
            watch,
            woken: match watch {
                Watch::Edge => WakeFlag::acknowledge,
                Watch::Level | Watch::OneShot => WakeFlag::take,
            },
            not_woken: |wake_flag| wake_flag.is_raised() && wake_flag.take(),
            then: match watch {
                Watch::OneShot => |wake_flag| wake_flag.bell().watch_again(),
                Watch::Level | Watch::Edge => |_| {},
            },
            is_lent: false,
        }
    }

    /// What ships on epoll, where each wait has something to be rid of, for which the set is rebuilt.
    fn rebuilding() -> Self {
        Self {
            then: |wake_flag| {
                wake_flag.renew();
                wake_flag.bell().watch_again();
            },
            ..Self::with(Watch::Edge)
        }
    }

    /// One that does not look at the flag, so that more interleavings can be had.
    fn relying_on_its_kernel(watch: Watch) -> Self {
        Self {
            not_woken: |_| false,
            ..Self::with(watch)
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
    let Poller {
        watch,
        woken,
        not_woken,
        then,
        is_lent,
    } = poller;
    model.check(move || {
        let word = W::from(AtomicBool::new(false));
        let wake_flag = Arc::new(WakeFlag::new(word, Descriptor::default()));
        // Relaxed as well: whether they are seen is up to the wake_flag alone.
        let notes: Arc<Vec<_>> = Arc::new((0..threads).map(|_| AtomicUsize::new(0)).collect());
        // The standard library's: it orders nothing.
        let made = Arc::new(std::sync::atomic::AtomicUsize::new(0));

        if is_lent {
            wake_flag.lend();
        }

        let wakers: Vec<_> = (0..threads)
            .map(|me| {
                let (wake_flag, notes) = (Arc::clone(&wake_flag), Arc::clone(&notes));
                let made = Arc::clone(&made);
                thread::spawn(move || {
                    for note in 1..=wakes {
                        notes[me].store(note, Relaxed);
                        made.fetch_add(1, Relaxed);
                        if is_lent && me == 0 {
                            wake_flag.bell().ring();
                        } else {
                            wake_flag.wake();
                        }
                    }
                })
            })
            .collect();

        let (mut taken, mut renewals) = (0, 0);
        let mut take_by = |take: Take<W>| {
            let writes = wake_flag.bell().writes.load(Relaxed);
            assert!(
                is_lent || writes <= taken + renewals + 1,
                "at most one write between two takes"
            );
            taken += usize::from(take(&wake_flag));
            assert!(taken <= made.load(Relaxed), "a wake is taken once");
            let before = wake_flag.bell().writes.load(Relaxed);
            then(&wake_flag);
            renewals += wake_flag.bell().writes.load(Relaxed) - before;
        };
        let is_missing = || notes.iter().any(|note| note.load(Relaxed) < wakes);
        while is_missing() {
            // A wait that other events end, and one that nothing but the waker ends.
            take_by(not_woken);
            if is_missing() {
                wake_flag.bell().wait(watch);
                take_by(woken);
            }
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());

        take_by(WakeFlag::take);
        assert!(!wake_flag.is_raised(), "the next wake rings");
    });
}

#[test]
fn a_thread_wakes_a_level_triggered_poller() {
    no_wake_up_is_lost::<Sound>(1, 2, None, Poller::with(Watch::Level));
    no_wake_up_is_lost::<Sound>(1, 3, Some(4), Poller::with(Watch::Level));
}

#[test]
fn a_thread_wakes_an_edge_triggered_poller() {
    no_wake_up_is_lost::<Sound>(1, 2, Some(5), Poller::with(Watch::Edge));
    no_wake_up_is_lost::<Sound>(1, 3, Some(3), Poller::with(Watch::Edge));
    no_wake_up_is_lost::<Sound>(1, 3, Some(3), Poller::rebuilding());
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
fn two_threads_wake_an_edge_triggered_poller() {
    no_wake_up_is_lost::<Sound>(2, 1, Some(4), Poller::with(Watch::Edge));
    no_wake_up_is_lost::<Sound>(2, 2, Some(3), Poller::with(Watch::Edge));
    no_wake_up_is_lost::<Sound>(2, 1, Some(3), Poller::rebuilding());
}

#[test]
fn two_threads_wake_an_edge_triggered_poller_one_of_them_by_hand() {
    for poller in [Poller::with(Watch::Edge), Poller::rebuilding()] {
        let poller = Poller {
            is_lent: true,
            ..poller
        };
        no_wake_up_is_lost::<Sound>(2, 1, Some(3), poller);
    }
}

#[test]
fn two_threads_wake_a_poller_with_one_shot_events() {
    no_wake_up_is_lost::<Sound>(2, 1, Some(4), Poller::with(Watch::OneShot));
    no_wake_up_is_lost::<Sound>(2, 2, Some(3), Poller::with(Watch::OneShot));
}

#[test]
fn two_threads_wake_a_poller_that_relies_on_its_kernel() {
    for watch in [Watch::Level, Watch::Edge] {
        let poller = Poller::relying_on_its_kernel(watch);
        no_wake_up_is_lost::<Sound>(2, 1, Some(5), poller);
    }
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

/// A wake needs_scan at the flag and raises it in two steps.
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

/// A thread wakes a poller that does something wrong.
fn a_thread_wakes_one_that_errs(poller: Poller<Sound>) {
    no_wake_up_is_lost(1, 3, Some(3), poller);
}

#[test]
#[should_panic(expected = "the next wake rings")]
fn silencing_must_come_before_the_flag_is_lowered() {
    a_thread_wakes_one_that_errs(Poller {
        woken: |wake_flag| {
            wake_flag.lower();
            wake_flag.bell().silence() > 0
        },
        ..Poller::with(Watch::Level)
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_flag_must_be_lowered_after_the_silencing() {
    a_thread_wakes_one_that_errs(Poller {
        woken: |wake_flag| wake_flag.bell().silence() > 0,
        ..Poller::with(Watch::Level)
    });
}

#[test]
#[should_panic(expected = "a wake is taken once")]
fn a_raised_flag_alone_must_not_be_taken_for_a_wake() {
    a_thread_wakes_one_that_errs(Poller {
        not_woken: |wake_flag| {
            let is_raised = wake_flag.is_raised();
            if is_raised {
                wake_flag.bell().silence();
                wake_flag.lower();
            }
            is_raised
        },
        ..Poller::with(Watch::Level)
    });
}

#[test]
#[should_panic(expected = "a wake is taken once")]
fn a_queued_event_alone_must_not_be_taken_for_a_wake() {
    a_thread_wakes_one_that_errs(Poller {
        woken: |wake_flag| {
            wake_flag.take();
            true
        },
        ..Poller::with(Watch::OneShot)
    });
}

#[test]
#[should_panic(expected = "a wake is taken once")]
fn rings_that_were_left_must_be_counted() {
    a_thread_wakes_one_that_errs(Poller {
        woken: |wake_flag| wake_flag.lower() || wake_flag.take(),
        ..Poller::with(Watch::Edge)
    });
}

#[test]
#[should_panic(expected = "the next wake rings")]
fn a_set_that_is_rebuilt_must_report_what_the_old_one_has_not() {
    a_thread_wakes_one_that_errs(Poller {
        then: |wake_flag| {
            wake_flag.bell().silence();
            wake_flag.bell().watch_again();
        },
        ..Poller::rebuilding()
    });
}
