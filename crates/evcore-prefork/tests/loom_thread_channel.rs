//! Tests every interleaving of a master and its worker, which is a thread. The shipped file
//! `thread_channel.rs` runs over loom's lock and atomics.
//!
//! A side that sleeps is woken by the other. After a lost wake-up it sleeps for ever, which loom
//! reports as a deadlock. A cell that is not atomic stands for the work of a side before its
//! report, because loom fails if the other side's access to the cell is not ordered. Each mutant
//! has one wrong step, which loom must find.

#![cfg(evcore_loom)]
#![allow(unsafe_code, reason = "the test shares a cell between threads")]

#[path = "../src/thread_channel.rs"]
#[allow(dead_code, reason = "the crate uses all of it")]
mod thread_channel;
#[path = "../src/wake.rs"]
mod wake;

mod exit {
    pub(crate) use evcore_prefork::ExitCause;
}
mod sync {
    pub(crate) use loom::sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering},
    };
}

// The `Arc` is the standard library's. loom's `Arc` panics if it is dropped after a deadlock, and
// this second panic would abort the test.
use std::sync::Arc;

use exit::ExitCause;
use loom::{cell::UnsafeCell, sync::Condvar, thread};
use sync::{Mutex, Ordering};
use wake::Wake;

type Channel = thread_channel::ThreadChannel<Arc<Parker>, Parker>;

/// The place where one side sleeps. A wake-up lasts until a wait has consumed it.
#[derive(Default)]
struct Parker {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Parker {
    fn wait(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !*woken {
            woken = self.changed.wait(woken).unwrap();
        }
        *woken = false;
    }
}

impl Wake for Parker {
    fn wake(&self) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

impl Wake for Arc<Parker> {
    fn wake(&self) {
        (**self).wake();
    }
}

struct Model {
    channel: Channel,
    worker: Arc<Parker>,
    master: Arc<Parker>,
    done: UnsafeCell<u32>,
}

// SAFETY: this is the claim under test. loom panics before an access that contradicts it.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Model {
    fn new() -> Arc<Self> {
        let master = Arc::<Parker>::default();
        Arc::new(Self {
            channel: Channel::new(Arc::clone(&master)),
            worker: Arc::default(),
            master,
            done: UnsafeCell::new(0),
        })
    }

    /// Accesses the cell for writing, which is all that loom checks.
    fn write_done(&self) {
        self.done.with_mut(|_| ());
    }

    fn read_done(&self) {
        self.done.with(|_| ());
    }
}

#[derive(Clone, Copy)]
struct Steps {
    stop: fn(&Channel, u8),
    reopen: fn(&Channel),
    set_wake: fn(&Channel, Arc<Parker>),
    ready: fn(&Channel),
    end: fn(&Channel, ExitCause),
}

const SOUND: Steps = Steps {
    stop: |channel, severity| channel.stop(severity),
    reopen: |channel| channel.reopen(),
    set_wake: |channel, worker| channel.set_wake(worker),
    ready: |channel| channel.ready(),
    end: |channel, cause| channel.end(cause),
};

impl Steps {
    /// Runs the worker in a thread, and the master in this one.
    fn check(self, worker: fn(Self, &Model), master: fn(Self, &Model)) {
        loom::model(move || {
            let model = Model::new();
            let shared = Arc::clone(&model);
            let thread = thread::spawn(move || worker(self, &shared));
            master(self, &model);
            thread.join().unwrap();
        });
    }

    /// Checks that a stop reaches a worker that sleeps, and that the worker sees the work that the
    /// master did before the stop.
    fn assert_a_stop_arrives(self) {
        let worker = |steps: Self, model: &Model| {
            (steps.set_wake)(&model.channel, Arc::clone(&model.worker));
            while model.channel.severity() == 0 {
                model.worker.wait();
            }
            model.read_done();
        };
        self.check(worker, |steps, model| {
            model.write_done();
            (steps.stop)(&model.channel, 1);
        });
    }

    /// Checks that a request ends the wait of a worker that looks for requests only after the wait.
    fn assert_a_request_wakes(self, request: fn(Self, &Model)) {
        let worker = |steps: Self, model: &Model| {
            (steps.set_wake)(&model.channel, Arc::clone(&model.worker));
            model.worker.wait();
            let (stop, reopen) = (model.channel.severity(), model.channel.reopen_count());
            assert_eq!(u32::from(stop) + reopen, 1);
        };
        self.check(worker, request);
    }

    /// Checks the same as `assert_a_stop_arrives`, for a request to open the logs again.
    fn assert_a_reopen_arrives(self) {
        let worker = |steps: Self, model: &Model| {
            (steps.set_wake)(&model.channel, Arc::clone(&model.worker));
            while model.channel.reopen_count() == 0 {
                model.worker.wait();
            }
            model.read_done();
        };
        self.check(worker, |steps, model| {
            model.write_done();
            (steps.reopen)(&model.channel);
        });
    }

    /// Checks that a master that sleeps finds that the worker is ready, and sees the work that the
    /// worker did before its report.
    fn assert_a_ready_worker_is_reported(self) {
        let worker = |steps: Self, model: &Model| {
            model.write_done();
            (steps.ready)(&model.channel);
        };
        self.check(worker, |_, model| {
            while !model.channel.is_ready() {
                model.master.wait();
            }
            model.read_done();
        });
    }

    /// Checks that a master that sleeps gets the cause of the worker's end, right after the worker
    /// was ready.
    fn assert_an_end_is_reported(self) {
        let worker = |steps: Self, model: &Model| {
            (steps.ready)(&model.channel);
            model.write_done();
            (steps.end)(&model.channel, ExitCause::Exited(7));
        };
        self.check(worker, |_, model| {
            let cause = loop {
                match model.channel.take_end() {
                    Some(cause) => break cause,
                    None => model.master.wait(),
                }
            };
            assert_eq!(cause, ExitCause::Exited(7));
            assert!(
                model.channel.is_ready(),
                "the worker was ready before its end"
            );
            assert_eq!(model.channel.take_end(), None);
            model.read_done();
        });
    }
}

#[test]
fn a_stop_is_never_missed() {
    SOUND.assert_a_stop_arrives();
}

#[test]
fn a_request_ends_a_wait_that_begins_before_or_after_it() {
    SOUND.assert_a_request_wakes(|steps, model| (steps.stop)(&model.channel, 1));
    SOUND.assert_a_request_wakes(|steps, model| (steps.reopen)(&model.channel));
}

#[test]
fn a_reopen_is_never_missed() {
    SOUND.assert_a_reopen_arrives();
}

#[test]
fn a_ready_worker_is_always_reported() {
    SOUND.assert_a_ready_worker_is_reported();
}

#[test]
fn the_end_of_a_worker_is_always_reported() {
    SOUND.assert_an_end_is_reported();
}

#[test]
fn a_faster_stop_reaches_a_worker_that_has_seen_the_slower_one() {
    let worker = |_: Steps, model: &Model| {
        model.channel.set_wake(Arc::clone(&model.worker));
        let mut seen = 0;
        while seen < 2 {
            let severity = model.channel.severity();
            assert!(severity >= seen, "a stop becomes slower");
            if severity == seen {
                model.worker.wait();
            }
            seen = severity;
        }
    };
    SOUND.check(worker, |_, model| {
        model.channel.stop(1);
        model.channel.stop(2);
        model.channel.stop(1);
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_waking_before_the_stop_is_stored_is_caught() {
    let mutant = Steps {
        stop: |channel, severity| {
            channel.wake_worker();
            channel.severity.fetch_max(severity, Ordering::Release);
        },
        ..SOUND
    };
    mutant.assert_a_stop_arrives();
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_a_reopen_that_does_not_wake_is_caught() {
    let mutant = Steps {
        reopen: |channel| _ = channel.reopen_count.fetch_add(1, Ordering::Release),
        ..SOUND
    };
    mutant.assert_a_reopen_arrives();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_a_stop_that_releases_nothing_is_caught() {
    let mutant = Steps {
        stop: |channel, severity| {
            channel.severity.fetch_max(severity, Ordering::Relaxed);
            channel.wake_worker();
        },
        ..SOUND
    };
    mutant.assert_a_stop_arrives();
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_looking_for_requests_before_the_wake_is_set_is_caught() {
    let mutant = Steps {
        set_wake: |channel, worker| {
            let is_requested = channel.severity() != 0;
            *channel.worker.lock().unwrap() = Some(worker);
            if is_requested {
                channel.wake_worker();
            }
        },
        ..SOUND
    };
    mutant.assert_a_request_wakes(|steps, model| (steps.stop)(&model.channel, 1));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_a_ready_worker_that_releases_nothing_is_caught() {
    let mutant = Steps {
        ready: |channel| {
            channel.is_ready.store(true, Ordering::Relaxed);
            channel.master.wake();
        },
        ..SOUND
    };
    mutant.assert_a_ready_worker_is_reported();
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_waking_the_master_before_the_end_is_stored_is_caught() {
    let mutant = Steps {
        end: |channel, cause| {
            channel.master.wake();
            *channel.end.lock().unwrap() = Some(cause);
        },
        ..SOUND
    };
    mutant.assert_an_end_is_reported();
}
