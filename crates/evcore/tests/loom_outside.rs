//! Every interleaving of handles with the loop's side of them: the files that ship, over loom's
//! atomics, with an inbox over loom's lock.
//!
//! Threads say what they want and ring; the loop sleeps until it is rung for, and looks. What is
//! lost leaves it asleep for ever, which loom reports as a deadlock. Each mutant does one step
//! wrongly, and must be caught.

#![cfg(evcore_loom)]

#[path = "../src/calls.rs"]
#[allow(dead_code, reason = "here the steps are put together one by one")]
mod calls;
#[path = "../src/outside.rs"]
#[allow(dead_code, reason = "as above")]
mod outside;
#[path = "../src/sync.rs"]
mod sync;

// The standard library's `Arc`: loom's panics in its `drop` after a deadlock, which aborts.
use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Relaxed, Release},
    },
    time::Duration,
};

use calls::{Calls, NOT_ASKED};
use evcore::{Ready, Token};
use loom::{
    sync::{Condvar, Mutex, atomic::AtomicBool},
    thread,
};
use outside::Outside;

/// What the loop sleeps on: rung until a wait has seen it.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// The steps of the handles: those that ship, or with one of them done wrongly.
#[derive(Clone, Copy)]
struct Steps {
    wake: fn(&Calls, &Bell),
    lend: fn(&Calls, &Bell),
    shut_down: fn(&Calls, &Bell, Duration),
    answer: fn(&Calls) -> bool,
    take_shutdown: fn(&Calls) -> Option<Duration>,
}

const SOUND: Steps = Steps {
    wake: |calls, bell| {
        calls.call();
        bell.ring();
    },
    // Whoever was given the descriptor writes to it, and cannot say why.
    lend: |calls, bell| {
        calls.lend();
        bell.ring();
    },
    shut_down: |calls, bell, timeout| {
        calls.shut_down(timeout);
        bell.ring();
    },
    answer: Calls::answer,
    take_shutdown: Calls::take_shutdown,
};

const LONG: Duration = Duration::from_millis(30);
const SHORT: Duration = Duration::from_millis(10);

/// Runs a model in all interleavings that have few enough preemptions.
fn check(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

/// What a thread has done before it called: it orders nothing by itself.
type Done = Arc<[AtomicBool; 2]>;

fn nothing_done() -> Done {
    Arc::new([AtomicBool::new(false), AtomicBool::new(false)])
}

/// Two threads wake; whoever is told so sees what either had done.
fn every_wake_is_seen(steps: Steps, by: [fn(Steps, &Calls, &Bell); 2]) {
    check(move || {
        let (bell, done) = (Arc::new(Bell::default()), nothing_done());
        let calls = Arc::new(Calls::new());
        let wakers = [0, 1].map(|me| {
            let (bell, done, calls) = (bell.clone(), done.clone(), calls.clone());
            thread::spawn(move || {
                done[me].store(true, Relaxed);
                by[me](steps, &calls, &bell);
            })
        });
        let mut seen = [false; 2];
        while seen != [true; 2] {
            bell.wait();
            if (steps.answer)(&calls) {
                seen = [0, 1].map(|who| done[who].load(Relaxed));
            }
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}

fn wakes(steps: Steps, calls: &Calls, bell: &Bell) {
    (steps.wake)(calls, bell);
}

fn lends(steps: Steps, calls: &Calls, bell: &Bell) {
    (steps.lend)(calls, bell);
}

/// Two threads ask for a shutdown; the loop learns of the shorter, and sees what either had done.
fn the_shortest_shutdown_is_seen(steps: Steps) {
    check(move || {
        let (bell, done) = (Arc::new(Bell::default()), nothing_done());
        let calls = Arc::new(Calls::new());
        let asking = [(0, SHORT), (1, LONG)].map(|(me, timeout)| {
            let (bell, done, calls) = (bell.clone(), done.clone(), calls.clone());
            thread::spawn(move || {
                done[me].store(true, Relaxed);
                (steps.shut_down)(&calls, &bell, timeout);
            })
        });
        let mut shortest = None;
        while shortest != Some(SHORT) {
            bell.wait();
            if let Some(asked) = (steps.take_shutdown)(&calls) {
                let who = usize::from(asked == LONG);
                assert!(done[who].load(Relaxed), "what came before is not visible");
                shortest = [shortest, Some(asked)].into_iter().flatten().min();
            }
        }
        asking.into_iter().for_each(|asking| asking.join().unwrap());
    });
}

#[test]
fn no_wake_is_lost_and_what_came_before_it_is_visible() {
    every_wake_is_seen(SOUND, [wakes, wakes]);
    every_wake_is_seen(SOUND, [wakes, lends]);
}

#[test]
fn no_shutdown_is_lost_and_the_shortest_counts() {
    the_shortest_shutdown_is_seen(SOUND);
}

/// The loop's side as it ships: one thread wakes and asks for a shutdown, the other posts twice.
#[test]
fn wakes_posts_and_shutdowns_all_arrive_and_are_not_taken_for_each_other() {
    check(|| {
        let bell = Arc::new(Bell::default());
        let ring = Arc::clone(&bell);
        let mut outside = Outside::new(move || ring.ring());

        let (calls, ring) = (outside.calls(), Arc::clone(&bell));
        let calling = thread::spawn(move || {
            (SOUND.wake)(&calls, &ring);
            (SOUND.shut_down)(&calls, &ring, SHORT);
        });
        let sender = outside.sender();
        let posting = thread::spawn(move || {
            for index in [0, 1] {
                let token = Token::new(index, NonZeroU32::MIN);
                assert!(sender.send((token, Ready::READABLE)).is_ok());
            }
        });

        let (mut woken, mut posted, mut shutdown) = (0, Vec::new(), None);
        while woken == 0 || posted.len() < 2 || shutdown.is_none() {
            if !outside.has_work() {
                bell.wait();
                outside.wait_was_ended();
            }
            if outside.has_news() {
                posted.extend(outside.posts(1).map(|(token, _)| token.index()));
                shutdown = shutdown.or_else(|| outside.take_shutdown());
            }
            woken += u32::from(outside.take_wake());
        }
        calling.join().unwrap();
        posting.join().unwrap();
        assert_eq!((woken, posted, shutdown), (1, vec![0, 1], Some(SHORT)));
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn whoever_wakes_must_say_so_first() {
    let steps = Steps {
        wake: |calls, bell| {
            bell.ring();
            calls.call();
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn whoever_wakes_must_not_hide_what_another_has_released() {
    let steps = Steps {
        wake: |calls, bell| {
            calls.called.store(true, Release);
            bell.ring();
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn whoever_wakes_must_release_what_came_before() {
    let steps = Steps {
        wake: |calls, bell| {
            calls.called.swap(true, Relaxed);
            bell.ring();
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_loop_must_acquire_what_came_before_a_wake() {
    let steps = Steps {
        answer: |calls| calls.called.swap(false, Release) | calls.lent.load(Acquire),
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_loop_must_take_a_wake_in_one_step() {
    let steps = Steps {
        answer: |calls| {
            let called = calls.called.load(Acquire);
            calls.called.store(false, Release);
            called | calls.lent.load(Acquire)
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, wakes]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn whoever_lends_the_descriptor_must_say_so_first() {
    let steps = Steps {
        lend: |calls, bell| {
            bell.ring();
            calls.lend();
        },
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, lends]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_loop_must_ask_whether_the_descriptor_is_lent() {
    let steps = Steps {
        answer: |calls| calls.called.swap(false, Acquire),
        ..SOUND
    };
    every_wake_is_seen(steps, [wakes, lends]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_longer_shutdown_must_not_displace_a_shorter_one() {
    the_shortest_shutdown_is_seen(Steps {
        shut_down: |calls, bell, timeout| {
            let ms = u64::try_from(timeout.as_millis()).unwrap();
            calls.shutdown_ms.store(ms, Release);
            bell.ring();
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "what came before is not visible")]
fn whoever_shuts_down_must_release_what_came_before() {
    the_shortest_shutdown_is_seen(Steps {
        shut_down: |calls, bell, timeout| {
            let ms = u64::try_from(timeout.as_millis()).unwrap();
            calls.shutdown_ms.fetch_min(ms, Relaxed);
            bell.ring();
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "what came before is not visible")]
fn the_loop_must_acquire_what_came_before_a_shutdown() {
    the_shortest_shutdown_is_seen(Steps {
        take_shutdown: |calls| {
            let ms = calls.shutdown_ms.swap(NOT_ASKED, Release);
            (ms != NOT_ASKED).then(|| Duration::from_millis(ms))
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_loop_must_take_a_shutdown_in_one_step() {
    the_shortest_shutdown_is_seen(Steps {
        take_shutdown: |calls| {
            let ms = calls.shutdown_ms.load(Acquire);
            calls.shutdown_ms.store(NOT_ASKED, Release);
            (ms != NOT_ASKED).then(|| Duration::from_millis(ms))
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn whoever_shuts_down_must_say_so_before_it_wakes() {
    the_shortest_shutdown_is_seen(Steps {
        shut_down: |calls, bell, timeout| {
            bell.ring();
            calls.shut_down(timeout);
        },
        ..SOUND
    });
}
