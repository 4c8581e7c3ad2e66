use std::{
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread::ThreadId,
};

use evcore_testing::{PATIENCE, eventually};

use super::*;
use crate::Step;

type Fixture = (EventLoop, ThreadPool<u32>, Token);

fn fixture(threads: usize, limit: usize) -> Fixture {
    let mut ev = EventLoop::builder().build().unwrap();
    let pool = ThreadPool::new(ev.handle(), threads, limit).unwrap();
    let token = ev.add_unwatched().unwrap();
    (ev, pool, token)
}

fn submit(pool: &mut ThreadPool<u32>, token: Token, job: impl FnOnce() -> u32 + Send + 'static) {
    assert!(pool.submit(token, job).is_ok(), "the pool is full");
}

/// A job that runs until the sender is dropped. Returns when it runs.
fn submit_blocked(pool: &mut ThreadPool<u32>, token: Token) -> mpsc::Sender<()> {
    let (unblock, begins) = submit_blocking(pool, token);
    begins.recv_timeout(PATIENCE).expect("the job begins");
    unblock
}

/// A job that runs until the sender is dropped. The receiver gets a value when it begins.
fn submit_blocking(
    pool: &mut ThreadPool<u32>,
    token: Token,
) -> (mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (unblock, blocked) = mpsc::channel::<()>();
    let (began, begins) = mpsc::channel();
    submit(pool, token, move || {
        began.send(()).unwrap();
        let _ = blocked.recv();
        0
    });
    (unblock, begins)
}

/// Runs the loop until no job is left.
fn run(ev: &mut EventLoop, pool: &mut ThreadPool<u32>) -> Vec<(Token, thread::Result<u32>)> {
    let mut results = Vec::new();
    while !pool.is_empty() {
        ev.wait().unwrap();
        while let Some(step) = ev.next_step() {
            assert!(matches!(step, Step::Woken));
            while let Some(result) = pool.next_result(ev) {
                results.push(result);
            }
        }
    }
    results
}

#[test]
fn each_result_arrives_with_the_token_of_its_job() {
    let (mut ev, mut pool, first) = fixture(3, 100);
    let tokens: Vec<_> = (1..100).map(|_| ev.add_unwatched().unwrap()).collect();
    for token in [&[first], &tokens[..]].concat() {
        submit(&mut pool, token, move || token.index() + 7);
    }
    let results = run(&mut ev, &mut pool);
    assert_eq!(results.len(), 100);
    for (token, result) in results {
        assert_eq!(result.unwrap(), token.index() + 7);
    }
}

#[test]
fn one_thread_runs_its_jobs_in_the_order_of_submission() {
    let (mut ev, mut pool, token) = fixture(1, 100);
    for n in 0..100 {
        submit(&mut pool, token, move || n);
    }
    let results = run(&mut ev, &mut pool).into_iter();
    assert!(results.map(|(_, n)| n.unwrap()).eq(0..100));
}

#[test]
fn as_many_jobs_run_at_once_as_there_are_threads() {
    let (mut ev, mut pool, token) = fixture(3, 3);
    let blocked = [(); 3].map(|()| submit_blocked(&mut pool, token));
    drop(blocked);
    assert_eq!(run(&mut ev, &mut pool).len(), 3);
}

/// The second job is nearly always queued before a thread has taken the first one. A hundred rounds
/// make sure that it is.
#[test]
fn two_jobs_submitted_together_run_on_two_idle_threads() {
    let (mut ev, mut pool, token) = fixture(2, 2);
    for _ in 0..100 {
        let jobs = [(); 2].map(|()| submit_blocking(&mut pool, token));
        for (_, begins) in &jobs {
            let began = begins.recv_timeout(PATIENCE);
            began.expect("no job waits while a thread is idle");
        }
        drop(jobs);
        assert_eq!(run(&mut ev, &mut pool).len(), 2);
    }
}

#[test]
fn a_full_pool_hands_the_job_back_until_a_result_is_taken() {
    let (mut ev, mut pool, token) = fixture(1, 2);
    let unblock = submit_blocked(&mut pool, token);
    submit(&mut pool, token, || 1);
    let job = pool.submit(token, || 2).expect_err("it is full");
    drop(unblock);
    eventually("both jobs end", || pool.results.len() == 2);
    let job = pool.submit(token, job).expect_err("no result is taken");
    ev.wait().unwrap();
    assert!(matches!(pool.next_result(&mut ev), Some((_, Ok(0)))));
    assert!(pool.submit(token, job).is_ok());
    assert_eq!(pool.len(), 2);
}

#[test]
fn a_panic_is_the_result_of_its_job_and_the_thread_lives_on() {
    let mut ev = EventLoop::builder().build().unwrap();
    let mut pool = ThreadPool::<ThreadId>::new(ev.handle(), 1, 10).unwrap();
    let token = ev.add_unwatched().unwrap();
    let id = || thread::current().id();
    assert!(pool.submit(token, id).is_ok());
    // Not `panic!`: it would print a message.
    assert!(
        pool.submit(token, || panic::resume_unwind(Box::new("why")))
            .is_ok()
    );
    assert!(pool.submit(token, id).is_ok());
    eventually("all jobs end", || pool.results.len() == 3);
    let mut next = || pool.next_result(&mut ev).unwrap().1;
    let first = next().unwrap();
    assert_eq!(next().unwrap_err().downcast_ref(), Some(&"why"));
    assert_eq!(next().unwrap(), first);
}

#[test]
fn the_result_of_a_closed_token_is_dropped_and_counted() {
    let (mut ev, mut pool, token) = fixture(1, 10);
    let unblock = submit_blocked(&mut pool, token);
    ev.close(token);
    let reused = ev.add_unwatched().unwrap();
    assert_eq!(reused.index(), token.index());
    submit(&mut pool, reused, || 1);
    drop(unblock);
    let results = run(&mut ev, &mut pool);
    assert!(matches!(results[..], [(token, Ok(1))] if token == reused));
    assert_eq!(ev.stats().stale, 1);
}

#[test]
fn a_token_closed_within_a_batch_gets_no_result() {
    let (mut ev, mut pool, token) = fixture(1, 10);
    submit(&mut pool, token, || 1);
    submit(&mut pool, token, || 2);
    eventually("both jobs end", || pool.results.len() == 2);
    assert!(pool.next_result(&mut ev).is_some());
    ev.close(token);
    assert!(pool.next_result(&mut ev).is_none());
    assert!(pool.is_empty());
}

/// A pool of one thread that counts its wake-ups, and a token.
fn counting() -> (EventLoop, ThreadPool<u32>, Token, Arc<AtomicU32>) {
    let mut ev = EventLoop::builder().build().unwrap();
    let wakes = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&wakes);
    let wake = move || _ = count.fetch_add(1, Ordering::Relaxed);
    let pool = ThreadPool::with_wake(wake, 1, 100).unwrap();
    let token = ev.add_unwatched().unwrap();
    (ev, pool, token, wakes)
}

#[test]
fn results_that_come_together_share_one_wake_up() {
    let (mut ev, mut pool, token, wakes) = counting();
    for batch in 1..=3 {
        (0..20).for_each(|n| submit(&mut pool, token, move || n));
        eventually("all jobs end", || pool.results.len() == 20);
        while pool.next_result(&mut ev).is_some() {}
        assert!(pool.is_empty());
        assert_eq!(wakes.load(Ordering::Relaxed), batch);
    }
}

#[test]
fn results_that_arrive_within_a_batch_wake_again() {
    let (mut ev, mut pool, token, wakes) = counting();
    (0..2).for_each(|n| submit(&mut pool, token, move || n));
    eventually("both jobs end", || pool.results.len() == 2);
    assert!(pool.next_result(&mut ev).is_some());
    submit(&mut pool, token, || 2);
    eventually("the third job ends", || pool.results.len() == 1);
    assert!(pool.next_result(&mut ev).is_some());
    let before = wakes.load(Ordering::Relaxed);
    assert!(pool.next_result(&mut ev).is_none(), "the batch has ended");
    assert!(wakes.load(Ordering::Relaxed) > before);
    assert!(matches!(pool.next_result(&mut ev), Some((_, Ok(2)))));
}

#[test]
fn shutdown_waits_for_the_job_that_runs_and_drops_the_others() {
    let (mut ev, mut pool, token) = fixture(1, 10);
    let unblock = submit_blocked(&mut pool, token);
    let (dropped, when_dropped) = mpsc::channel::<()>();
    submit(&mut pool, token, move || {
        drop(dropped);
        unreachable!("it has not started");
    });
    assert!(!pool.shutdown(Duration::ZERO), "a job runs");
    assert_eq!(
        when_dropped.try_recv(),
        Err(mpsc::TryRecvError::Disconnected)
    );
    assert!(pool.submit(token, || 1).is_err());
    drop(unblock);
    assert!(pool.shutdown(PATIENCE));
    let results = run(&mut ev, &mut pool);
    assert!(matches!(results[..], [(_, Ok(0))]));
    assert!(pool.submit(token, || 1).is_err());
}

/// The job that runs ends when the other one, which has not started, is dropped.
#[test]
fn shutdown_drops_jobs_before_it_waits_for_threads() {
    let (_ev, mut pool, token) = fixture(1, 2);
    let dropped = submit_blocked(&mut pool, token);
    submit(&mut pool, token, move || {
        drop(dropped);
        unreachable!("it has not started");
    });
    assert!(pool.shutdown(PATIENCE), "the job waits for the other one");
}

#[test]
fn shutdown_ends_threads_that_are_idle() {
    let (_ev, mut pool, _) = fixture(4, 10);
    assert!(pool.shutdown(PATIENCE));
    assert!(pool.shutdown(Duration::ZERO));
}

#[test]
fn a_dropped_pool_drops_the_result_of_the_job_that_runs() {
    let mut ev = EventLoop::builder().build().unwrap();
    let mut pool = ThreadPool::new(ev.handle(), 1, 10).unwrap();
    let token = ev.add_unwatched().unwrap();
    let (begins, unblock) = (mpsc::channel(), mpsc::channel::<()>());
    let result = Arc::new(());
    let (began, blocked, held) = (begins.0, unblock.1, Arc::clone(&result));
    let job = move || {
        began.send(()).unwrap();
        let _ = blocked.recv();
        held
    };
    assert!(pool.submit(token, job).is_ok());
    begins.1.recv_timeout(PATIENCE).expect("the job begins");
    let shared = Arc::clone(&pool.shared);
    drop(pool);
    assert_eq!(shared.lock().threads, 1, "drop does not wait");
    drop(unblock.0);
    assert!(shared.wait_for_threads(PATIENCE));
    assert_eq!(Arc::strong_count(&result), 1);
}

#[test]
fn a_job_may_end_after_its_loop_was_dropped() {
    let (ev, mut pool, token) = fixture(1, 10);
    let unblock = submit_blocked(&mut pool, token);
    drop(ev);
    drop(unblock);
    assert!(pool.shutdown(PATIENCE));
    assert_eq!(pool.len(), 1);
}
