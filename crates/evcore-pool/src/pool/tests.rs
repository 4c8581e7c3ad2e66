use std::iter;
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};

use evcore_testing::{PATIENCE, eventually};

use super::*;

/// A pool, and a receiver that gets a value for each wake-up.
fn pool<T: Send + 'static>(threads: usize, limit: usize) -> (Pool<u32, T>, mpsc::Receiver<()>) {
    let (wake, woken) = mpsc::channel();
    let pool = Pool::new(threads, limit, move || _ = wake.send(()));
    (pool.unwrap(), woken)
}

fn submit(pool: &mut Pool<u32, u32>, id: u32, job: impl FnOnce() -> u32 + Send + 'static) {
    assert!(pool.submit(id, job).is_ok(), "the pool is full");
}

/// Submits a job that runs until the sender is dropped. Returns when the job runs.
fn submit_blocked(pool: &mut Pool<u32, u32>) -> mpsc::Sender<()> {
    let (unblock, begins) = submit_blocking(pool);
    begins.recv_timeout(PATIENCE).expect("the job begins");
    unblock
}

/// Submits a job that runs until the sender is dropped. The receiver gets a value when the job
/// begins.
fn submit_blocking(pool: &mut Pool<u32, u32>) -> (mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (unblock, blocked) = mpsc::channel::<()>();
    let (began, begins) = mpsc::channel();
    submit(pool, 0, move || {
        began.send(()).unwrap();
        let _ = blocked.recv();
        0
    });
    (unblock, begins)
}

fn run<T: Send + 'static>(
    pool: &mut Pool<u32, T>,
    woken: &mpsc::Receiver<()>,
) -> Vec<(u32, thread::Result<T>)> {
    let mut results = Vec::new();
    while !pool.is_empty() {
        woken.recv_timeout(PATIENCE).expect("a wake-up");
        results.extend(iter::from_fn(|| pool.next_result()));
    }
    results
}

fn queued<T>(pool: &Pool<u32, T>) -> usize {
    pool.shared.lock().results.len()
}

#[test]
fn each_result_arrives_with_the_id_of_its_job() {
    let (mut pool, woken) = pool(3, 100);
    for id in 0..100 {
        submit(&mut pool, id, move || id + 7);
    }
    let mut results = run(&mut pool, &woken);
    results.sort_unstable_by_key(|(id, _)| *id);
    assert_eq!(results.len(), 100);
    for ((id, result), expected) in results.into_iter().zip(0..) {
        assert_eq!((id, result.unwrap()), (expected, expected + 7));
    }
}

#[test]
fn one_thread_runs_its_jobs_in_the_order_of_submission() {
    let (mut pool, woken) = pool(1, 100);
    for n in 0..100 {
        submit(&mut pool, 0, move || n);
    }
    let results = run(&mut pool, &woken).into_iter();
    assert!(results.map(|(_, n)| n.unwrap()).eq(0..100));
}

#[test]
fn as_many_jobs_run_at_once_as_there_are_threads() {
    let (mut pool, woken) = pool(3, 3);
    let blocked = [(); 3].map(|()| submit_blocked(&mut pool));
    drop(blocked);
    assert_eq!(run(&mut pool, &woken).len(), 3);
}

/// The test runs the jobs a hundred times, because a missing notification shows only if the second
/// job is queued before a thread has taken the first one.
#[test]
fn two_jobs_submitted_together_run_on_two_idle_threads() {
    let (mut pool, woken) = pool(2, 2);
    for _ in 0..100 {
        let jobs = [(); 2].map(|()| submit_blocking(&mut pool));
        for (_, begins) in &jobs {
            let began = begins.recv_timeout(PATIENCE);
            began.expect("no job waits while a thread is idle");
        }
        drop(jobs);
        assert_eq!(run(&mut pool, &woken).len(), 2);
    }
}

#[test]
fn a_full_pool_hands_the_job_back_until_a_result_is_taken() {
    let (mut pool, _woken) = pool(1, 2);
    let unblock = submit_blocked(&mut pool);
    submit(&mut pool, 1, || 1);
    let job = pool.submit(2, || 2).expect_err("it is full");
    drop(unblock);
    eventually("both jobs end", || queued(&pool) == 2);
    let job = pool.submit(2, job).expect_err("no result is taken");
    assert!(matches!(pool.next_result(), Some((0, Ok(0)))));
    assert!(pool.submit(2, job).is_ok());
    assert_eq!(pool.len(), 2);
}

#[test]
fn a_panic_is_the_result_of_its_job_and_the_thread_lives_on() {
    let (mut pool, woken) = pool::<ThreadId>(1, 10);
    let id = || thread::current().id();
    assert!(pool.submit(1, id).is_ok());
    // Unlike `panic!`, this prints no message.
    let panics = || std::panic::resume_unwind(Box::new("why"));
    assert!(pool.submit(2, panics).is_ok());
    assert!(pool.submit(3, id).is_ok());
    let results: [_; 3] = run(&mut pool, &woken).try_into().unwrap();
    let [(1, Ok(first)), (2, Err(panic)), (3, Ok(third))] = results else {
        panic!("{results:?}");
    };
    assert_eq!(panic.downcast_ref(), Some(&"why"));
    assert_eq!(third, first);
}

#[test]
fn results_that_come_together_share_one_wake_up() {
    let (mut pool, woken) = pool(1, 100);
    for _ in 0..3 {
        (0..20).for_each(|n| submit(&mut pool, n, move || n));
        eventually("all jobs end", || queued(&pool) == 20);
        assert_eq!(run(&mut pool, &woken).len(), 20);
        assert_eq!(woken.try_recv(), Err(mpsc::TryRecvError::Empty));
    }
}

#[test]
fn results_that_arrive_within_a_batch_wake_again() {
    let (mut pool, woken) = pool(1, 10);
    (0..2).for_each(|n| submit(&mut pool, n, move || n));
    eventually("both jobs end", || queued(&pool) == 2);
    assert!(pool.next_result().is_some());
    submit(&mut pool, 2, || 2);
    eventually("the third job ends", || queued(&pool) == 1);
    for _ in 0..2 {
        woken
            .recv_timeout(PATIENCE)
            .expect("the first and the third result each wake the loop");
    }
    assert!(pool.next_result().is_some());
    assert!(pool.next_result().is_none(), "the batch has ended");
    assert_eq!(woken.try_recv(), Ok(()));
    assert!(matches!(pool.next_result(), Some((2, Ok(2)))));
    assert!(pool.next_result().is_none());
    assert_eq!(woken.try_recv(), Err(mpsc::TryRecvError::Empty));
}

#[test]
fn shutdown_waits_for_the_job_that_runs_and_drops_the_others() {
    let (mut pool, woken) = pool(1, 10);
    let unblock = submit_blocked(&mut pool);
    let (dropped, when_dropped) = mpsc::channel::<()>();
    submit(&mut pool, 1, move || {
        drop(dropped);
        unreachable!("it has not started");
    });
    assert!(!pool.shutdown(Duration::ZERO), "a job runs");
    assert_eq!(
        when_dropped.try_recv(),
        Err(mpsc::TryRecvError::Disconnected)
    );
    assert!(pool.submit(2, || 1).is_err());
    drop(unblock);
    assert!(pool.shutdown(PATIENCE));
    let results = run(&mut pool, &woken);
    assert!(matches!(results[..], [(0, Ok(0))]));
    assert!(pool.submit(3, || 1).is_err());
}

#[test]
fn shutdown_drops_jobs_before_it_waits_for_threads() {
    let (mut pool, _woken) = pool(1, 2);
    let dropped = submit_blocked(&mut pool);
    submit(&mut pool, 1, move || {
        drop(dropped);
        unreachable!("it has not started");
    });
    assert!(pool.shutdown(PATIENCE), "the job waits for the other one");
}

#[test]
fn shutdown_ends_threads_that_are_idle() {
    let (mut pool, _woken) = pool::<u32>(4, 10);
    assert!(pool.shutdown(PATIENCE));
    assert!(pool.shutdown(Duration::ZERO));
}

#[test]
fn a_shutdown_without_a_timeout_waits_for_the_job_that_runs() {
    let (mut pool, _woken) = pool(1, 10);
    let unblock = submit_blocked(&mut pool);
    thread::scope(|scope| {
        let waits = scope.spawn(|| pool.shutdown(Duration::MAX));
        drop(unblock);
        assert!(waits.join().unwrap());
    });
}

#[test]
fn a_dropped_pool_drops_the_result_of_the_job_that_runs() {
    let (mut pool, _woken) = pool(1, 10);
    let (begins, unblock) = (mpsc::channel(), mpsc::channel::<()>());
    let result = Arc::new(());
    let (began, blocked, held) = (begins.0, unblock.1, Arc::clone(&result));
    let job = move || {
        began.send(()).unwrap();
        let _ = blocked.recv();
        held
    };
    assert!(pool.submit(0, job).is_ok());
    begins.1.recv_timeout(PATIENCE).expect("the job begins");
    let shared = Arc::clone(&pool.shared);
    drop(pool);
    assert_eq!(shared.lock().threads, 1, "drop does not wait");
    drop(unblock.0);
    assert!(shared.wait_for_threads(PATIENCE));
    assert_eq!(Arc::strong_count(&result), 1);
}

#[test]
fn a_dropped_pool_drops_the_results_that_were_not_taken() {
    let (mut pool, _woken) = pool(1, 10);
    let result = Arc::new(());
    let held = Arc::clone(&result);
    assert!(pool.submit(0, move || held).is_ok());
    eventually("the job ends", || queued(&pool) == 1);
    drop(pool);
    assert_eq!(Arc::strong_count(&result), 1);
}

#[test]
#[should_panic(expected = "at least one thread")]
fn a_pool_without_threads_is_a_mistake() {
    let _ = pool::<u32>(0, 1);
}

#[test]
#[should_panic(expected = "at least one job")]
fn a_pool_without_room_is_a_mistake() {
    let _ = pool::<u32>(1, 0);
}
