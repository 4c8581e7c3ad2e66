//! Posting for the next turn.

use std::time::Duration;

use evcore::{Budgets, Ready, Timer, Token};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

const ZERO: Option<Duration> = Some(Duration::ZERO);

/// A loop with such a budget of posted steps.
fn stage(posted: usize) -> Stage {
    Stage::built(0, |builder, _| {
        builder.budgets(Budgets {
            posted,
            ..Budgets::default()
        })
    })
}

/// In a turn, with one step taken, and what was posted for the turn before out of the way.
fn in_a_turn() -> (Stage, Token) {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.report_readable(&[token]);
    stage.wait();
    assert_eq!(stage.step(), Some(readable(token)));
    (stage, token)
}

#[test]
fn what_a_step_posts_for_the_next_turn_comes_after_one_wait_of_zero() {
    let (mut stage, token) = in_a_turn();
    assert!(stage.ev.post_next(token, Ready::WRITABLE));
    assert_eq!(stage.rest(), []);
    stage.script.record();
    assert_eq!(stage.turn(), [Did::Ready(token, Ready::WRITABLE)]);
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.script.timeouts(), [ZERO, None]);
}

#[test]
fn so_does_what_is_posted_between_turns() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.ev.post_next(token, Ready::WRITABLE);
    assert_eq!(stage.turn(), [Did::Ready(token, Ready::WRITABLE)]);
    assert_eq!(stage.script.timeouts(), [ZERO]);
}

#[test]
fn what_the_kernel_has_to_say_comes_first() {
    let (mut stage, token) = in_a_turn();
    let other = stage.join();
    stage.ev.post_next(token, Ready::WRITABLE);
    stage.rest();
    stage.report_readable(&[other, token]);
    let expected = [
        readable(other),
        readable(token),
        Did::Ready(token, Ready::WRITABLE),
    ];
    assert_eq!(stage.turn(), expected);
}

#[test]
fn what_was_left_over_goes_before_what_waited_and_that_before_what_is_posted_now() {
    let mut stage = stage(1);
    let [a, b, c, d] = [(); 4].map(|()| stage.join());
    stage.ev.post_next(c, Ready::READABLE);
    stage.ev.post(a, Ready::READABLE);
    stage.ev.post(b, Ready::READABLE);
    let mut seen = stage.turn();
    stage.ev.post_next(d, Ready::READABLE);
    for _ in 0..3 {
        seen.extend(stage.turn());
    }
    assert_eq!(seen, [a, b, c, d].map(readable));
    assert_eq!(stage.turn(), []);
}

#[test]
fn posting_again_merges_and_comes_once_whichever_turn_it_is_posted_for() {
    let both = Ready::READABLE | Ready::WRITABLE;
    let (mut stage, token) = in_a_turn();
    stage.ev.post_next(token, Ready::READABLE);
    stage.ev.post_next(token, Ready::WRITABLE);
    assert_eq!(stage.rest(), []);
    assert_eq!(stage.turn(), [Did::Ready(token, both)], "next twice");

    for next_first in [true, false] {
        let (mut stage, token) = in_a_turn();
        let posts = [
            (Ready::READABLE, next_first),
            (Ready::WRITABLE, !next_first),
        ];
        for (ready, next) in posts {
            if next {
                stage.ev.post_next(token, ready);
            } else {
                stage.ev.post(token, ready);
            }
        }
        assert_eq!(stage.rest(), [Did::Ready(token, both)], "this turn's");
        assert_eq!(stage.turn(), [], "and not again");
    }
}

#[test]
fn an_event_that_the_locks_hurry_posts_merges_with_what_waited() {
    let mut stage = Stage::locking(1);
    let token = stage.join();
    stage.ev.post_next(token, Ready::WRITABLE);
    stage.report_readable(&[token]);
    let both = Ready::READABLE | Ready::WRITABLE;
    assert_eq!(stage.turn(), [Did::Ready(token, both)]);
    assert_eq!(stage.turn(), []);
}

#[test]
fn cancelling_takes_back_what_waits_and_nothing_hurries_any_more() {
    let (mut stage, token) = in_a_turn();
    stage.ev.post_next(token, Ready::WRITABLE);
    assert_eq!(stage.ev.cancel(token), Ready::WRITABLE);
    assert_eq!(stage.ev.cancel(token), Ready::NONE);
    stage.rest();
    stage.script.record();
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.script.timeouts(), [None]);
}

#[test]
fn closing_takes_it_back_in_either_turn_however_often_the_index_is_used_again() {
    for closed_in_the_next_turn in [false, true] {
        for reuses in 0..=2 {
            let (mut stage, other) = in_a_turn();
            let first = stage.join();
            stage.ev.post_next(first, Ready::WRITABLE);
            stage.ev.post_next(other, Ready::WRITABLE);
            if closed_in_the_next_turn {
                stage.rest();
                stage.wait();
            }
            stage.leave(first);
            let mut again = None;
            for _ in 0..reuses {
                if let Some(token) = again.replace(stage.join()) {
                    stage.leave(token);
                    again = Some(stage.join());
                }
                assert_eq!(again.unwrap().index(), first.index());
            }
            assert!(!stage.ev.post_next(first, Ready::READABLE), "it is stale");
            if !closed_in_the_next_turn {
                assert_eq!(stage.rest(), []);
                stage.wait();
            }
            assert_eq!(stage.rest(), [Did::Ready(other, Ready::WRITABLE)]);
            assert_eq!(stage.turn(), []);

            // What lives there now is not taken for queued.
            if let Some(again) = again {
                stage.ev.post_next(again, Ready::PRIORITY);
                assert_eq!(stage.turn(), [Did::Ready(again, Ready::PRIORITY)]);
            }
        }
    }
}

#[test]
fn a_wait_that_fails_loses_nothing_and_the_next_does_not_wait() {
    let (mut stage, token) = in_a_turn();
    stage.ev.post_next(token, Ready::WRITABLE);
    stage.rest();
    stage.script.fail_wait();
    assert!(stage.ev.wait().is_err());
    assert!(stage.step().is_none());
    stage.script.record();
    assert_eq!(stage.turn(), [Did::Ready(token, Ready::WRITABLE)]);
    assert_eq!(stage.script.timeouts(), [ZERO]);
}

#[test]
fn one_that_posts_itself_for_the_next_turn_for_ever_comes_once_a_turn_and_starves_nobody() {
    const SELFISH: usize = 10;
    const OTHERS: usize = 4;
    const POSTED: usize = 3;
    let mut stage = stage(POSTED);
    let selfish = [(); SELFISH].map(|()| stage.join());
    let others = [(); OTHERS].map(|()| stage.join());
    for token in selfish {
        stage.ev.post_next(token, Ready::PRIORITY);
    }
    let [reported, timed, posted, put_off] = others;
    stage.report_readable(&[reported]);
    stage.arm_ms(timed, Timer::READ, 1);
    stage.pass_ms(1);
    stage.ev.post_next(put_off, Ready::READABLE);
    stage.ev.post(posted, Ready::READABLE);
    let mut missing = vec![
        readable(reported),
        Did::Expired(timed, Timer::READ),
        readable(posted),
        readable(put_off),
    ];

    let mut turns = 0;
    while !missing.is_empty() {
        turns += 1;
        stage.wait();
        let mut steps = Vec::new();
        while let Some(did) = stage.step() {
            if let Did::Ready(token, Ready::PRIORITY) = did {
                assert!(!steps.contains(&did), "once a turn at most");
                stage.ev.post_next(token, Ready::PRIORITY);
            }
            steps.push(did);
            missing.retain(|other| *other != did);
        }
        if turns == 1 {
            assert!(missing.len() <= 1, "other phases do not even notice");
        }
        let bound = (SELFISH + 2).div_ceil(POSTED);
        assert!(turns <= bound, "{missing:?} after {turns} turns");
    }
    // Nor does one of the selfish starve another.
    let mut seen = Vec::new();
    for _ in 0..SELFISH.div_ceil(POSTED) {
        stage.wait();
        while let Some(Did::Ready(token, _)) = stage.step() {
            stage.ev.post_next(token, Ready::PRIORITY);
            seen.push(token);
        }
    }
    assert!(selfish.iter().all(|token| seen.contains(token)), "{seen:?}");
}
