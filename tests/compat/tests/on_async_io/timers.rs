//! Timers, which async-io turns into timeouts of our poller's waits. A timer that is set during a
//! wait, with an earlier deadline, ends that wait.

use std::{
    future::Future,
    thread,
    time::{Duration, Instant},
};

use async_executor::Executor;
use async_io::{Timer, block_on};
use evcore_compat::on_each_backend;
use futures_lite::{StreamExt, future};

use crate::executor_threads;

on_each_backend!(
    of_many_timers_all_fire_and_none_is_early,
    the_nearer_of_two_wins_whichever_was_set_first,
    a_timer_set_during_a_wait_for_a_far_one_fires,
    a_period_is_never_cut_short,
);

const FAR: Duration = Duration::from_secs(100_000);

fn of_many_timers_all_fire_and_none_is_early() {
    const TIMERS: u64 = 1_000;
    let executor = Executor::new();
    let timers = async {
        // The deadlines are spread over 300 ms without order, to the nanosecond.
        let spread = |i: u64| Duration::from_nanos(i * 999_999_937 % 300_000_000);
        let timers: Vec<_> = (0..TIMERS)
            .map(|i| executor.spawn(fires_not_early(Instant::now() + spread(i))))
            .collect();
        for timer in timers {
            timer.await;
        }
    };
    executor_threads::run(&executor, timers);
}

async fn fires_not_early(deadline: Instant) {
    assert_eq!(Timer::at(deadline).await, deadline);
    assert!(Instant::now() >= deadline);
}

fn the_nearer_of_two_wins_whichever_was_set_first() {
    async fn is_near(after: Duration) -> bool {
        Timer::after(after).await;
        after != FAR
    }
    block_on(async {
        for millis in 0..20 {
            let near = Duration::from_millis(millis);
            assert!(future::or(is_near(near), is_near(FAR)).await);
            assert!(future::or(is_near(FAR), is_near(near)).await);
        }
    });
}

/// One thread waits for the far timer. Another one sets the near timer, and must end that wait.
fn a_timer_set_during_a_wait_for_a_far_one_fires() {
    let (near_fired, told) = async_channel::bounded(1);
    thread::scope(|scope| {
        scope.spawn(|| {
            let far = async {
                Timer::after(FAR).await;
                panic!("the far one fired");
            };
            block_on(future::or(async { told.recv().await.is_ok() }, far));
        });
        let mut near = Timer::after(Duration::from_millis(1));
        for _ in 0..100 {
            let deadline = Instant::now() + Duration::from_millis(1);
            near.set_at(deadline);
            on_this_thread_alone(&mut near);
            assert!(Instant::now() >= deadline);
        }
        near_fired.try_send(()).expect("it is told once");
    });
}

/// Polls a future with the `block_on` of `futures_lite`. It does not wait on our poller, so the
/// other thread has to wait for the timer.
fn on_this_thread_alone<T>(future: impl Future<Output = T>) -> T {
    future::block_on(future)
}

fn a_period_is_never_cut_short() {
    const PERIOD: Duration = Duration::from_millis(3);
    block_on(async {
        let start = Instant::now();
        let mut period = Timer::interval_at(start + PERIOD, PERIOD);
        for n in 1..=30 {
            period.next().await;
            assert!(start.elapsed() >= PERIOD * n, "firing {n}");
        }
    });
}
