//! Checks the interleavings of the waker's flag. The flag's source file is the one that ships, with
//! a loom atomic as the flag.
//!
//! Threads store a number and wake; a poller waits until it has seen all numbers. A wake that is
//! lost, or that does not publish what was stored before it, leaves the poller waiting for ever,
//! which loom reports as a deadlock. Each faulty variant of the flag or of the poller changes one
//! step, and its test expects the failure.

#![cfg(evcore_loom)]

#[path = "../src/wake_flag.rs"]
mod wake_flag;

// The `Arc` is the standard library's, because loom's panics when it is dropped after a deadlock,
// which aborts the process.
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
use wake_flag::{AtomicFlag, Doorbell, WakeFlag};

/// A descriptor, and the kernel's watch of it.
#[derive(Default)]
struct Descriptor {
    state: Mutex<State>,
    changed: Condvar,
    /// The number of writes. The atomic is the standard library's, so that it orders nothing in the
    /// model.
    writes: std::sync::atomic::AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The number of notifications that were not read.
    notifications: u64,
    /// True if the watch has an undelivered event, even if there is nothing to read any more.
    queued: bool,
}

impl Doorbell for Descriptor {
    fn notify(&self) {
        self.writes.fetch_add(1, Relaxed);
        self.state.lock().unwrap().notifications += 1;
        // The kernel queues an event without holding the descriptor's lock. So an event that was
        // queued earlier may be delivered for this notification, and then another one.
        self.state.lock().unwrap().queued = true;
        self.changed.notify_one();
    }

    fn clear(&self) -> u64 {
        std::mem::take(&mut self.state.lock().unwrap().notifications)
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

    /// Begins another watch, which has an event if there is something to read.
    fn watch_again(&self) {
        let mut state = self.state.lock().unwrap();
        state.queued = state.notifications > 0;
    }
}

impl State {
    fn reports(&self, watch: Watch) -> bool {
        match watch {
            Watch::Level => self.notifications > 0,
            Watch::Edge => self.notifications > 0 && self.queued,
            Watch::OneShot => self.queued,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// Reports while there is something to read, as on kqueue, poll and select.
    Level,
    /// Reports each write at most once, if there is something to read, as on epoll.
    Edge,
    /// Reports once per watch, if there was something to read when the event was queued, as on
    /// event ports.
    OneShot,
}

/// Takes a wake as a poller does. Returns whether it has taken one.
type Take<W> = fn(&WakeFlag<W, Descriptor>) -> bool;

/// The steps of a poller after a wait that the waker has ended (`woken`), after any other wait
/// (`not_woken`), and then after either (`then`).
struct Poller<W> {
    watch: Watch,
    woken: Take<W>,
    not_woken: Take<W>,
    then: fn(&WakeFlag<W, Descriptor>),
    /// True if the first thread notifies the doorbell directly.
    is_exposed: bool,
}

impl<W: AtomicFlag> Poller<W> {
    /// The poller that ships.
    fn with(watch: Watch) -> Self {
        Self {
            watch,
            woken: match watch {
                Watch::Edge => WakeFlag::acknowledge,
                Watch::Level | Watch::OneShot => WakeFlag::take,
            },
            not_woken: |wake_flag| wake_flag.is_pending() && wake_flag.take(),
            then: match watch {
                Watch::OneShot => |wake_flag| wake_flag.doorbell().watch_again(),
                Watch::Level | Watch::Edge => |_| {},
            },
            is_exposed: false,
        }
    }

    /// The poller that ships, on epoll. Each wait brings a stale event and rebuilds the set.
    fn rebuilding() -> Self {
        Self {
            then: |wake_flag| {
                wake_flag.renew();
                wake_flag.doorbell().watch_again();
            },
            ..Self::with(Watch::Edge)
        }
    }

    /// A poller that never reads the flag, so that more interleavings can be explored.
    fn relying_on_its_kernel(watch: Watch) -> Self {
        Self {
            not_woken: |_| false,
            ..Self::with(watch)
        }
    }
}

/// Limit of the preemptions of an interleaving. `None` explores all interleavings, and is used
/// where that takes only seconds.
type Bound = Option<usize>;

/// Checks that `threads` threads can store and wake `wakes` times each, and that a poller sees all
/// numbers.
fn no_wake_up_is_lost<W>(threads: usize, wakes: usize, preemptions: Bound, poller: Poller<W>)
where
    W: AtomicFlag + From<AtomicBool> + Send + Sync + 'static,
{
    let mut model = loom::model::Builder::new();
    // loom takes a bound from LOOM_MAX_PREEMPTIONS, which CI sets.
    let bounds = [model.preemption_bound, preemptions];
    model.preemption_bound = bounds.into_iter().flatten().min();
    let Poller {
        watch,
        woken,
        not_woken,
        then,
        is_exposed,
    } = poller;
    model.check(move || {
        let flag = W::from(AtomicBool::new(false));
        let wake_flag = Arc::new(WakeFlag::new(flag, Descriptor::default()));
        // The stored numbers (notes) are relaxed, so that only the wake flag makes them visible.
        let notes: Arc<Vec<_>> = Arc::new((0..threads).map(|_| AtomicUsize::new(0)).collect());
        let made = Arc::new(std::sync::atomic::AtomicUsize::new(0));

        if is_exposed {
            wake_flag.expose();
        }

        let wakers: Vec<_> = (0..threads)
            .map(|me| {
                let (wake_flag, notes) = (Arc::clone(&wake_flag), Arc::clone(&notes));
                let made = Arc::clone(&made);
                thread::spawn(move || {
                    for note in 1..=wakes {
                        notes[me].store(note, Relaxed);
                        made.fetch_add(1, Relaxed);
                        if is_exposed && me == 0 {
                            wake_flag.doorbell().notify();
                        } else {
                            wake_flag.wake();
                        }
                    }
                })
            })
            .collect();

        let (mut taken, mut renewals) = (0, 0);
        let mut take_by = |take: Take<W>| {
            let writes = wake_flag.doorbell().writes.load(Relaxed);
            assert!(
                is_exposed || writes <= taken + renewals + 1,
                "at most one write between two takes"
            );
            taken += usize::from(take(&wake_flag));
            assert!(taken <= made.load(Relaxed), "a wake is taken once");
            let before = wake_flag.doorbell().writes.load(Relaxed);
            then(&wake_flag);
            renewals += wake_flag.doorbell().writes.load(Relaxed) - before;
        };
        let is_missing = || notes.iter().any(|note| note.load(Relaxed) < wakes);
        while is_missing() {
            // First comes a wait that other events end, and then one that only the waker ends.
            take_by(not_woken);
            if is_missing() {
                wake_flag.doorbell().wait(watch);
                take_by(woken);
            }
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());

        take_by(WakeFlag::take);
        assert!(!wake_flag.is_pending(), "the next wake notifies");
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
fn a_write_by_hand_wakes_an_edge_triggered_poller_too() {
    for poller in [Poller::with(Watch::Edge), Poller::rebuilding()] {
        let poller = Poller {
            is_exposed: true,
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

/// loom's flag, with the fault `M`.
struct Flag<M>(AtomicBool, std::marker::PhantomData<M>);

type Sound = Flag<None>;

impl<M> From<AtomicBool> for Flag<M> {
    fn from(flag: AtomicBool) -> Self {
        Self(flag, std::marker::PhantomData)
    }
}

impl<M: Fault> AtomicFlag for Flag<M> {
    fn load(&self, order: Ordering) -> bool {
        self.0.load(order)
    }

    fn swap(&self, pending: bool, order: Ordering) -> bool {
        M::swap(&self.0, pending, order)
    }
}

trait Fault {
    fn swap(flag: &AtomicBool, pending: bool, order: Ordering) -> bool;
}

enum None {}

impl Fault for None {
    fn swap(flag: &AtomicBool, pending: bool, order: Ordering) -> bool {
        flag.swap(pending, order)
    }
}

enum WakeReleasesNothing {}

impl Fault for WakeReleasesNothing {
    fn swap(flag: &AtomicBool, pending: bool, order: Ordering) -> bool {
        flag.swap(pending, if pending { Acquire } else { order })
    }
}

enum AcknowledgementAcquiresNothing {}

impl Fault for AcknowledgementAcquiresNothing {
    fn swap(flag: &AtomicBool, pending: bool, order: Ordering) -> bool {
        flag.swap(pending, if pending { order } else { Release })
    }
}

/// An acknowledgement clears the flag without reading its previous value.
enum AcknowledgementStores {}

impl Fault for AcknowledgementStores {
    fn swap(flag: &AtomicBool, pending: bool, order: Ordering) -> bool {
        if pending {
            return flag.swap(pending, order);
        }
        flag.store(false, Release);
        true
    }
}

enum WakeInTwoSteps {}

impl Fault for WakeInTwoSteps {
    fn swap(flag: &AtomicBool, pending: bool, order: Ordering) -> bool {
        if !pending {
            return flag.swap(pending, order);
        }
        let before = flag.load(Acquire);
        flag.store(true, Release);
        before
    }
}

enum WakeAlwaysNotifies {}

impl Fault for WakeAlwaysNotifies {
    fn swap(flag: &AtomicBool, pending: bool, order: Ordering) -> bool {
        flag.swap(pending, order) && !pending
    }
}

/// Two threads wake once each, through a flag with a fault.
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
fn a_wake_must_read_and_set_in_one_step() {
    two_threads_wake_by::<WakeInTwoSteps>();
}

#[test]
#[should_panic(expected = "at most one write")]
fn a_wake_must_read_the_flag() {
    two_threads_wake_by::<WakeAlwaysNotifies>();
}

fn a_thread_wakes_a_faulty_poller(poller: Poller<Sound>) {
    no_wake_up_is_lost(1, 3, Some(3), poller);
}

#[test]
#[should_panic(expected = "the next wake notifies")]
fn the_doorbell_must_be_cleared_before_the_flag() {
    a_thread_wakes_a_faulty_poller(Poller {
        woken: |wake_flag| {
            wake_flag.clear_flag();
            wake_flag.doorbell().clear() > 0
        },
        ..Poller::with(Watch::Level)
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_flag_must_be_cleared_after_the_doorbell() {
    a_thread_wakes_a_faulty_poller(Poller {
        woken: |wake_flag| wake_flag.doorbell().clear() > 0,
        ..Poller::with(Watch::Level)
    });
}

#[test]
#[should_panic(expected = "a wake is taken once")]
fn a_pending_flag_alone_must_not_count_as_a_wake() {
    a_thread_wakes_a_faulty_poller(Poller {
        not_woken: |wake_flag| {
            let is_pending = wake_flag.is_pending();
            if is_pending {
                wake_flag.doorbell().clear();
                wake_flag.clear_flag();
            }
            is_pending
        },
        ..Poller::with(Watch::Level)
    });
}

#[test]
#[should_panic(expected = "a wake is taken once")]
fn a_queued_event_alone_must_not_count_as_a_wake() {
    a_thread_wakes_a_faulty_poller(Poller {
        woken: |wake_flag| {
            wake_flag.take();
            true
        },
        ..Poller::with(Watch::OneShot)
    });
}

#[test]
#[should_panic(expected = "a wake is taken once")]
fn unread_notifications_must_be_counted() {
    a_thread_wakes_a_faulty_poller(Poller {
        woken: |wake_flag| wake_flag.clear_flag() || wake_flag.take(),
        ..Poller::with(Watch::Edge)
    });
}

#[test]
#[should_panic(expected = "the next wake notifies")]
fn a_rebuilt_set_must_report_an_unreported_wake() {
    a_thread_wakes_a_faulty_poller(Poller {
        then: |wake_flag| {
            wake_flag.doorbell().clear();
            wake_flag.doorbell().watch_again();
        },
        ..Poller::rebuilding()
    });
}
