//! A clock that is updated at ticks alone. Here the source says when they are: the loop asks it.

use std::time::Duration;

use evcore::{
    Builder, Error, EventLoop, Ready, Timer,
    balancer::Policy,
    clock::{Clock, ManualTimeSource, Ticker},
};

use crate::{
    script::{Did, Script},
    stage::{Stage, readable},
};

const MS: Duration = Duration::from_millis(1);
const NS: Duration = Duration::from_nanos(1);

fn resolved(resolution: Duration) -> Stage {
    Stage::built(0, |builder, _| builder.timer_resolution(resolution))
}

/// How long the next turn waits.
fn timeout(stage: &mut Stage) -> Option<Duration> {
    stage.script.record();
    stage.turn();
    stage.script.timeouts()[0]
}

#[test]
fn the_clock_stands_still_from_tick_to_tick_however_many_turns_there_are() {
    let mut stage = resolved(100 * MS);
    let token = stage.join();
    let mut shown = Vec::new();
    for _ in 0..25 {
        stage.pass_ms(10);
        stage.report_readable(&[token]);
        assert_eq!(stage.turn(), [readable(token)]);
        shown.push(stage.ev.clock().monotonic_ms());
    }
    let expected = [[0; 9].as_slice(), &[100; 10], &[200; 6]].concat();
    assert_eq!(shown, expected);
    assert_eq!((stage.ev.stats().ticks, stage.ev.stats().turns), (2, 25));
}

#[test]
fn a_tick_is_a_period_after_the_last_and_not_a_nanosecond_before() {
    let mut stage = resolved(5 * MS);
    stage.time.advance(5 * MS - NS);
    stage.turn();
    assert_eq!(stage.ev.clock().monotonic_ns(), 0);
    stage.time.advance(NS);
    stage.turn();
    assert_eq!(stage.ev.clock().monotonic_ns(), 5_000_000);
}

#[test]
fn the_strings_stand_still_too() {
    let mut stage = resolved(2_000 * MS);
    let first = stage.ev.clock().http_date().to_string();
    stage.pass_ms(1_999);
    stage.turn();
    assert_eq!(stage.ev.clock().http_date().as_str(), first);
    stage.pass_ms(1);
    stage.turn();
    assert_ne!(stage.ev.clock().http_date().as_str(), first);
}

#[test]
fn a_wait_goes_to_the_next_tick_from_wherever_the_last_ended() {
    let mut stage = resolved(100 * MS);
    assert_eq!(timeout(&mut stage), Some(100 * MS));
    stage.pass_ms(30);
    stage.turn();
    assert_eq!(timeout(&mut stage), Some(70 * MS));
    stage.pass_ms(130);
    stage.turn();
    assert_eq!(timeout(&mut stage), Some(100 * MS), "missed ticks are one");
}

#[test]
fn no_timer_shortens_the_wait_and_none_lengthens_it() {
    for after_ms in [1, 50, 100, 10_000] {
        let mut stage = resolved(100 * MS);
        let token = stage.join();
        stage.arm_ms(token, Timer::READ, after_ms);
        assert_eq!(timeout(&mut stage), Some(100 * MS), "{after_ms}");
    }
}

/// The clock shows 0 while in truth it is nearly the next tick: the worst there is.
#[test]
fn a_timer_that_is_armed_just_before_a_tick_is_not_early() {
    for after in [NS, MS, 50 * MS, 100 * MS, 101 * MS] {
        let mut stage = resolved(100 * MS);
        let token = stage.join();
        stage.time.advance(100 * MS - NS);
        stage.turn();
        assert!(stage.ev.arm(token, Timer::READ, after));
        let mut passed = Duration::ZERO;
        while stage.turn().is_empty() {
            stage.time.advance(MS / 2);
            passed += MS / 2;
        }
        assert!(passed >= after, "{passed:?} for {after:?}");
        assert!(passed <= after + 200 * MS, "{passed:?} for {after:?}");
        let now_ms = stage.ev.clock().monotonic_ms();
        assert_eq!(now_ms % 100, 0, "fires at a tick, not at {now_ms} ms");
    }
}

/// The clock has just been updated: what is added is then all waiting, and two resolutions in all.
#[test]
fn a_timer_that_is_armed_at_a_tick_is_late_by_two_resolutions_at_most() {
    for after_ms in [1, 99, 100, 101] {
        let mut stage = resolved(100 * MS);
        let token = stage.join();
        stage.arm_ms(token, Timer::WRITE, after_ms);
        let fires_ms = (0..=400).step_by(100).find(|now_ms| {
            stage.pass_ms(if *now_ms == 0 { 0 } else { 100 });
            !stage.turn().is_empty()
        });
        let late_ms = fires_ms.expect("it fires") - after_ms;
        assert!((100..=200).contains(&late_ms), "{late_ms} ms late");
    }
}

#[test]
fn carried_work_is_not_waited_for() {
    let mut stage = resolved(100 * MS);
    let token = stage.join();
    stage.ev.post(token, Ready::READABLE);
    assert_eq!(timeout(&mut stage), Some(Duration::ZERO));
    assert_eq!(timeout(&mut stage), Some(100 * MS));
}

#[test]
fn timers_beyond_the_budget_fire_in_the_next_turns_with_no_tick_between() {
    let mut stage = Stage::built(0, |builder, _| {
        let budgets = evcore::Budgets {
            expired: 1,
            ..evcore::Budgets::default()
        };
        builder.budgets(budgets).timer_resolution(100 * MS)
    });
    let tokens = [(); 3].map(|()| stage.join());
    for token in tokens {
        stage.arm_ms(token, Timer::READ, 1);
    }
    stage.pass_ms(200);
    let mut fired = Vec::new();
    stage.script.record();
    for _ in 0..3 {
        fired.extend(stage.turn());
    }
    assert_eq!(fired, tokens.map(|token| Did::Expired(token, Timer::READ)));
    let zero = Some(Duration::ZERO);
    assert_eq!(stage.script.timeouts()[1..], [zero, zero]);
    assert_eq!(stage.ev.stats().ticks, 1);
}

#[test]
fn a_timer_that_arms_itself_for_no_time_fires_once_a_tick_and_the_loop_sleeps() {
    let mut stage = resolved(10 * MS);
    let token = stage.join();
    stage.arm_ms(token, Timer::READ, 0);
    for _ in 0..20 {
        stage.script.record();
        stage.wait();
        let timeouts = stage.script.timeouts();
        if stage.step().is_some() {
            stage.arm_ms(token, Timer::READ, 0);
        }
        stage.rest();
        let waits = timeouts[0].expect("at most to the tick");
        assert!(!waits.is_zero());
        stage.time.advance(waits);
    }
    let stats = stage.ev.stats();
    assert!(stats.turns <= stats.ticks + 1, "{stats:?}");
    assert!(stats.expired >= 9, "{stats:?}");
}

#[test]
fn the_balancers_limit_holds_where_it_is_shorter_than_a_tick() {
    for (resolution, expected) in [(1_000, 20), (5, 5)] {
        let delay = 20 * MS;
        let mut stage = Stage::built(1, |builder, script| {
            let builder = builder.policy(Policy::Mutex { delay });
            builder
                .group(script.clone())
                .timer_resolution(resolution * MS)
        });
        stage.script.set_lock_free(false);
        assert_eq!(timeout(&mut stage), Some(expected * MS));
    }
}

#[test]
fn the_balancers_delay_ends_in_time_while_the_clock_stands_still() {
    let mut stage = Stage::built(1, |builder, script| {
        let policy = Policy::Mutex { delay: 20 * MS };
        let builder = builder.policy(policy).group(script.clone());
        builder.timer_resolution(1_000 * MS)
    });
    stage.script.set_lock_free(false);
    stage.turn();
    assert!(!stage.ev.status().listening);
    stage.pass_ms(15);
    assert_eq!(timeout(&mut stage), Some(5 * MS));
    assert!(!stage.ev.status().listening);
    stage.pass_ms(5);
    stage.wait();
    assert!(stage.ev.status().listening, "it looks");
    assert_eq!(stage.ev.clock().monotonic_ms(), 0);
}

#[test]
fn an_interrupted_wait_and_one_that_fails_leave_the_pace_as_it_is() {
    let mut stage = resolved(100 * MS);
    stage.pass_ms(100);
    stage.script.fail_wait();
    assert!(stage.ev.wait().is_err());
    assert_eq!(stage.ev.clock().monotonic_ms(), 0);
    stage.script.interrupt();
    stage.turn();
    assert_eq!(stage.ev.clock().monotonic_ms(), 100);
}

#[test]
fn a_clock_that_was_made_long_before_the_loop_is_updated_when_the_loop_is_built() {
    let time = ManualTimeSource::new();
    let clock = Clock::with_source(time.clone());
    time.advance(5_000 * MS);
    let builder = EventLoop::builder().backend(Script::new()).clock(clock);
    let ev = builder.timer_resolution(100 * MS).build().unwrap();
    assert_eq!(ev.clock().monotonic_ms(), 5_000);
}

#[test]
fn a_resolution_of_nothing_or_of_more_than_a_day_is_refused_on_every_backend() {
    let scripted: fn() -> Builder = || EventLoop::builder().backend(Script::new());
    for builder in [scripted, EventLoop::builder] {
        for resolution in [Duration::ZERO, Ticker::PERIOD_MAX + NS, Duration::MAX] {
            let refusal = builder().timer_resolution(resolution).build().unwrap_err();
            assert!(
                matches!(refusal, Error::Resolution { resolution: named } if named == resolution)
            );
            assert!(refusal.to_string().contains("a day at most"), "{refusal}");
        }
        for resolution in [NS, Ticker::PERIOD_MAX] {
            assert!(builder().timer_resolution(resolution).build().is_ok());
        }
    }
}
