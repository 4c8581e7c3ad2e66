//! Checks the interleavings of the threads of a pool and the loop that submits jobs and takes
//! results. The crate's own files run over loom's lock.
//!
//! Loom reports a lost wake-up as a deadlock. Each test that has to panic does one operation in a
//! wrong way, which loom must find.

#![cfg(evcore_loom)]

#[path = "../src/shared.rs"]
#[allow(dead_code, reason = "the crate uses the rest")]
pub mod shared;
#[path = "../src/sync.rs"]
#[allow(unused_imports, reason = "the crate starts threads by it")]
mod sync;

// These tests use the `Arc` of the standard library. loom's `Arc` panics if it is dropped after a
// deadlock, and that panic aborts the test.
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use evcore_pool::Pool;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use shared::Alive;

type Shared = shared::Shared<u32, u32>;
type Job = shared::Job<u32, u32>;
type JobResult = shared::JobResult<u32, u32>;

/// The place where the loop sleeps. A wake-up lasts until a wait has consumed it.
#[derive(Default)]
struct Parker {
    woken: Mutex<bool>,
    changed: Condvar,
    /// The standard library's atomic, so that it orders no other access in loom's model.
    wakes: AtomicUsize,
}

impl Parker {
    fn wake(&self) {
        self.wakes.fetch_add(1, Relaxed);
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !*woken {
            woken = self.changed.wait(woken).unwrap();
        }
        *woken = false;
    }
}

#[derive(Default)]
struct Meeting {
    arrived: Mutex<u32>,
    both: Condvar,
}

impl Meeting {
    fn meet(&self) {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        self.both.notify_all();
        while *arrived < 2 {
            arrived = self.both.wait(arrived).unwrap();
        }
    }
}

#[derive(Clone, Copy)]
struct Steps {
    push_job: fn(&Shared, Job),
    next_job: fn(&Shared) -> Option<Job>,
    push_result: fn(&Shared, JobResult),
    take_results: fn(&Shared, &mut VecDeque<JobResult>),
    close: fn(&Shared),
    abandon: fn(&Shared),
    finish: fn(Alive<u32, u32>),
}

const SOUND: Steps = Steps {
    push_job: |shared, job| shared.push_job(job),
    next_job: |shared| shared.next_job(),
    push_result: |shared, result| shared.push_result(result),
    take_results: |shared, batch| shared.take_results(batch),
    close: |shared| drop(shared.close()),
    abandon: |shared| drop(shared.abandon()),
    finish: |alive| drop(alive),
};

/// Checks all interleavings, or those within `LOOM_MAX_PREEMPTIONS`.
fn check(body: impl Fn() + Sync + Send + 'static) {
    loom::model::Builder::new().check(body);
}

/// Checks at most 3 preemptions unless `LOOM_MAX_PREEMPTIONS` is set, because all interleavings
/// would take minutes.
fn check_some(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(body);
}

fn shared(wake: impl Fn() + Send + Sync + 'static) -> Arc<Shared> {
    Arc::new(Shared::new(Box::new(wake)))
}

fn job(n: u32) -> Job {
    (n, Box::new(move || n))
}

impl Steps {
    /// Two idle threads run two jobs at once: neither job ends before the other has begun.
    fn assert_both_jobs_run(self) {
        check(move || {
            let (shared, meeting) = (shared(|| ()), Arc::<Meeting>::default());
            let threads = [(); 2].map(|()| {
                let (shared, meeting) = (Arc::clone(&shared), Arc::clone(&meeting));
                thread::spawn(move || {
                    let (id, _) = (self.next_job)(&shared).expect("the pool is open");
                    meeting.meet();
                    id
                })
            });
            (self.push_job)(&shared, job(1));
            (self.push_job)(&shared, job(2));
            let ids: u32 = threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum();
            assert_eq!(ids, 3, "a job runs twice");
        });
    }

    /// Two threads end when the pool is closed, and a shutdown waits for them.
    fn assert_threads_end(self) {
        check(move || {
            let shared = shared(|| ());
            for _ in 0..2 {
                let alive = Alive::new(&shared);
                thread::spawn(move || {
                    while (self.next_job)(&alive.0).is_some() {}
                    (self.finish)(alive);
                });
            }
            (self.close)(&shared);
            assert!(shared.wait_for_threads(Duration::MAX));
        });
    }

    /// The results of two threads, `of_each` results from each thread, reach a loop that sleeps
    /// until it is woken.
    fn assert_results_arrive(self, of_each: u32) {
        let check = if of_each == 1 { check } else { check_some };
        check(move || {
            let parker = Arc::<Parker>::default();
            let wake = Arc::clone(&parker);
            let shared = shared(move || wake.wake());
            let threads = [0, 1].map(|thread| {
                let shared = Arc::clone(&shared);
                let results = (0..of_each).map(move |n| (10 * thread + n, Ok(n)));
                thread::spawn(move || {
                    results.for_each(|result| (self.push_result)(&shared, result))
                })
            });
            let (mut ids, mut takes) = (Vec::new(), 0);
            while ids.len() < 2 * of_each as usize {
                parker.wait();
                let wakes = parker.wakes.load(Relaxed);
                assert!(wakes <= takes + 1, "woken more than once");
                let mut batch = VecDeque::new();
                (self.take_results)(&shared, &mut batch);
                ids.extend(batch.into_iter().map(|(id, _)| id));
                takes += 1;
            }
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            ids.sort_unstable();
            let expected = [0, 10].map(|first| first..first + of_each);
            assert!(ids.into_iter().eq(expected.into_iter().flatten()));
        });
    }

    /// A result that comes while the pool is dropped is dropped too.
    fn assert_no_result_is_kept(self) {
        check(move || {
            let shared = shared(|| ());
            let threads = [1, 2].map(|id| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || (self.push_result)(&shared, (id, Ok(id))))
            });
            (self.abandon)(&shared);
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            assert!(shared.lock().results.is_empty(), "a result is kept");
        });
    }
}

#[test]
fn two_jobs_run_on_two_idle_threads() {
    SOUND.assert_both_jobs_run();
}

#[test]
fn closing_ends_threads_that_wait_and_a_shutdown_waits_for_them() {
    SOUND.assert_threads_end();
}

#[test]
fn results_of_two_threads_reach_a_sleeping_loop() {
    for of_each in [1, 2] {
        SOUND.assert_results_arrive(of_each);
    }
}

#[test]
fn a_dropped_pool_keeps_no_result() {
    SOUND.assert_no_result_is_kept();
}

#[test]
fn the_public_type_combines_the_steps_correctly() {
    check_some(|| {
        let parker = Arc::<Parker>::default();
        let wake = Arc::clone(&parker);
        let mut pool = Pool::new(2, 2, move || wake.wake()).unwrap();
        for id in [1, 2] {
            assert!(pool.submit(id, move || 7 * id).is_ok());
        }
        let mut ids = 0;
        while !pool.is_empty() {
            parker.wait();
            while let Some((id, result)) = pool.next_result() {
                assert_eq!(result.unwrap(), 7 * id);
                ids += id;
            }
        }
        assert_eq!(ids, 3);
        assert!(pool.shutdown(Duration::MAX));
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_job_must_notify_even_if_another_one_waits() {
    let faulty = Steps {
        push_job: |shared, job| {
            let mut state = shared.lock();
            let was_empty = state.jobs.is_empty();
            state.jobs.push_back(job);
            drop(state);
            if was_empty {
                shared.work.notify_one();
            }
        },
        ..SOUND
    };
    faulty.assert_both_jobs_run();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_job_must_be_queued_before_it_notifies() {
    let faulty = Steps {
        push_job: |shared, job| {
            shared.work.notify_one();
            shared.lock().jobs.push_back(job);
        },
        ..SOUND
    };
    faulty.assert_both_jobs_run();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_thread_must_look_for_a_job_under_the_lock_it_waits_with() {
    let faulty = Steps {
        next_job: |shared| {
            if shared.lock().jobs.is_empty() {
                drop(shared.work.wait(shared.lock()));
            }
            shared.next_job()
        },
        ..SOUND
    };
    faulty.assert_both_jobs_run();
}

#[test]
#[should_panic(expected = "deadlock")]
fn closing_must_notify_all_threads() {
    let faulty = Steps {
        close: |shared| {
            shared.lock().closed = true;
            shared.work.notify_one();
        },
        ..SOUND
    };
    faulty.assert_threads_end();
}

#[test]
#[should_panic(expected = "deadlock")]
fn closing_must_be_recorded_before_threads_are_notified() {
    let faulty = Steps {
        close: |shared| {
            shared.work.notify_all();
            shared.lock().closed = true;
        },
        ..SOUND
    };
    faulty.assert_threads_end();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_thread_must_notify_after_it_is_counted_as_finished() {
    let faulty = Steps {
        finish: |alive| {
            let shared = Arc::clone(&alive.0);
            mem::forget(alive);
            shared.finished.notify_all();
            shared.lock().threads -= 1;
        },
        ..SOUND
    };
    faulty.assert_threads_end();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_result_must_be_queued_before_the_loop_is_woken() {
    let faulty = Steps {
        push_result: |shared, result| {
            if shared.lock().results.is_empty() {
                (shared.wake)();
            }
            shared.lock().results.push_back(result);
        },
        ..SOUND
    };
    faulty.assert_results_arrive(1);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_result_must_be_counted_under_the_lock_that_queues_it() {
    let faulty = Steps {
        push_result: |shared, result| {
            shared.lock().results.push_back(result);
            if shared.lock().results.len() == 1 {
                (shared.wake)();
            }
        },
        ..SOUND
    };
    faulty.assert_results_arrive(1);
}

#[test]
#[should_panic(expected = "woken more than once")]
fn results_must_share_a_wake_up() {
    let faulty = Steps {
        push_result: |shared, result| {
            shared.lock().results.push_back(result);
            (shared.wake)();
        },
        ..SOUND
    };
    faulty.assert_results_arrive(1);
}

#[test]
#[should_panic(expected = "deadlock")]
fn results_must_be_taken_under_one_lock() {
    let faulty = Steps {
        take_results: |shared, batch| {
            let ids: Vec<_> = shared.lock().results.iter().map(|(id, _)| *id).collect();
            batch.extend(ids.into_iter().map(|id| (id, Ok(id))));
            shared.lock().results.clear();
        },
        ..SOUND
    };
    faulty.assert_results_arrive(1);
}

#[test]
#[should_panic(expected = "a result is kept")]
fn a_dropped_pool_must_refuse_and_take_results_under_one_lock() {
    let faulty = Steps {
        abandon: |shared| {
            drop(mem::take(&mut shared.lock().results));
            shared.lock().abandoned = true;
        },
        ..SOUND
    };
    faulty.assert_no_result_is_kept();
}

#[test]
#[should_panic(expected = "a result is kept")]
fn a_result_must_check_for_a_dropped_pool_under_the_same_lock() {
    let faulty = Steps {
        push_result: |shared, result| {
            if !shared.lock().abandoned {
                shared.lock().results.push_back(result);
            }
        },
        ..SOUND
    };
    faulty.assert_no_result_is_kept();
}
