//! Turns that took too long, and whose fault it was.

use std::time::Duration;

use evcore::{Ready, SlowTurn, StepKind, Timer};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

const LIMIT: Duration = Duration::from_millis(100);

fn watched(listeners: usize) -> Stage {
    Stage::built(listeners, |builder, _| builder.watchdog(LIMIT))
}

/// A turn in which this step takes so long, and the others a millisecond each; what is told of it.
fn turn_with_a_slow(stage: &mut Stage, slow: Did, ms: u64) -> Option<SlowTurn> {
    stage.wait();
    while let Some(did) = stage.step() {
        stage.pass_ms(if did == slow { ms } else { 1 });
    }
    assert_eq!(stage.ev.take_slow_turn(), None, "it is not over");
    stage.wait();
    stage.ev.take_slow_turn()
}

/// The next turn has one step of each kind.
fn one_of_each(stage: &mut Stage) -> [(Did, StepKind); 5] {
    let [a, b, c] = [(); 3].map(|()| stage.join());
    stage.arm_ms(b, Timer::WRITE, 1);
    stage.pass_ms(1);
    stage.connect(0, 1);
    stage.script.report(vec![
        (stage.fd(a), Ready::READABLE),
        (stage.listener_fd(0), Ready::READABLE),
    ]);
    stage.ev.handle().wake();
    stage.ev.post(c, Ready::READABLE);
    [
        (readable(a), StepKind::Ready(a)),
        (Did::Accepted(0), StepKind::Accepted(0)),
        (Did::Woken, StepKind::Woken),
        (
            Did::Expired(b, Timer::WRITE),
            StepKind::Expired(b, Timer::WRITE),
        ),
        (readable(c), StepKind::Ready(c)),
    ]
}

#[test]
fn the_longest_step_is_named_in_every_phase() {
    for phase in 0..5 {
        let mut stage = watched(1);
        let (did, kind) = one_of_each(&mut stage)[phase];
        let told = turn_with_a_slow(&mut stage, did, 200).expect("it was slow");
        let step = told.longest.expect("it had steps");
        assert_eq!((step.kind, step.took), (kind, 2 * LIMIT));
        assert_eq!((told.turn, told.steps), (1, 5));
        assert_eq!(told.took, 2 * LIMIT + Duration::from_millis(4));
        assert_eq!(stage.ev.stats().slow_turns, 1);
    }
}

#[test]
fn so_is_one_that_names_the_idle() {
    let mut stage = watched(0);
    let token = stage.join_idle();
    stage.ev.shutdown(100 * LIMIT);
    let told = turn_with_a_slow(&mut stage, Did::Evict(token), 200).unwrap();
    assert_eq!(told.longest.unwrap().kind, StepKind::Evict(token));
}

#[test]
fn steps_come_in_their_order_and_all_of_them() {
    let mut stage = watched(1);
    let expected = one_of_each(&mut stage).map(|(did, _)| did);
    assert_eq!(stage.turn(), expected);
    assert_eq!(stage.rest(), []);
}

#[test]
fn a_turn_of_the_limit_is_not_slow_and_one_of_many_short_steps_is() {
    for (steps, slow) in [(100, false), (101, true)] {
        let mut stage = watched(0);
        let tokens: Vec<_> = (0..steps).map(|_| stage.join()).collect();
        stage.report_readable(&tokens);
        let told = turn_with_a_slow(&mut stage, Did::Woken, 0);
        assert_eq!(told.map(|turn| turn.steps), slow.then_some(steps));
    }
}

#[test]
fn what_is_done_between_the_last_step_and_the_wait_is_the_turns_and_no_steps() {
    let mut stage = watched(0);
    let token = stage.join();
    stage.report_readable(&[token]);
    stage.wait();
    stage.step();
    stage.pass_ms(1);
    stage.rest();
    stage.pass_ms(400);
    stage.wait();
    let told = stage.ev.take_slow_turn().unwrap();
    assert_eq!(told.took, Duration::from_millis(401));
    assert_eq!(told.longest.unwrap().took, Duration::from_millis(1));
}

#[test]
fn a_step_that_the_turn_was_left_at_goes_to_the_next_wait() {
    let mut stage = watched(0);
    let tokens @ [a, b] = [stage.join(), stage.join()];
    stage.report_readable(&tokens);
    stage.wait();
    assert_eq!(stage.step(), Some(readable(a)));
    stage.pass_ms(300);
    assert_eq!(stage.turn(), [readable(b)], "and nothing is lost");
    let told = stage.ev.take_slow_turn().unwrap();
    assert_eq!(
        (told.steps, told.longest.unwrap().kind),
        (1, StepKind::Ready(a))
    );
}

#[test]
fn the_worst_is_told_once_and_all_are_counted() {
    let mut stage = watched(0);
    let token = stage.join();
    for ms in [150, 500, 300] {
        stage.report_readable(&[token]);
        stage.turn();
        stage.pass_ms(ms);
    }
    stage.wait();
    assert_eq!(stage.ev.stats().slow_turns, 3);
    let told = stage.ev.take_slow_turn().unwrap();
    assert_eq!((told.turn, told.took), (2, 5 * LIMIT));
    assert_eq!(stage.ev.take_slow_turn(), None);
}

#[test]
fn it_is_told_when_the_turn_began_by_the_wall_clock() {
    let mut stage = watched(0);
    stage.time.jump_wall(1_000);
    stage.wait();
    stage.pass_ms(101);
    stage.wait();
    assert_eq!(stage.ev.take_slow_turn().unwrap().began_unix_ms, 1_000_000);
}

#[test]
fn without_a_watchdog_no_turn_is_slow() {
    let mut stage = Stage::new();
    stage.wait();
    stage.pass_ms(1_000_000);
    stage.wait();
    assert_eq!(
        (stage.ev.take_slow_turn(), stage.ev.stats().slow_turns),
        (None, 0)
    );
}

#[test]
fn a_failed_wait_still_judges_the_turn_before_it() {
    let mut stage = watched(0);
    stage.wait();
    stage.pass_ms(101);
    stage.script.fail_wait();
    assert!(stage.ev.wait().is_err());
    assert_eq!(stage.ev.take_slow_turn().unwrap().turn, 1);
}
