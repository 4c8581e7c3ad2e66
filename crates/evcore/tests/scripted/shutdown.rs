//! Graceful shutdown: its beginning, its evictions and its end.

use std::time::Duration;

use evcore::{Budgets, Ready, Step, Timer};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

const ZERO: Option<Duration> = Some(Duration::ZERO);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn fixtures() -> [Fixture; 2] {
    [Fixture::listening(1), Fixture::locking(1)]
}

#[test]
fn a_loop_is_not_done_before_it_shuts_down() {
    let mut fixture = Fixture::new();
    fixture.turn();
    assert!(!fixture.ev.stats().shut_down && !fixture.ev.stats().shutting_down);
    fixture.ev.shutdown(ms(10));
    assert!(
        fixture.ev.stats().shut_down && fixture.ev.stats().shutting_down,
        "nothing is left"
    );
    fixture.backend.record();
    assert!(!fixture.ev.wait().unwrap() && !fixture.ev.wait_at_most(None).unwrap());
    assert_eq!(
        fixture.backend.timeouts(),
        [],
        "there is nothing to wait for"
    );
    let sleep = fixture.ev.prepare().unwrap();
    assert_eq!(sleep.timeout, ZERO, "there is nothing to sleep for");
}

#[test]
fn a_handler_that_blocks_does_not_shorten_the_timeout() {
    let mut fixture = Fixture::new();
    fixture.join();
    fixture.pass_ms(3000);
    fixture.ev.shutdown(ms(1000));
    fixture.announced();
    fixture.backend.record();
    fixture.turn();
    assert!(!fixture.ev.stats().shut_down, "the connection is busy");
    assert_eq!(fixture.backend.timeouts(), [Some(ms(1000))]);
    fixture.pass_ms(3000);
    fixture.ev.shutdown(ms(0));
    assert!(fixture.ev.stats().shut_down, "zero is at once");
}

#[test]
fn in_every_phase_a_shutdown_closes_the_listeners() {
    for begin_after in 0..6 {
        for mut fixture in fixtures() {
            let [a, b] = [fixture.join(), fixture.join()];
            fixture.arm_ms(a, Timer::READ, 1);
            fixture.pass_ms(1);
            fixture.ev.post(b, Ready::WRITABLE);
            fixture.ev.handle().wake();
            fixture.connect(0, 3);
            fixture.backend.report(vec![
                (fixture.fd(a), Ready::READABLE),
                (fixture.listener_fd(0), Ready::READABLE),
            ]);
            fixture.wait();
            for _ in 0..begin_after {
                fixture.step();
            }
            let accepted = fixture.accepted.len();
            fixture.ev.shutdown(ms(1000));
            assert!(!fixture.backend.holds_lock() && !fixture.ev.stats().listening);
            assert!(!fixture.backend.watches(fixture.listener_fd(0)));
            fixture.rest();
            fixture.turn();
            assert_eq!(
                fixture.accepted.len(),
                accepted,
                "begun after {begin_after}"
            );
            assert!(!fixture.ev.stats().shut_down, "both are busy");
        }
    }
}

#[test]
fn a_shutdown_in_a_late_phase_is_announced_before_it_evicts() {
    for is_posted in [false, true] {
        let mut fixture = Fixture::new();
        let (idle, job) = (fixture.join_idle(), fixture.begin());
        let expected = if is_posted {
            assert!(fixture.ev.post(job, Ready::READABLE));
            readable(job)
        } else {
            fixture.arm_ms(job, Timer::READ, 1);
            fixture.pass_ms(1);
            Recorded::Expired(job, Timer::READ)
        };
        fixture.wait();
        assert_eq!(fixture.step(), Some(expected));
        fixture.ev.shutdown(ms(1000));
        assert_eq!((fixture.rest(), fixture.announcements), (vec![], 0));
        fixture.backend.record();
        fixture.wait();
        assert_eq!(fixture.backend.timeouts(), [ZERO]);
        assert!(matches!(fixture.ev.next_step(), Some(Step::ShuttingDown)));
        assert_eq!(fixture.rest(), [Recorded::Evict(idle)]);
    }
}

#[test]
fn a_shutdown_evicts_a_budget_of_idle_connections_a_turn() {
    let mut fixture = Fixture::built(0, |builder, _| {
        builder.budgets(Budgets {
            evictions: 2,
            ..Budgets::default()
        })
    });
    let tokens @ [a, b, c, d, e] = [(); 5].map(|()| fixture.join_idle());
    fixture.ev.shutdown(ms(1000));
    let turns = [vec![a, b], vec![c, d], vec![e]];
    for named in turns {
        let named: Vec<_> = named.into_iter().map(Recorded::Evict).collect();
        assert_eq!(fixture.turn(), named);
    }
    assert_eq!(fixture.backend.timeouts(), [ZERO; 3]);
    assert_eq!(fixture.turn(), [], "each is evicted once");
    assert_eq!(fixture.backend.timeouts(), [Some(ms(1000))]);
    for token in tokens {
        assert!(!fixture.ev.stats().shut_down);
        fixture.leave(token);
    }
    assert!(fixture.ev.stats().shut_down);
}

#[test]
fn busy_connections_are_evicted_once_they_are_idle() {
    let mut fixture = Fixture::new();
    let [a, b] = [fixture.join(), fixture.join()];
    fixture.ev.shutdown(ms(1000));
    assert_eq!(fixture.turn(), []);
    fixture.report_readable(&[a, b]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(readable(a)));
    fixture.ev.set_idle(a);
    assert_eq!(fixture.step(), Some(readable(b)));
    fixture.leave(b);
    assert_eq!(fixture.rest(), [Recorded::Evict(a)]);
    assert!(!fixture.ev.stats().shut_down);
    fixture.leave(a);
    assert!(fixture.ev.stats().shut_down);
}

#[test]
fn a_connection_that_becomes_idle_meanwhile_is_evicted_too() {
    for (evictions, turns) in [(256, 1), (1, 2)] {
        let mut fixture = Fixture::built(0, |builder, _| {
            builder.budgets(Budgets {
                evictions,
                ..Budgets::default()
            })
        });
        let [a, b] = [fixture.join_idle(), fixture.join()];
        fixture.ev.shutdown(ms(1000));
        fixture.wait();
        assert_eq!(fixture.step(), Some(Recorded::Evict(a)));
        fixture.ev.set_idle(b);
        fixture.leave(a);
        let mut named = fixture.rest();
        named.extend(fixture.turn());
        assert_eq!(named, [Recorded::Evict(b)]);
        let hurried = fixture
            .backend
            .timeouts()
            .iter()
            .filter(|timeout| **timeout == ZERO)
            .count();
        assert_eq!(hurried, turns);
    }
}

#[test]
fn a_shutdown_ends_at_its_timeout() {
    for mut fixture in fixtures() {
        let token = fixture.join();
        fixture.arm_ms(token, Timer::READ, 60_000);
        fixture.turn();
        fixture.ev.shutdown(ms(100));
        fixture.announced();
        fixture.backend.record();
        fixture.pass_ms(40);
        assert_eq!(fixture.turn(), []);
        assert_eq!(fixture.turn(), []);
        assert_eq!(fixture.backend.timeouts(), [Some(ms(60)), Some(ms(60))]);
        fixture.time.advance(Duration::from_nanos(59_999_999));
        fixture.turn();
        assert!(!fixture.ev.stats().shut_down, "a nanosecond is left");
        fixture.time.advance(Duration::from_nanos(1));
        fixture.turn();
        assert!(fixture.ev.stats().shut_down);
        assert!(!fixture.ev.wait().unwrap());
    }
}

#[test]
fn a_timeout_of_zero_ends_at_once_and_the_longest_one_never() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.ev.shutdown(Duration::MAX);
    fixture.pass_ms(u64::from(u32::MAX));
    fixture.turn();
    assert!(!fixture.ev.stats().shut_down);
    fixture.ev.shutdown(Duration::ZERO);
    assert!(fixture.ev.stats().shut_down);
    fixture.leave(token);
}

#[test]
fn of_two_shutdowns_the_one_that_ends_first_counts() {
    for (first, second, left) in [(100, 30, 30), (100, 80, 80), (100, 200, 90)] {
        let mut fixture = Fixture::new();
        fixture.join();
        fixture.ev.shutdown(ms(first));
        fixture.pass_ms(10);
        fixture.turn();
        fixture.ev.shutdown(ms(second));
        fixture.backend.record();
        fixture.turn();
        assert_eq!(fixture.backend.timeouts(), [Some(ms(left))]);
    }
}

#[test]
fn a_handles_shutdown_begins_and_counts_in_the_next_turn() {
    for mut fixture in fixtures() {
        let (idle, _busy) = (fixture.join_idle(), fixture.join());
        fixture.turn();
        let handle = fixture.ev.handle();
        handle.shutdown(ms(100));
        handle.clone().shutdown(ms(300));
        assert!(
            !fixture.ev.stats().shutting_down,
            "the loop has not seen it yet"
        );
        fixture.pass_ms(50);
        assert_eq!(fixture.turn(), [Recorded::Evict(idle)], "and no Woken");
        assert!(!fixture.ev.stats().listening && fixture.ev.stats().shutting_down);
        fixture.leave(idle);
        fixture.backend.record();
        fixture.turn();
        assert_eq!(fixture.backend.timeouts(), [Some(ms(100))]);
    }
}

#[test]
fn a_wait_that_fails_does_not_lose_the_shutdown_request_of_a_handle() {
    let mut fixture = Fixture::new();
    fixture.ev.handle().shutdown(ms(100));
    fixture.backend.fail_wait();
    assert!(fixture.ev.wait().is_err());
    assert!(!fixture.ev.stats().shutting_down);
    fixture.turn();
    assert!(fixture.ev.stats().shut_down);
}

#[test]
fn a_refused_removal_does_not_delay_a_shutdown() {
    let mut fixture = Fixture::listening(1);
    fixture.turn();
    fixture.backend.fail_removals();
    fixture.ev.shutdown(ms(100));
    fixture.turn();
    assert!(fixture.ev.stats().shut_down);
}

#[test]
fn a_timer_without_a_descriptor_keeps_the_loop_alive() {
    let mut fixture = Fixture::new();
    let job = fixture.begin();
    fixture.arm_ms(job, Timer::WRITE, 50);
    fixture.ev.shutdown(ms(1000));
    fixture.announced();
    fixture.backend.record();
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.backend.timeouts(), [Some(ms(50))]);
    fixture.pass_ms(50);
    assert!(!fixture.ev.stats().shut_down);
    assert_eq!(fixture.turn(), [Recorded::Expired(job, Timer::WRITE)]);
    assert!(fixture.ev.stats().shut_down);
}

#[test]
fn background_timers_expire_but_do_not_keep_the_loop_alive() {
    let mut fixture = Fixture::new();
    let [sweep, job] = [fixture.begin(), fixture.begin()];
    assert!(fixture.ev.timers().set_background(sweep) && fixture.ev.timers().set_background(sweep));
    for side in [Timer::READ, Timer::WRITE] {
        fixture.arm_ms(sweep, side, 10);
    }
    fixture.arm_ms(job, Timer::READ, 20);
    fixture.ev.shutdown(ms(1000));
    fixture.pass_ms(10);
    assert_eq!(fixture.turn().len(), 2);
    fixture.arm_ms(sweep, Timer::READ, 60_000);
    assert!(!fixture.ev.stats().shut_down, "the job is left");
    assert!(fixture.ev.disarm(job, Timer::READ));
    assert!(fixture.ev.stats().shut_down);
}

#[test]
fn the_next_occupant_of_a_background_index_is_waited_for() {
    let mut fixture = Fixture::new();
    let sweep = fixture.begin();
    fixture.ev.timers().set_background(sweep);
    fixture.leave(sweep);
    assert!(!fixture.ev.timers().set_background(sweep), "stale");
    let job = fixture.begin();
    assert_eq!(job.index(), sweep.index());
    fixture.arm_ms(job, Timer::READ, 10);
    fixture.ev.shutdown(ms(1000));
    assert!(!fixture.ev.stats().shut_down);
}

#[test]
fn a_connection_with_background_timers_keeps_the_loop_alive() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.ev.timers().set_background(token);
    fixture.arm_ms(token, Timer::READ, 10);
    fixture.ev.shutdown(ms(1000));
    assert!(!fixture.ev.stats().shut_down);
    fixture.leave(token);
    assert!(fixture.ev.stats().shut_down);
}

#[test]
fn a_post_is_delivered_before_the_end() {
    let mut fixture = Fixture::new();
    let job = fixture.begin();
    fixture.ev.shutdown(ms(1000));
    fixture.ev.post_next(job, Ready::READABLE);
    assert!(!fixture.ev.stats().shut_down);
    assert_eq!(fixture.turn(), [readable(job)]);
    assert!(fixture.ev.stats().shut_down);
}

#[test]
fn with_a_resolution_a_shutdown_is_never_shorter() {
    let resolution = ms(10);
    let mut fixture = Fixture::built(0, |builder, _| builder.timer_resolution(resolution));
    fixture.join();
    // The clock shows the last tick, and is behind.
    fixture.pass_ms(9);
    fixture.turn();
    fixture.ev.shutdown(ms(20));
    for _ in 0..4 {
        fixture.pass_ms(5);
        fixture.turn();
    }
    assert!(
        !fixture.ev.stats().shut_down,
        "the clock does not show the end yet"
    );
    fixture.pass_ms(10);
    fixture.turn();
    assert!(fixture.ev.stats().shut_down);
    assert!(!fixture.ev.wait().unwrap());
}

#[test]
fn turns_left_early_still_evict_all_idle_connections() {
    for leave_after in 0..=4 {
        let mut fixture = Fixture::new();
        let tokens = [(); 4].map(|()| fixture.join_idle());
        fixture.ev.shutdown(ms(1000));
        fixture.wait();
        let mut named: Vec<_> = (0..leave_after).map_while(|_| fixture.step()).collect();
        fixture.backend.record();
        named.extend(fixture.turn());
        let waited = if leave_after < 4 {
            ZERO
        } else {
            Some(ms(1000))
        };
        assert_eq!(fixture.backend.timeouts(), [waited]);
        assert_eq!(named, tokens.map(Recorded::Evict));
    }
}

#[test]
fn a_shutdown_is_announced_once_before_the_first_eviction() {
    for by_handle in [false, true] {
        let mut fixture = Fixture::new();
        let [idle, busy] = [fixture.join_idle(), fixture.join()];
        for _ in 0..2 {
            if by_handle {
                fixture.ev.handle().shutdown(ms(60_000));
            } else {
                fixture.ev.shutdown(ms(60_000));
            }
        }
        fixture.wait();
        assert!(matches!(fixture.ev.next_step(), Some(Step::ShuttingDown)));
        assert!(fixture.ev.stats().shutting_down);
        assert_eq!(fixture.rest(), [Recorded::Evict(idle)]);
        fixture.ev.shutdown(ms(50_000));
        fixture.leave(idle);
        assert_eq!((fixture.turn(), fixture.announcements), (vec![], 0));
        fixture.leave(busy);
        assert!(fixture.ev.stats().shut_down);
    }
}

#[test]
fn a_shutdown_that_is_complete_at_once_is_not_announced() {
    let mut fixture = Fixture::new();
    fixture.ev.shutdown(ms(60_000));
    assert!(!fixture.ev.wait().unwrap());
    assert!(fixture.ev.stats().shut_down, "there is nothing to do");
    assert_eq!(fixture.ev.stats().turns, 0);
}
