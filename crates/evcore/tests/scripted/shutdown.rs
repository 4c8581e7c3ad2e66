//! An orderly end: when it begins, whom it names, and when it is done.

use std::time::Duration;

use evcore::{Budgets, Ready, Timer};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

const ZERO: Option<Duration> = Some(Duration::ZERO);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn stages() -> [Stage; 2] {
    [Stage::listening(1), Stage::locking(1)]
}

#[test]
fn a_loop_is_not_done_before_it_shuts_down() {
    let mut stage = Stage::new();
    stage.turn();
    assert!(!stage.ev.is_done() && !stage.ev.status().shutting_down);
    stage.ev.shutdown(ms(10));
    assert!(
        stage.ev.is_done() && stage.ev.status().shutting_down,
        "nothing is left"
    );
    stage.script.record();
    stage.turn();
    assert_eq!(
        stage.script.timeouts(),
        [ZERO],
        "there is nothing to wait for"
    );
}

#[test]
fn the_listeners_are_closed_in_whichever_phase_it_begins_and_nobody_else_is_accepted() {
    for begin_after in 0..6 {
        for mut stage in stages() {
            let [a, b] = [stage.join(), stage.join()];
            stage.arm_ms(a, Timer::READ, 1);
            stage.pass_ms(1);
            stage.ev.post(b, Ready::WRITABLE);
            stage.ev.handle().wake();
            stage.connect(0, 3);
            stage.script.report(vec![
                (stage.fd(a), Ready::READABLE),
                (stage.listener_fd(0), Ready::READABLE),
            ]);
            stage.wait();
            for _ in 0..begin_after {
                stage.step();
            }
            let accepted = stage.accepted.len();
            stage.ev.shutdown(ms(1000));
            assert!(!stage.script.holds_lock() && !stage.ev.status().listening);
            assert!(!stage.script.watches(stage.listener_fd(0)));
            stage.rest();
            stage.turn();
            assert_eq!(stage.accepted.len(), accepted, "begun after {begin_after}");
            assert!(!stage.ev.is_done(), "both are busy");
        }
    }
}

#[test]
fn all_the_idle_are_named_a_budget_of_them_a_turn_without_a_wait() {
    let mut stage = Stage::built(0, |builder, _| {
        builder.budgets(Budgets {
            evictions: 2,
            ..Budgets::default()
        })
    });
    let tokens @ [a, b, c, d, e] = [(); 5].map(|()| stage.join_idle());
    stage.ev.shutdown(ms(1000));
    let turns = [vec![a, b], vec![c, d], vec![e]];
    for named in turns {
        let named: Vec<_> = named.into_iter().map(Did::Evict).collect();
        assert_eq!(stage.turn(), named);
    }
    assert_eq!(stage.script.timeouts(), [ZERO; 3]);
    assert_eq!(stage.turn(), [], "each is named once");
    assert_eq!(stage.script.timeouts(), [Some(ms(1000))]);
    for token in tokens {
        assert!(!stage.ev.is_done());
        stage.leave(token);
    }
    assert!(stage.ev.is_done());
}

#[test]
fn the_busy_finish_and_are_named_when_they_are_idle() {
    let mut stage = Stage::new();
    let [a, b] = [stage.join(), stage.join()];
    stage.ev.shutdown(ms(1000));
    assert_eq!(stage.turn(), []);
    stage.report_readable(&[a, b]);
    stage.wait();
    assert_eq!(stage.step(), Some(readable(a)));
    stage.ev.set_idle(a);
    assert_eq!(stage.step(), Some(readable(b)));
    stage.leave(b);
    assert_eq!(stage.rest(), [Did::Evict(a)]);
    assert!(!stage.ev.is_done());
    stage.leave(a);
    assert!(stage.ev.is_done());
}

#[test]
fn one_that_is_called_idle_while_the_idle_are_named_is_named_too() {
    for (evictions, turns) in [(256, 1), (1, 2)] {
        let mut stage = Stage::built(0, |builder, _| {
            builder.budgets(Budgets {
                evictions,
                ..Budgets::default()
            })
        });
        let [a, b] = [stage.join_idle(), stage.join()];
        stage.ev.shutdown(ms(1000));
        stage.wait();
        assert_eq!(stage.step(), Some(Did::Evict(a)));
        stage.ev.set_idle(b);
        stage.leave(a);
        let mut named = stage.rest();
        named.extend(stage.turn());
        assert_eq!(named, [Did::Evict(b)]);
        let hurried = stage
            .script
            .timeouts()
            .iter()
            .filter(|it| **it == ZERO)
            .count();
        assert_eq!(hurried, turns);
    }
}

#[test]
fn it_gives_up_when_its_time_is_over_and_waits_no_longer() {
    for mut stage in stages() {
        let token = stage.join();
        stage.arm_ms(token, Timer::READ, 60_000);
        stage.turn();
        stage.ev.shutdown(ms(100));
        stage.script.record();
        stage.pass_ms(40);
        assert_eq!(stage.turn(), []);
        assert_eq!(stage.turn(), []);
        assert_eq!(stage.script.timeouts(), [Some(ms(60)), Some(ms(60))]);
        stage.time.advance(Duration::from_nanos(59_999_999));
        stage.turn();
        assert!(!stage.ev.is_done(), "a nanosecond is left");
        stage.time.advance(Duration::from_nanos(1));
        stage.turn();
        assert!(stage.ev.is_done());
        stage.script.record();
        stage.turn();
        assert_eq!(stage.script.timeouts(), [ZERO]);
    }
}

#[test]
fn no_time_at_all_is_over_at_once_and_the_longest_time_never() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.ev.shutdown(Duration::MAX);
    stage.pass_ms(u64::from(u32::MAX));
    stage.turn();
    assert!(!stage.ev.is_done());
    stage.ev.shutdown(Duration::ZERO);
    assert!(stage.ev.is_done());
    stage.leave(token);
}

#[test]
fn of_two_calls_the_one_that_ends_first_counts_whichever_came_first() {
    for (first, second, left) in [(100, 30, 30), (100, 80, 80), (100, 200, 90)] {
        let mut stage = Stage::new();
        stage.join();
        stage.ev.shutdown(ms(first));
        stage.pass_ms(10);
        stage.turn();
        stage.ev.shutdown(ms(second));
        stage.script.record();
        stage.turn();
        assert_eq!(stage.script.timeouts(), [Some(ms(left))]);
    }
}

#[test]
fn a_handle_begins_it_in_the_turn_that_it_makes_and_counts_from_there() {
    for mut stage in stages() {
        let (idle, _busy) = (stage.join_idle(), stage.join());
        stage.turn();
        let handle = stage.ev.handle();
        handle.shutdown(ms(100));
        handle.clone().shutdown(ms(300));
        assert!(
            !stage.ev.status().shutting_down,
            "the loop does not know yet"
        );
        stage.pass_ms(50);
        assert_eq!(stage.turn(), [Did::Evict(idle)], "and no Woken");
        assert!(!stage.ev.status().listening && stage.ev.status().shutting_down);
        stage.leave(idle);
        stage.script.record();
        stage.turn();
        assert_eq!(stage.script.timeouts(), [Some(ms(100))]);
    }
}

#[test]
fn a_wait_that_fails_does_not_lose_the_wish_of_a_handle() {
    let mut stage = Stage::new();
    stage.ev.handle().shutdown(ms(100));
    stage.script.fail_wait();
    assert!(stage.ev.wait().is_err());
    assert!(!stage.ev.status().shutting_down);
    stage.turn();
    assert!(stage.ev.is_done());
}

#[test]
fn a_listener_that_cannot_be_taken_out_does_not_hold_it_up() {
    let mut stage = Stage::listening(1);
    stage.turn();
    stage.script.fail_removals();
    stage.ev.shutdown(ms(100));
    stage.turn();
    assert!(stage.ev.is_done());
}

#[test]
fn a_timer_without_a_descriptor_keeps_it_alive_until_it_has_fired() {
    let mut stage = Stage::new();
    let job = stage.begin();
    stage.arm_ms(job, Timer::WRITE, 50);
    stage.ev.shutdown(ms(1000));
    stage.script.record();
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.script.timeouts(), [Some(ms(50))]);
    stage.pass_ms(50);
    assert!(!stage.ev.is_done());
    assert_eq!(stage.turn(), [Did::Expired(job, Timer::WRITE)]);
    assert!(stage.ev.is_done());
}

#[test]
fn cancelable_timers_alone_do_not_keep_it_alive_but_fire_while_it_lives() {
    let mut stage = Stage::new();
    let [sweep, job] = [stage.begin(), stage.begin()];
    assert!(stage.ev.set_background(sweep) && stage.ev.set_background(sweep));
    for side in [Timer::READ, Timer::WRITE] {
        stage.arm_ms(sweep, side, 10);
    }
    stage.arm_ms(job, Timer::READ, 20);
    stage.ev.shutdown(ms(1000));
    stage.pass_ms(10);
    assert_eq!(stage.turn().len(), 2);
    stage.arm_ms(sweep, Timer::READ, 60_000);
    assert!(!stage.ev.is_done(), "the job is left");
    assert!(stage.ev.disarm(job, Timer::READ));
    assert!(stage.ev.is_done());
}

#[test]
fn who_comes_to_the_index_of_a_cancelable_token_is_waited_for() {
    let mut stage = Stage::new();
    let sweep = stage.begin();
    stage.ev.set_background(sweep);
    stage.leave(sweep);
    assert!(!stage.ev.set_background(sweep), "stale");
    let job = stage.begin();
    assert_eq!(job.index(), sweep.index());
    stage.arm_ms(job, Timer::READ, 10);
    stage.ev.shutdown(ms(1000));
    assert!(!stage.ev.is_done());
}

#[test]
fn a_connection_keeps_it_alive_whether_or_not_its_timers_are_cancelable() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.ev.set_background(token);
    stage.arm_ms(token, Timer::READ, 10);
    stage.ev.shutdown(ms(1000));
    assert!(!stage.ev.is_done());
    stage.leave(token);
    assert!(stage.ev.is_done());
}

#[test]
fn what_is_posted_is_delivered_before_it_is_done() {
    let mut stage = Stage::new();
    let job = stage.begin();
    stage.ev.shutdown(ms(1000));
    stage.ev.post_next(job, Ready::READABLE);
    assert!(!stage.ev.is_done());
    assert_eq!(stage.turn(), [readable(job)]);
    assert!(stage.ev.is_done());
}

#[test]
fn with_a_resolution_too_nobody_has_less_time_than_was_asked_for() {
    let resolution = ms(10);
    let mut stage = Stage::built(0, |builder, _| builder.timer_resolution(resolution));
    stage.join();
    // The clock shows the last tick, and is behind.
    stage.pass_ms(9);
    stage.turn();
    stage.ev.shutdown(ms(20));
    for _ in 0..4 {
        stage.pass_ms(5);
        stage.turn();
    }
    assert!(!stage.ev.is_done(), "just now it would be due");
    stage.pass_ms(10);
    stage.turn();
    assert!(stage.ev.is_done());
    stage.script.record();
    stage.turn();
    assert_eq!(stage.script.timeouts(), [ZERO]);
}

#[test]
fn whichever_step_a_turn_is_left_at_all_the_idle_are_named_in_the_end() {
    for leave_after in 0..=4 {
        let mut stage = Stage::new();
        let tokens = [(); 4].map(|()| stage.join_idle());
        stage.ev.shutdown(ms(1000));
        stage.wait();
        let mut named: Vec<_> = (0..leave_after).map_while(|_| stage.step()).collect();
        stage.script.record();
        named.extend(stage.turn());
        let waited = if leave_after < 4 {
            ZERO
        } else {
            Some(ms(1000))
        };
        assert_eq!(stage.script.timeouts(), [waited]);
        assert_eq!(named, tokens.map(Did::Evict));
    }
}
