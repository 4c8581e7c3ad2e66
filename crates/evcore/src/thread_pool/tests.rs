use std::{panic, sync::mpsc};

use evcore_testing::PATIENCE;

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
    let (unblock, blocked) = mpsc::channel::<()>();
    let (began, begins) = mpsc::channel();
    submit(pool, token, move || {
        began.send(()).unwrap();
        let _ = blocked.recv();
        0
    });
    begins.recv_timeout(PATIENCE).expect("the job begins");
    unblock
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
fn a_panic_is_the_result_of_its_job_and_the_next_job_runs() {
    let (mut ev, mut pool, token) = fixture(1, 2);
    // Not `panic!`: it would print a message.
    submit(&mut pool, token, || panic::resume_unwind(Box::new("why")));
    submit(&mut pool, token, || 1);
    let results = run(&mut ev, &mut pool);
    assert!(matches!(results[..], [(_, Err(_)), (_, Ok(1))]));
}

#[test]
fn a_full_pool_hands_the_job_back() {
    let (mut ev, mut pool, token) = fixture(1, 1);
    let unblock = submit_blocked(&mut pool, token);
    let job = pool.submit(token, || 2).expect_err("it is full");
    drop(unblock);
    assert_eq!(run(&mut ev, &mut pool).len(), 1);
    submit(&mut pool, token, job);
    assert_eq!(pool.len(), 1);
    assert!(pool.shutdown(PATIENCE));
}

#[test]
fn the_result_of_a_closed_token_is_dropped_and_counted() {
    let (mut ev, mut pool, token) = fixture(1, 10);
    let unblock = submit_blocked(&mut pool, token);
    ev.remove(token);
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
    let mut ev = EventLoop::builder().build().unwrap();
    // Each job ends at once, so that both results are in one batch.
    let mut pool = ThreadPool::simulated(ev.handle(), 10, |job| job(None));
    let token = ev.add_unwatched().unwrap();
    submit(&mut pool, token, || 1);
    submit(&mut pool, token, || 2);
    assert!(pool.next_result(&mut ev).is_some());
    ev.remove(token);
    assert!(pool.next_result(&mut ev).is_none());
    assert!(pool.is_empty());
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
