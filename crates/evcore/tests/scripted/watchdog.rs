//! The watchdog: it reports turns (iterations of the loop) that took too long, with their longest
//! steps.

use std::time::Duration;

use evcore::{InstrumentOptions, Ready, Record, SlowTurn, Timer};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

const LIMIT: Duration = Duration::from_millis(100);

fn watched(listeners: usize) -> Fixture {
    Fixture::with_instruments(listeners, InstrumentOptions::new().watchdog(LIMIT))
}

/// Makes a turn in which one step takes `ms` and the others take a millisecond each. Returns the
/// report of that turn.
fn turn_with_a_slow(fixture: &mut Fixture, slow: Recorded, ms: u64) -> Option<SlowTurn> {
    fixture.wait();
    while let Some(recorded) = fixture.step() {
        fixture.pass_ms(if recorded == slow { ms } else { 1 });
    }
    assert_eq!(
        fixture.ev.instruments().take_slow_turn(),
        None,
        "it is not over"
    );
    fixture.wait();
    fixture.ev.instruments().take_slow_turn()
}

/// Causes one step in each phase of the next turn except the evictions. Returns each step with its
/// record.
fn one_of_each(fixture: &mut Fixture) -> [(Recorded, Record); 5] {
    let [a, b, c] = [(); 3].map(|()| fixture.join());
    fixture.arm_ms(b, Timer::WRITE, 1);
    fixture.pass_ms(1);
    fixture.connect(0, 1);
    fixture.backend.report(vec![
        (fixture.fd(a), Ready::READABLE),
        (fixture.listener_fd(0), Ready::READABLE),
    ]);
    fixture.ev.handle().wake();
    fixture.ev.post(c, Ready::READABLE);
    [
        (readable(a), Record::Ready(a, Ready::READABLE)),
        (Recorded::Accepted(0), Record::Accepted(0)),
        (Recorded::Woken, Record::Woken),
        (
            Recorded::Expired(b, Timer::WRITE),
            Record::Expired(b, Timer::WRITE),
        ),
        (readable(c), Record::Ready(c, Ready::READABLE)),
    ]
}

#[test]
fn the_longest_step_is_reported_in_each_phase_before_evictions() {
    for phase in 0..5 {
        let mut fixture = watched(1);
        let (recorded, kind) = one_of_each(&mut fixture)[phase];
        let slow_turn = turn_with_a_slow(&mut fixture, recorded, 200).expect("it was slow");
        let step = slow_turn.longest.expect("it had steps");
        assert_eq!((step.kind, step.took), (kind, 2 * LIMIT));
        assert_eq!((slow_turn.turn, slow_turn.steps), (1, 5));
        assert_eq!(slow_turn.took, 2 * LIMIT + Duration::from_millis(4));
        assert_eq!(fixture.ev.stats().slow_turns, 1);
    }
}

#[test]
fn a_slow_eviction_is_reported() {
    let mut fixture = watched(0);
    let token = fixture.join_idle();
    fixture.ev.shutdown(100 * LIMIT);
    let slow_turn = turn_with_a_slow(&mut fixture, Recorded::Evict(token), 200).unwrap();
    assert_eq!(slow_turn.longest.unwrap().kind, Record::Evict(token));
}

#[test]
fn steps_come_in_their_order_and_all_of_them() {
    let mut fixture = watched(1);
    let expected = one_of_each(&mut fixture).map(|(recorded, _)| recorded);
    assert_eq!(fixture.turn(), expected);
    assert_eq!(fixture.rest(), []);
}

#[test]
fn many_short_steps_make_a_slow_turn() {
    for (steps, slow) in [(100, false), (101, true)] {
        let mut fixture = watched(0);
        let tokens: Vec<_> = (0..steps).map(|_| fixture.join()).collect();
        fixture.report_readable(&tokens);
        let slow_turn = turn_with_a_slow(&mut fixture, Recorded::Woken, 0);
        assert_eq!(slow_turn.map(|turn| turn.steps), slow.then_some(steps));
    }
}

#[test]
fn time_after_the_last_step_counts_for_the_turn_only() {
    let mut fixture = watched(0);
    let token = fixture.join();
    fixture.report_readable(&[token]);
    fixture.wait();
    fixture.step();
    fixture.pass_ms(1);
    fixture.rest();
    fixture.pass_ms(400);
    fixture.wait();
    let slow_turn = fixture.ev.instruments().take_slow_turn().unwrap();
    assert_eq!(slow_turn.took, Duration::from_millis(401));
    assert_eq!(slow_turn.longest.unwrap().took, Duration::from_millis(1));
}

#[test]
fn the_last_step_of_a_left_turn_lasts_to_the_next_wait() {
    let mut fixture = watched(0);
    let tokens @ [a, b] = [fixture.join(), fixture.join()];
    fixture.report_readable(&tokens);
    fixture.wait();
    assert_eq!(fixture.step(), Some(readable(a)));
    fixture.pass_ms(300);
    assert_eq!(fixture.turn(), [readable(b)], "and nothing is lost");
    let slow_turn = fixture.ev.instruments().take_slow_turn().unwrap();
    assert_eq!(
        (slow_turn.steps, slow_turn.longest.unwrap().kind),
        (1, Record::Ready(a, Ready::READABLE))
    );
}

#[test]
fn the_slowest_turn_is_taken_once_and_all_are_counted() {
    let mut fixture = watched(0);
    let token = fixture.join();
    for ms in [150, 500, 300] {
        fixture.report_readable(&[token]);
        fixture.turn();
        fixture.pass_ms(ms);
    }
    fixture.wait();
    assert_eq!(fixture.ev.stats().slow_turns, 3);
    let slow_turn = fixture.ev.instruments().take_slow_turn().unwrap();
    assert_eq!((slow_turn.turn, slow_turn.took), (2, 5 * LIMIT));
    assert_eq!(fixture.ev.instruments().take_slow_turn(), None);
}

#[test]
fn a_slow_turn_has_the_wall_time_of_its_beginning() {
    let mut fixture = watched(0);
    fixture.time.jump_wall(1_000);
    fixture.wait();
    fixture.pass_ms(101);
    fixture.wait();
    assert_eq!(
        fixture
            .ev
            .instruments()
            .take_slow_turn()
            .unwrap()
            .began_unix_ms,
        1_000_000
    );
}

#[test]
fn without_a_watchdog_no_turn_is_slow() {
    let mut fixture = Fixture::new();
    fixture.wait();
    fixture.pass_ms(1_000_000);
    fixture.wait();
    assert_eq!(
        (
            fixture.ev.instruments().take_slow_turn(),
            fixture.ev.stats().slow_turns
        ),
        (None, 0)
    );
}

#[test]
fn a_failed_wait_still_judges_the_turn_before_it() {
    let mut fixture = watched(0);
    fixture.wait();
    fixture.pass_ms(101);
    fixture.backend.fail_wait();
    assert!(fixture.ev.wait().is_err());
    assert_eq!(fixture.ev.instruments().take_slow_turn().unwrap().turn, 1);
}
