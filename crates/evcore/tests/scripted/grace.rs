//! The grace: a shutdown does not at once evict a connection that became idle just before it.

use std::time::Duration;

use evcore::Timer;

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

const ZERO: Option<Duration> = Some(Duration::ZERO);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn with_grace() -> Fixture {
    Fixture::built(0, |builder, _| builder.idle_grace(ms(1000)))
}

#[test]
fn a_shutdown_evicts_long_idle_connections_first() {
    let mut fixture = with_grace();
    let [long_idle, used_again] = [(); 2].map(|()| fixture.join_idle());
    fixture.pass_ms(1125);
    fixture.turn();
    let fresh = fixture.join_idle();
    assert!(fixture.ev.set_idle(used_again));
    fixture.ev.shutdown(ms(30_000));
    fixture.backend.record();
    assert_eq!(fixture.turn(), [Recorded::Evict(long_idle)]);
    fixture.leave(long_idle);
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.backend.timeouts(), [ZERO, Some(ms(1000))]);
    assert_eq!(fixture.ev.stats().idle, 2);

    fixture.pass_ms(1000);
    let evicted = [fresh, used_again].map(Recorded::Evict);
    assert_eq!(fixture.turn(), evicted);
    assert_eq!(fixture.turn(), [], "each is evicted once");
    let rest = fixture.backend.timeouts();
    assert_eq!(
        rest.last(),
        Some(&Some(ms(29_000))),
        "the wait is not cut short"
    );
}

#[test]
fn a_handler_that_blocks_does_not_shorten_the_grace() {
    let mut fixture = with_grace();
    let token = fixture.join_idle();
    fixture.pass_ms(3000);
    fixture.ev.shutdown(ms(30_000));
    fixture.announced();
    fixture.backend.record();
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.backend.timeouts(), [Some(ms(1000))]);
    fixture.pass_ms(1000);
    assert_eq!(fixture.turn(), [Recorded::Evict(token)]);
}

#[test]
fn a_grace_lasts_up_to_an_eighth_longer() {
    for (idle_ms, waits) in [(0, true), (1000, true), (1124, true), (1125, false)] {
        let mut fixture = with_grace();
        let token = fixture.join_idle();
        fixture.pass_ms(idle_ms);
        fixture.turn();
        fixture.ev.shutdown(ms(30_000));
        let evicted = fixture.turn();
        assert_eq!(evicted.is_empty(), waits, "idle for {idle_ms} ms");
        assert!(waits || evicted == [Recorded::Evict(token)]);
    }
}

#[test]
fn a_connection_used_in_its_grace_is_evicted_when_idle_again() {
    for marks_busy in [false, true] {
        let mut fixture = with_grace();
        let [a, b] = [(); 2].map(|()| fixture.join_idle());
        fixture.ev.shutdown(ms(30_000));
        fixture.pass_ms(500);
        fixture.report_readable(&[a]);
        fixture.wait();
        assert_eq!(fixture.step(), Some(readable(a)));
        if marks_busy {
            assert!(fixture.ev.set_busy(a));
        }
        assert!(fixture.ev.set_idle(a));
        assert_eq!(fixture.rest(), [Recorded::Evict(a)]);
        fixture.leave(a);
        assert!(!fixture.ev.stats().shut_down && fixture.ev.is_idle(b));
    }
}

#[test]
fn a_connection_that_is_busy_when_the_grace_ends_is_not_evicted() {
    let mut fixture = with_grace();
    let token = fixture.join_idle();
    fixture.ev.shutdown(ms(30_000));
    assert_eq!(fixture.turn(), []);
    assert!(fixture.ev.set_busy(token));
    fixture.pass_ms(1000);
    assert_eq!(fixture.turn(), []);
    fixture.backend.record();
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.backend.timeouts(), [Some(ms(29_000))]);
}

#[test]
fn a_shutdown_ends_when_the_last_connection_in_grace_leaves() {
    let mut fixture = with_grace();
    let token = fixture.join_idle();
    fixture.ev.shutdown(ms(30_000));
    assert_eq!(fixture.turn(), []);
    assert!(!fixture.ev.stats().shut_down);
    fixture.leave(token);
    assert!(fixture.ev.stats().shut_down);
}

#[test]
fn a_shorter_timeout_does_not_wait_for_the_grace() {
    let mut fixture = with_grace();
    fixture.join_idle();
    fixture.ev.shutdown(ms(300));
    fixture.announced();
    fixture.backend.record();
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.backend.timeouts(), [Some(ms(300))]);
    fixture.pass_ms(300);
    fixture.turn();
    assert!(fixture.ev.stats().shut_down);
}

#[test]
fn a_second_shutdown_does_not_make_the_grace_longer() {
    let mut fixture = with_grace();
    let token = fixture.join_idle();
    for _ in 0..4 {
        fixture.ev.shutdown(ms(30_000));
        assert_eq!(fixture.turn(), []);
        fixture.pass_ms(250);
    }
    assert_eq!(fixture.turn(), [Recorded::Evict(token)]);
}

#[test]
fn a_coarse_clock_does_not_shorten_the_grace() {
    let resolution = ms(100);
    let mut fixture = Fixture::built(0, |builder, _| {
        builder.idle_grace(ms(1000)).timer_resolution(resolution)
    });
    fixture.turn();
    // The clock is behind by almost a tick.
    fixture.pass_ms(99);
    let token = fixture.join_idle();
    fixture.pass_ms(1001);
    fixture.turn();
    fixture.ev.shutdown(ms(30_000));
    assert_eq!(fixture.turn(), []);
    assert!(fixture.ev.is_idle(token));
}

#[test]
fn a_timer_of_the_grace_does_not_delay_other_timers() {
    let mut fixture = with_grace();
    let token = fixture.join_idle();
    fixture.arm_ms(token, Timer::READ, 200);
    fixture.ev.shutdown(ms(30_000));
    fixture.announced();
    fixture.backend.record();
    fixture.turn();
    assert_eq!(fixture.backend.timeouts(), [Some(ms(200))]);
    fixture.pass_ms(200);
    assert_eq!(fixture.turn(), [Recorded::Expired(token, Timer::READ)]);
}

#[test]
fn slots_that_are_needed_are_taken_from_fresh_connections_too() {
    let mut fixture = Fixture::built(1, |builder, _| builder.idle_grace(ms(1000)).connections(2));
    let [oldest, other] = [(); 2].map(|()| fixture.join_idle());
    fixture.connect(0, 1);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), [Recorded::Evict(oldest)]);
    assert!(fixture.ev.is_idle(other));
}
