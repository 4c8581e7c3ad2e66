//! Every interleaving of handles with the loop's side of them: `src/remote.rs` and the `MergingInbox` of
//! `evcore-posted` over loom's atomics and lock.
//!
//! Threads write a request and notify the loop. The loop sleeps until it is notified, and takes the
//! requests. If a request is lost, the loop sleeps for ever, which loom reports as a deadlock. Each
//! mutant has one wrong step, which loom must find.

#![cfg(evcore_loom)]

#[path = "../src/remote.rs"]
#[allow(dead_code, reason = "the models use single steps")]
mod remote;
#[path = "../src/sync.rs"]
mod sync;

// The `Arc` is the standard library's, because loom's panics when it is dropped after a deadlock,
// which aborts.
use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Relaxed, Release},
    },
    time::Duration,
};

use evcore::{
    Ready,
    posted::{MergingInbox, Posted},
};
use loom::{
    sync::{Condvar, Mutex, atomic::AtomicBool},
    thread,
};
use remote::{NO_SHUTDOWN, Remote, RemoteRequests};

/// The wake-up for which the loop sleeps. It is pending until a wait has seen it.
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

/// The steps of handles and loop. A mutant has one wrong step.
#[derive(Clone, Copy)]
struct Steps {
    wake: fn(&RemoteRequests, &Doorbell),
    expose_fd: fn(&RemoteRequests, &Doorbell),
    shut_down: fn(&RemoteRequests, &Doorbell, Duration),
    take_wake: fn(&RemoteRequests) -> bool,
    take_shutdown: fn(&RemoteRequests) -> Option<Duration>,
}

const SOUND: Steps = Steps {
    wake: |requests, doorbell| {
        requests.request_wake();
        doorbell.notify();
    },
    // A write to the exposed descriptor carries no request.
    expose_fd: |requests, doorbell| {
        requests.expose_fd();
        doorbell.notify();
    },
    shut_down: |requests, doorbell, timeout| {
        requests.request_shutdown(timeout);
        doorbell.notify();
    },
    take_wake: RemoteRequests::take_wake,
    take_shutdown: RemoteRequests::take_shutdown,
};

const LONG: Duration = Duration::from_millis(30);
const SHORT: Duration = Duration::from_millis(10);

/// Runs a model in all interleavings that have few enough preemptions.
fn check(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

/// A write of a thread before its request. It orders nothing by itself.
type Done = Arc<[AtomicBool; 2]>;

fn nothing_done() -> Done {
    Arc::new([AtomicBool::new(false), AtomicBool::new(false)])
}

/// Checks that two threads wake the loop, and that it then sees the work of each.
fn every_wake_is_seen(steps: Steps, by: [fn(Steps, &RemoteRequests, &Doorbell); 2]) {
    check(move || {
        let (doorbell, done) = (Arc::new(Doorbell::default()), nothing_done());
        let requests = Arc::new(RemoteRequests::new());
        let wakers = [0, 1].map(|me| {
            let (doorbell, done, requests) = (doorbell.clone(), done.clone(), requests.clone());
            thread::spawn(move || {
                done[me].store(true, Relaxed);
                by[me](steps, &requests, &doorbell);
            })
        });
        let mut seen = [false; 2];
        while seen != [true; 2] {
            doorbell.wait();
            if (steps.take_wake)(&requests) {
                seen = [0, 1].map(|thread| done[thread].load(Relaxed));
            }
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}

fn wakes(steps: Steps, requests: &RemoteRequests, doorbell: &Doorbell) {
    (steps.wake)(requests, doorbell);
}

fn exposes_fd(steps: Steps, requests: &RemoteRequests, doorbell: &Doorbell) {
    (steps.expose_fd)(requests, doorbell);
}

/// Checks that of two requested shutdowns the loop gets the shorter, and sees the work of both
/// threads.
fn the_shortest_shutdown_is_seen(steps: Steps) {
    check(move || {
        let (doorbell, done) = (Arc::new(Doorbell::default()), nothing_done());
        let requests = Arc::new(RemoteRequests::new());
        let requesting = [(0, SHORT), (1, LONG)].map(|(me, timeout)| {
            let (doorbell, done, requests) = (doorbell.clone(), done.clone(), requests.clone());
            thread::spawn(move || {
                done[me].store(true, Relaxed);
                (steps.shut_down)(&requests, &doorbell, timeout);
            })
        });
        let mut shortest = None;
        while shortest != Some(SHORT) {
            doorbell.wait();
            if let Some(requested) = (steps.take_shutdown)(&requests) {
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
    every_wake_is_seen(SOUND, [wakes, exposes_fd]);
}

#[test]
fn no_shutdown_is_lost_and_the_shortest_counts() {
    the_shortest_shutdown_is_seen(SOUND);
}

/// Posts like a handle.
fn post(posts: &MergingInbox<Ready>, doorbell: &Doorbell, index: u32, ready: Ready) {
    match posts.post(index, NonZeroU32::MIN, ready) {
        Posted::First => doorbell.notify(),
        Posted::Behind => {}
        Posted::Closed => panic!("the loop exists"),
    }
}

/// If two threads post one token, the loop gets the readiness of both, merged or not.
#[test]
fn no_readiness_of_merged_posts_is_lost() {
    check(|| {
        let (doorbell, posts) = (Arc::new(Doorbell::default()), Arc::default());
        let posting = [Ready::READABLE, Ready::WRITABLE].map(|ready| {
            let (posts, doorbell) = (Arc::clone(&posts), Arc::clone(&doorbell));
            thread::spawn(move || post(&posts, &doorbell, 0, ready))
        });
        let mut arrived = Ready::NONE;
        while arrived != Ready::READABLE | Ready::WRITABLE {
            doorbell.wait();
            posts.take(9, |_, _, ready| arrived |= ready);
        }
        posting
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

/// The loop's side is the shipped one. One thread wakes and requests a shutdown, the other posts
/// twice.
#[test]
fn wakes_posts_and_shutdowns_all_arrive_and_stay_apart() {
    check(|| {
        let doorbell = Arc::new(Doorbell::default());
        let mut remote = Remote::new();
        let (requests, notify) = (remote.requests(), Arc::clone(&doorbell));
        let requesting = thread::spawn(move || {
            (SOUND.wake)(&requests, &notify);
            (SOUND.shut_down)(&requests, &notify, SHORT);
        });
        let (requests, notify) = (remote.requests(), Arc::clone(&doorbell));
        let posting = thread::spawn(move || {
            for index in [0, 1] {
                post(&requests.posts, &notify, index, Ready::READABLE);
            }
        });

        let (mut woken, mut posted, mut shutdown) = (0, Vec::new(), None);
        while woken == 0 || posted.len() < 2 || shutdown.is_none() {
            if remote.pending() == 0 {
                doorbell.wait();
                remote.on_woken();
            }
            if remote.has_pending() {
                posted.extend(remote.take_posts(1).iter().map(|(token, _)| token.index()));
                shutdown = shutdown.or_else(|| remote.take_shutdown());
            }
            woken += u32::from(remote.take_wake());
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
        wake: |requests, doorbell| {
            doorbell.notify();
            requests.request_wake();
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_must_not_hide_what_another_thread_released() {
    let steps = Steps {
        wake: |requests, doorbell| {
            requests.wake_requested.store(true, Release);
            doorbell.notify();
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_must_release_what_came_before() {
    let steps = Steps {
        wake: |requests, doorbell| {
            requests.wake_requested.swap(true, Relaxed);
            doorbell.notify();
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_loop_must_acquire_what_came_before_a_wake() {
    let steps = Steps {
        take_wake: |requests| {
            requests.wake_requested.swap(false, Release) | requests.fd_exposed.load(Acquire)
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_loop_must_take_a_wake_in_one_step() {
    let steps = Steps {
        take_wake: |requests| {
            let requested = requests.wake_requested.load(Acquire);
            requests.wake_requested.store(false, Release);
            requested | requests.fd_exposed.load(Acquire)
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn exposing_the_descriptor_must_be_written_first() {
    let steps = Steps {
        expose_fd: |requests, doorbell| {
            doorbell.notify();
            requests.expose_fd();
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, exposes_fd]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_loop_must_check_whether_the_descriptor_is_exposed() {
    let steps = Steps {
        take_wake: |requests| requests.wake_requested.swap(false, Acquire),
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, exposes_fd]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_longer_shutdown_must_not_displace_a_shorter_one() {
    the_shortest_shutdown_is_seen(Steps {
        shut_down: |requests, doorbell, timeout| {
            let ms = u64::try_from(timeout.as_millis()).unwrap();
            requests.shutdown_ms.store(ms, Release);
            doorbell.notify();
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "what came before is not visible")]
fn a_shutdown_must_release_what_came_before() {
    the_shortest_shutdown_is_seen(Steps {
        shut_down: |requests, doorbell, timeout| {
            let ms = u64::try_from(timeout.as_millis()).unwrap();
            requests.shutdown_ms.fetch_min(ms, Relaxed);
            doorbell.notify();
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "what came before is not visible")]
fn the_loop_must_acquire_what_came_before_a_shutdown() {
    the_shortest_shutdown_is_seen(Steps {
        take_shutdown: |requests| {
            let ms = requests.shutdown_ms.swap(NO_SHUTDOWN, Release);
            (ms != NO_SHUTDOWN).then(|| Duration::from_millis(ms))
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_loop_must_take_a_shutdown_in_one_step() {
    the_shortest_shutdown_is_seen(Steps {
        take_shutdown: |requests| {
            let ms = requests.shutdown_ms.load(Acquire);
            requests.shutdown_ms.store(NO_SHUTDOWN, Release);
            (ms != NO_SHUTDOWN).then(|| Duration::from_millis(ms))
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_shutdown_must_write_its_request_before_it_wakes() {
    the_shortest_shutdown_is_seen(Steps {
        shut_down: |requests, doorbell, timeout| {
            doorbell.notify();
            requests.request_shutdown(timeout);
        },
        ..SOUND
    });
}
