//! Timers of the loop, which calloop turns into timeouts of our poller's waits.

use std::time::{Duration, Instant};

use calloop::{
    EventLoop,
    timer::{TimeoutAction, Timer},
};
use evcore_compat::on_each_backend;

use crate::turn;

on_each_backend!(
    timers_fire_in_the_order_of_their_deadlines_and_not_early,
    a_timer_that_sets_itself_again_is_never_early,
    a_wait_without_events_lasts_until_its_timeout,
);

fn timers_fire_in_the_order_of_their_deadlines_and_not_early() {
    const TIMERS: u64 = 200;
    let mut event_loop = EventLoop::try_new().expect("a loop");
    let start = Instant::now();
    for i in 0..TIMERS {
        // The deadlines are spread without order, to the nanosecond.
        let deadline = start + Duration::from_nanos(i * 999_999_937 % 200_000_000);
        event_loop
            .handle()
            .insert_source(
                Timer::from_deadline(deadline),
                move |came, &mut (), fired: &mut Vec<Instant>| {
                    assert_eq!(came, deadline);
                    assert!(Instant::now() >= deadline);
                    fired.push(deadline);
                    TimeoutAction::Drop
                },
            )
            .expect("the timer is set");
    }
    let mut fired = Vec::new();
    turn::until(&mut event_loop, &mut fired, |fired| {
        fired.len() as u64 == TIMERS
    });
    assert!(fired.is_sorted());
}

fn a_timer_that_sets_itself_again_is_never_early() {
    const PERIOD: Duration = Duration::from_millis(2);
    let mut event_loop = EventLoop::try_new().expect("a loop");
    let start = Instant::now();
    let timer = Timer::from_deadline(start + PERIOD);
    event_loop
        .handle()
        .insert_source(timer, move |deadline, &mut (), fired: &mut u32| {
            *fired += 1;
            assert_eq!(deadline, start + PERIOD * *fired);
            assert!(Instant::now() >= deadline);
            TimeoutAction::ToInstant(deadline + PERIOD)
        })
        .expect("the timer is set");
    turn::until(&mut event_loop, &mut 0, |fired| *fired == 30);
}

fn a_wait_without_events_lasts_until_its_timeout() {
    let mut event_loop = EventLoop::<()>::try_new().expect("a loop");
    for micros in [0, 1, 999, 1_000, 1_001, 5_000] {
        let timeout = Duration::from_micros(micros);
        let start = Instant::now();
        event_loop.dispatch(timeout, &mut ()).expect("it waits");
        assert!(start.elapsed() >= timeout, "{timeout:?}");
    }
}
