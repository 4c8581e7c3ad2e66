//! A loop with a timer resolution, which updates its clock only at ticks. With a fake backend, the
//! loop reads the clock's source to find the ticks.

use std::time::Duration;

use evcore::{
    Builder, Error, EventLoop, Ready, Timer,
    balancer::Policy,
    clock::{Clock, ManualTimeSource, Ticker, TickerError},
};

use crate::{
    fake_backend::{FakeBackend, Recorded},
    fixture::{Fixture, readable},
};

const MS: Duration = Duration::from_millis(1);
const NS: Duration = Duration::from_nanos(1);

fn resolved(resolution: Duration) -> Fixture {
    Fixture::built(0, |builder, _| builder.timer_resolution(resolution))
}

/// The timeout of the next turn's wait.
fn timeout(fixture: &mut Fixture) -> Option<Duration> {
    fixture.backend.record();
    fixture.turn();
    fixture.backend.timeouts()[0]
}

#[test]
fn the_clock_stands_still_from_tick_to_tick() {
    let mut fixture = resolved(100 * MS);
    let token = fixture.join();
    let mut shown = Vec::new();
    for _ in 0..25 {
        fixture.pass_ms(10);
        fixture.report_readable(&[token]);
        assert_eq!(fixture.turn(), [readable(token)]);
        shown.push(fixture.ev.clock().monotonic_ms());
    }
    let expected = [[0; 9].as_slice(), &[100; 10], &[200; 6]].concat();
    assert_eq!(shown, expected);
    assert_eq!(
        (fixture.ev.stats().ticks, fixture.ev.stats().turns),
        (2, 25)
    );
}

#[test]
fn a_tick_comes_exactly_one_period_after_the_last() {
    let mut fixture = resolved(5 * MS);
    fixture.time.advance(5 * MS - NS);
    fixture.turn();
    assert_eq!(fixture.ev.clock().monotonic_ns(), 0);
    fixture.time.advance(NS);
    fixture.turn();
    assert_eq!(fixture.ev.clock().monotonic_ns(), 5_000_000);
}

#[test]
fn the_strings_stand_still_too() {
    let mut fixture = resolved(2_000 * MS);
    let first = fixture.ev.clock().http_date().to_string();
    fixture.pass_ms(1_999);
    fixture.turn();
    assert_eq!(fixture.ev.clock().http_date().as_str(), first);
    fixture.pass_ms(1);
    fixture.turn();
    assert_ne!(fixture.ev.clock().http_date().as_str(), first);
}

#[test]
fn a_wait_goes_to_the_next_tick_from_wherever_the_last_ended() {
    let mut fixture = resolved(100 * MS);
    assert_eq!(timeout(&mut fixture), Some(100 * MS));
    fixture.pass_ms(30);
    fixture.turn();
    assert_eq!(timeout(&mut fixture), Some(70 * MS));
    fixture.pass_ms(130);
    fixture.turn();
    assert_eq!(
        timeout(&mut fixture),
        Some(100 * MS),
        "missed ticks count as one"
    );
}

#[test]
fn no_timer_shortens_the_wait_and_none_lengthens_it() {
    for after_ms in [1, 50, 100, 10_000] {
        let mut fixture = resolved(100 * MS);
        let token = fixture.join();
        fixture.arm_ms(token, Timer::READ, after_ms);
        assert_eq!(timeout(&mut fixture), Some(100 * MS), "{after_ms}");
    }
}

/// The clock shows 0 just before the next tick, which is the worst case.
#[test]
fn a_timer_that_is_armed_just_before_a_tick_is_not_early() {
    for after in [NS, MS, 50 * MS, 100 * MS, 101 * MS] {
        let mut fixture = resolved(100 * MS);
        let token = fixture.join();
        fixture.time.advance(100 * MS - NS);
        fixture.turn();
        assert!(fixture.ev.arm(token, Timer::READ, after));
        let mut passed = Duration::ZERO;
        while fixture.turn().is_empty() {
            fixture.time.advance(MS / 2);
            passed += MS / 2;
        }
        assert!(passed >= after, "{passed:?} for {after:?}");
        assert!(passed <= after + 200 * MS, "{passed:?} for {after:?}");
        let now_ms = fixture.ev.clock().monotonic_ms();
        assert_eq!(now_ms % 100, 0, "fires at a tick, not at {now_ms} ms");
    }
}

/// The clock has just been updated, so the resolution that is added to the deadline makes the timer
/// late. The wait for the next tick makes it later by at most another resolution.
#[test]
fn a_timer_armed_at_a_tick_is_late_by_at_most_two_resolutions() {
    for after_ms in [1, 99, 100, 101] {
        let mut fixture = resolved(100 * MS);
        let token = fixture.join();
        fixture.arm_ms(token, Timer::WRITE, after_ms);
        let fires_ms = (0..=400).step_by(100).find(|now_ms| {
            fixture.pass_ms(if *now_ms == 0 { 0 } else { 100 });
            !fixture.turn().is_empty()
        });
        let late_ms = fires_ms.expect("it fires") - after_ms;
        assert!((100..=200).contains(&late_ms), "{late_ms} ms late");
    }
}

#[test]
fn carried_work_is_not_waited_for() {
    let mut fixture = resolved(100 * MS);
    let token = fixture.join();
    fixture.ev.post(token, Ready::READABLE);
    assert_eq!(timeout(&mut fixture), Some(Duration::ZERO));
    assert_eq!(timeout(&mut fixture), Some(100 * MS));
}

#[test]
fn timers_over_the_budget_expire_without_another_tick() {
    let mut fixture = Fixture::built(0, |builder, _| {
        let budgets = evcore::Budgets {
            expired: 1,
            ..evcore::Budgets::default()
        };
        builder.budgets(budgets).timer_resolution(100 * MS)
    });
    let tokens = [(); 3].map(|()| fixture.join());
    for token in tokens {
        fixture.arm_ms(token, Timer::READ, 1);
    }
    fixture.pass_ms(200);
    let mut fired = Vec::new();
    fixture.backend.record();
    for _ in 0..3 {
        fired.extend(fixture.turn());
    }
    assert_eq!(
        fired,
        tokens.map(|token| Recorded::Expired(token, Timer::READ))
    );
    let zero = Some(Duration::ZERO);
    assert_eq!(fixture.backend.timeouts()[1..], [zero, zero]);
    assert_eq!(fixture.ev.stats().ticks, 1);
}

#[test]
fn a_timer_that_rearms_itself_for_zero_expires_once_a_tick() {
    let mut fixture = resolved(10 * MS);
    let token = fixture.join();
    fixture.arm_ms(token, Timer::READ, 0);
    for _ in 0..20 {
        let waits = fixture.ev.prepare().expect("nothing is refused");
        let waits = waits.timeout.expect("at most to the tick");
        assert!(!waits.is_zero());
        fixture.time.advance(waits);
        fixture
            .ev
            .wait_at_most(waits)
            .expect("the backend does not fail");
        if fixture.step().is_some() {
            fixture.arm_ms(token, Timer::READ, 0);
        }
        fixture.rest();
    }
    let stats = fixture.ev.stats();
    assert!(stats.turns <= stats.ticks + 1, "{stats:?}");
    assert!(stats.expired >= 9, "{stats:?}");
}

#[test]
fn a_wait_is_shorter_by_the_time_that_the_handlers_took() {
    let mut fixture = resolved(10 * MS);
    fixture.turn();
    fixture.time.advance(4 * MS); // the time of the turn's handlers
    assert_eq!(timeout(&mut fixture), Some(6 * MS));
    fixture.time.advance(20 * MS);
    assert_eq!(timeout(&mut fixture), Some(Duration::ZERO));
    assert_eq!(fixture.ev.clock().monotonic_ns(), 24_000_000);
}

#[test]
fn the_balancers_limit_holds_where_it_is_shorter_than_a_tick() {
    for (resolution, expected) in [(1_000, 20), (5, 5)] {
        let delay = 20 * MS;
        let mut fixture = Fixture::built(1, |builder, backend| {
            let builder = builder.policy(Policy::Mutex { delay });
            builder
                .group(backend.clone())
                .timer_resolution(resolution * MS)
        });
        fixture.backend.set_lock_free(false);
        assert_eq!(timeout(&mut fixture), Some(expected * MS));
    }
}

#[test]
fn a_delay_of_the_balancer_ends_although_the_clock_stands() {
    let mut fixture = Fixture::built(1, |builder, backend| {
        let policy = Policy::Mutex { delay: 20 * MS };
        let builder = builder.policy(policy).group(backend.clone());
        builder.timer_resolution(1_000 * MS)
    });
    fixture.backend.set_lock_free(false);
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    fixture.pass_ms(15);
    assert_eq!(timeout(&mut fixture), Some(5 * MS));
    assert!(!fixture.ev.stats().listening);
    fixture.pass_ms(5);
    fixture.wait();
    assert!(
        fixture.ev.stats().listening,
        "the delay of the balancer is over"
    );
    assert_eq!(fixture.ev.clock().monotonic_ms(), 0);
}

#[test]
fn a_plan_that_stands_ends_although_the_clock_stands() {
    let mut fixture = Fixture::built(1, |builder, backend| {
        backend.make_exclusive();
        let policy = Policy::exclusive().with_delay(20 * MS);
        let builder = builder.backend(backend.clone()).policy(policy);
        builder.timer_resolution(1_000 * MS)
    });
    assert_eq!(timeout(&mut fixture), Some(20 * MS));
    fixture.pass_ms(20);
    assert_eq!(timeout(&mut fixture), Some(20 * MS), "a new plan");
    assert_eq!(fixture.ev.clock().monotonic_ms(), 0);
}

#[test]
fn interrupted_and_failed_waits_do_not_move_the_ticks() {
    let mut fixture = resolved(100 * MS);
    fixture.pass_ms(100);
    fixture.backend.fail_wait();
    assert!(fixture.ev.wait().is_err());
    assert_eq!(fixture.ev.clock().monotonic_ms(), 0);
    fixture.backend.interrupt();
    fixture.turn();
    assert_eq!(fixture.ev.clock().monotonic_ms(), 100);
}

#[test]
fn building_a_loop_with_a_resolution_updates_its_clock() {
    let time = ManualTimeSource::new();
    let clock = Clock::with_source(time.clone());
    time.advance(5_000 * MS);
    let builder = EventLoop::builder()
        .backend(FakeBackend::new())
        .clock(clock);
    let ev = builder.timer_resolution(100 * MS).build().unwrap();
    assert_eq!(ev.clock().monotonic_ms(), 5_000);
}

#[test]
fn a_resolution_of_zero_or_above_a_day_is_refused() {
    let scripted: fn() -> Builder = || EventLoop::builder().backend(FakeBackend::new());
    for builder in [scripted, EventLoop::builder] {
        for resolution in [Duration::ZERO, Ticker::PERIOD_MAX + NS, Duration::MAX] {
            let refusal = builder().timer_resolution(resolution).build().unwrap_err();
            assert!(
                matches!(refusal, Error::Ticker(TickerError::Period { period }) if period == resolution)
            );
            assert!(refusal.to_string().contains("at most a day"), "{refusal}");
        }
        for resolution in [NS, Ticker::PERIOD_MAX] {
            assert!(builder().timer_resolution(resolution).build().is_ok());
        }
    }
}
