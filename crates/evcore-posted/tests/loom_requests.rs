//! Tests interleavings of threads that send requests with the event loop that takes them, with at
//! most three preemptions. `src/requests.rs` and `src/merging.rs` run over loom's atomics and lock.
//!
//! Threads write a request and notify the loop. The loop sleeps until it is notified, and takes the
//! requests. If a request is lost, the loop sleeps for ever, which loom reports as a deadlock. Each
//! mutant has one wrong step, which loom must find.

#![cfg(evcore_loom)]

#[path = "../src/merging.rs"]
mod merging;
#[path = "../src/requests.rs"]
pub mod requests;
#[path = "../src/sync.rs"]
#[allow(dead_code, unused_imports, reason = "the crate uses the rest")]
mod sync;

// These models use the `Arc` of the standard library. loom's `Arc` panics if it is dropped after a
// deadlock, and that panic aborts the test.
use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Relaxed, Release},
    },
    time::Duration,
};

use loom::{
    sync::{Condvar, Mutex, atomic::AtomicBool},
    thread,
};
use requests::{NO_SHUTDOWN, Requests};

type Shared = requests::Shared<u8>;
type Requester = requests::Requester<u8>;

/// The place where the loop sleeps. A wake-up is pending until a wait has taken it.
#[derive(Default)]
struct Doorbell {
    pending: Mutex<bool>,
    changed: Condvar,
}

impl Doorbell {
    fn notify(&self) {
        *self.pending.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut pending = self.pending.lock().unwrap();
        while !*pending {
            pending = self.changed.wait(pending).unwrap();
        }
        *pending = false;
    }
}

/// The steps of requesters and loop: as they ship, or with one of them wrong.
#[derive(Clone, Copy)]
struct Steps {
    wake: fn(&Requester),
    expose_waker: fn(&Requester),
    shut_down: fn(&Requester, Duration),
    take_wake: fn(&Shared) -> bool,
    take_shutdown: fn(&Shared) -> Option<Duration>,
}

const SOUND: Steps = Steps {
    wake: Requester::wake,
    // A use of the exposed waker carries no request.
    expose_waker: |requester| {
        requester.expose_waker();
        (requester.shared.end_wait)();
    },
    shut_down: Requester::shutdown,
    take_wake: Shared::take_wake,
    take_shutdown: Shared::take_shutdown,
};

const LONG: Duration = Duration::from_millis(30);
const SHORT: Duration = Duration::from_millis(10);

fn check(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

/// The writes of two threads before their requests. They order nothing by themselves.
type Done = Arc<[AtomicBool; 2]>;

fn nothing_done() -> Done {
    Arc::new([AtomicBool::new(false), AtomicBool::new(false)])
}

fn requester() -> (Arc<Doorbell>, Requester) {
    let doorbell = Arc::new(Doorbell::default());
    let notified = Arc::clone(&doorbell);
    let shared = Shared::new(Box::new(move || notified.notify()));
    let shared = Arc::new(shared);
    (doorbell, Requester { shared })
}

/// Checks that if two threads wake the loop, it sees what each thread did before its wake.
fn every_wake_is_seen(steps: Steps, by: [fn(Steps, &Requester); 2]) {
    check(move || {
        let ((doorbell, requester), done) = (requester(), nothing_done());
        let wakers = [0, 1].map(|me| {
            let (done, requester) = (done.clone(), requester.clone());
            thread::spawn(move || {
                done[me].store(true, Relaxed);
                by[me](steps, &requester);
            })
        });
        let mut seen = [false; 2];
        while seen != [true; 2] {
            doorbell.wait();
            if (steps.take_wake)(&requester.shared) {
                seen = [0, 1].map(|thread| done[thread].load(Relaxed));
            }
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}

fn wakes(steps: Steps, requester: &Requester) {
    (steps.wake)(requester);
}

fn exposes_waker(steps: Steps, requester: &Requester) {
    (steps.expose_waker)(requester);
}

/// Two threads request a shutdown. Checks that the loop gets the shorter timeout. Whenever the loop
/// takes a request, it must also see what the requesting thread did before.
fn the_shortest_shutdown_is_seen(steps: Steps) {
    check(move || {
        let ((doorbell, requester), done) = (requester(), nothing_done());
        let requesting = [(0, SHORT), (1, LONG)].map(|(me, timeout)| {
            let (done, requester) = (done.clone(), requester.clone());
            thread::spawn(move || {
                done[me].store(true, Relaxed);
                (steps.shut_down)(&requester, timeout);
            })
        });
        let mut shortest = None;
        while shortest != Some(SHORT) {
            doorbell.wait();
            if let Some(requested) = (steps.take_shutdown)(&requester.shared) {
                let thread = usize::from(requested == LONG);
                assert!(
                    done[thread].load(Relaxed),
                    "what came before is not visible"
                );
                shortest = [shortest, Some(requested)].into_iter().flatten().min();
            }
        }
        requesting
            .into_iter()
            .for_each(|requesting| requesting.join().unwrap());
    });
}

#[test]
fn no_wake_is_lost_and_what_came_before_it_is_visible() {
    every_wake_is_seen(SOUND, [wakes, wakes]);
    every_wake_is_seen(SOUND, [wakes, exposes_waker]);
}

#[test]
fn no_shutdown_is_lost_and_the_shortest_counts() {
    the_shortest_shutdown_is_seen(SOUND);
}

/// Two threads post one id. The loop gets the bits of both posts, whether the posts merge or not.
#[test]
fn no_bits_of_merged_posts_are_lost() {
    check(|| {
        let (doorbell, requester) = requester();
        let posting = [0b01, 0b10].map(|bit| {
            let requester = requester.clone();
            thread::spawn(move || requester.post(0, NonZeroU32::MIN, bit))
        });
        let mut arrived = 0;
        while arrived != 0b11 {
            doorbell.wait();
            let posts = &requester.shared.posts;
            posts.take(9, |_, _, bits| arrived |= bits);
        }
        for thread in posting {
            assert!(thread.join().unwrap(), "the loop exists");
        }
    });
}

/// The shipped [`Requests`] is the loop's side. One thread wakes and requests a shutdown, the other
/// posts twice.
#[test]
fn wakes_posts_and_shutdowns_all_arrive_and_stay_apart() {
    check(|| {
        let doorbell = Arc::new(Doorbell::default());
        let notified = Arc::clone(&doorbell);
        let mut requests = Requests::new(move || notified.notify());
        let requester = requests.requester();
        let requesting = thread::spawn(move || {
            requester.wake();
            requester.shutdown(SHORT);
        });
        let requester = requests.requester();
        let posting = thread::spawn(move || {
            for id in [0, 1] {
                assert!(requester.post(id, NonZeroU32::MIN, 1_u8));
            }
        });

        let (mut woken, mut posted, mut shutdown) = (0, Vec::new(), None);
        while woken == 0 || posted.len() < 2 || shutdown.is_none() {
            if requests.pending() == 0 {
                doorbell.wait();
                requests.on_woken();
            }
            if requests.may_have_posts() {
                requests.take_posts(1);
                posted.extend(requests.next_post().map(|(id, ..)| id));
                shutdown = shutdown.or_else(|| requests.take_shutdown());
            }
            woken += u32::from(requests.take_wake());
        }
        requesting.join().unwrap();
        posting.join().unwrap();
        assert_eq!((woken, posted, shutdown), (1, vec![0, 1], Some(SHORT)));
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_must_write_its_request_first() {
    let steps = Steps {
        wake: |requester| {
            (requester.shared.end_wait)();
            requester.shared.wake_requested.swap(true, Release);
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_must_not_hide_what_another_thread_released() {
    let steps = Steps {
        wake: |requester| {
            requester.shared.wake_requested.store(true, Release);
            (requester.shared.end_wait)();
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_must_release_what_came_before() {
    let steps = Steps {
        wake: |requester| {
            requester.shared.wake_requested.swap(true, Relaxed);
            (requester.shared.end_wait)();
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_loop_must_acquire_what_came_before_a_wake() {
    let steps = Steps {
        take_wake: |shared| {
            shared.wake_requested.swap(false, Release) | shared.waker_exposed.load(Acquire)
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_loop_must_take_a_wake_in_one_step() {
    let steps = Steps {
        take_wake: |shared| {
            let requested = shared.wake_requested.load(Acquire);
            shared.wake_requested.store(false, Release);
            requested | shared.waker_exposed.load(Acquire)
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn exposing_the_waker_must_be_written_first() {
    let steps = Steps {
        expose_waker: |requester| {
            (requester.shared.end_wait)();
            requester.expose_waker();
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, exposes_waker]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_loop_must_check_whether_the_waker_is_exposed() {
    let steps = Steps {
        take_wake: |shared| shared.wake_requested.swap(false, Acquire),
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, exposes_waker]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_longer_shutdown_must_not_displace_a_shorter_one() {
    the_shortest_shutdown_is_seen(Steps {
        shut_down: |requester, timeout| {
            let ms = u64::try_from(timeout.as_millis()).unwrap();
            requester.shared.shutdown_ms.store(ms, Release);
            (requester.shared.end_wait)();
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "what came before is not visible")]
fn a_shutdown_must_release_what_came_before() {
    the_shortest_shutdown_is_seen(Steps {
        shut_down: |requester, timeout| {
            let ms = u64::try_from(timeout.as_millis()).unwrap();
            requester.shared.shutdown_ms.fetch_min(ms, Relaxed);
            (requester.shared.end_wait)();
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "what came before is not visible")]
fn the_loop_must_acquire_what_came_before_a_shutdown() {
    the_shortest_shutdown_is_seen(Steps {
        take_shutdown: |shared| {
            let ms = shared.shutdown_ms.swap(NO_SHUTDOWN, Release);
            (ms != NO_SHUTDOWN).then(|| Duration::from_millis(ms))
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_loop_must_take_a_shutdown_in_one_step() {
    the_shortest_shutdown_is_seen(Steps {
        take_shutdown: |shared| {
            let ms = shared.shutdown_ms.load(Acquire);
            shared.shutdown_ms.store(NO_SHUTDOWN, Release);
            (ms != NO_SHUTDOWN).then(|| Duration::from_millis(ms))
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_shutdown_must_write_its_request_before_it_wakes() {
    the_shortest_shutdown_is_seen(Steps {
        shut_down: |requester, timeout| {
            (requester.shared.end_wait)();
            let ms = u64::try_from(timeout.as_millis()).unwrap();
            requester.shared.shutdown_ms.fetch_min(ms, Release);
        },
        ..SOUND
    });
}
