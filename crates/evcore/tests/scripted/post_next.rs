//! `post_next`: a step that the program puts off to the next turn (iteration of the loop).

use std::time::Duration;

use evcore::{Budgets, Ready, Timer, Token};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

const ZERO: Option<Duration> = Some(Duration::ZERO);

fn fixture(posted: usize) -> Fixture {
    Fixture::built(0, |builder, _| {
        builder.budgets(Budgets {
            posted,
            ..Budgets::default()
        })
    })
}

/// A loop in a turn that began without posts, after its first step. Returns it with the token of
/// that step.
fn in_a_turn() -> (Fixture, Token) {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.report_readable(&[token]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(readable(token)));
    (fixture, token)
}

#[test]
fn work_put_off_comes_after_one_wait_of_zero() {
    let (mut fixture, token) = in_a_turn();
    assert!(fixture.ev.post_next(token, Ready::WRITABLE));
    assert_eq!(fixture.rest(), []);
    fixture.backend.record();
    assert_eq!(fixture.turn(), [Recorded::Ready(token, Ready::WRITABLE)]);
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.backend.timeouts(), [ZERO, None]);
}

#[test]
fn work_put_off_between_turns_comes_after_a_wait_of_zero() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.ev.post_next(token, Ready::WRITABLE);
    assert_eq!(fixture.turn(), [Recorded::Ready(token, Ready::WRITABLE)]);
    assert_eq!(fixture.backend.timeouts(), [ZERO]);
}

#[test]
fn events_of_the_kernel_come_first() {
    let (mut fixture, token) = in_a_turn();
    let other = fixture.join();
    fixture.ev.post_next(token, Ready::WRITABLE);
    fixture.rest();
    fixture.report_readable(&[other, token]);
    let expected = [
        readable(other),
        readable(token),
        Recorded::Ready(token, Ready::WRITABLE),
    ];
    assert_eq!(fixture.turn(), expected);
}

#[test]
fn carried_work_comes_before_put_off_work_before_new_posts() {
    let mut fixture = fixture(1);
    let [a, b, c, d] = [(); 4].map(|()| fixture.join());
    fixture.ev.post_next(c, Ready::READABLE);
    fixture.ev.post(a, Ready::READABLE);
    fixture.ev.post(b, Ready::READABLE);
    let mut seen = fixture.turn();
    fixture.ev.post_next(d, Ready::READABLE);
    for _ in 0..3 {
        seen.extend(fixture.turn());
    }
    assert_eq!(seen, [a, b, c, d].map(readable));
    assert_eq!(fixture.turn(), []);
}

#[test]
fn posting_for_both_turns_merges_into_one_step() {
    let both = Ready::READABLE | Ready::WRITABLE;
    let (mut fixture, token) = in_a_turn();
    fixture.ev.post_next(token, Ready::READABLE);
    fixture.ev.post_next(token, Ready::WRITABLE);
    assert_eq!(fixture.rest(), []);
    assert_eq!(
        fixture.turn(),
        [Recorded::Ready(token, both)],
        "two calls of post_next"
    );

    for next_first in [true, false] {
        let (mut fixture, token) = in_a_turn();
        let posts = [
            (Ready::READABLE, next_first),
            (Ready::WRITABLE, !next_first),
        ];
        for (ready, next) in posts {
            if next {
                fixture.ev.post_next(token, ready);
            } else {
                fixture.ev.post(token, ready);
            }
        }
        assert_eq!(
            fixture.rest(),
            [Recorded::Ready(token, both)],
            "this turn's"
        );
        assert_eq!(fixture.turn(), [], "and not again");
    }
}

#[test]
fn an_event_posted_under_the_lock_merges_with_put_off_work() {
    let mut fixture = Fixture::locking(1);
    let token = fixture.join();
    fixture.ev.post_next(token, Ready::WRITABLE);
    fixture.report_before_listener(&[token]);
    let both = Ready::READABLE | Ready::WRITABLE;
    assert_eq!(fixture.turn(), [Recorded::Ready(token, both)]);
    assert_eq!(fixture.turn(), []);
}

#[test]
fn closing_cancels_put_off_work() {
    for closed_in_the_next_turn in [false, true] {
        for reuses in 0..=2 {
            let (mut fixture, other) = in_a_turn();
            let first = fixture.join();
            fixture.ev.post_next(first, Ready::WRITABLE);
            fixture.ev.post_next(other, Ready::WRITABLE);
            if closed_in_the_next_turn {
                fixture.rest();
                fixture.wait();
            }
            fixture.leave(first);
            let mut again = None;
            for _ in 0..reuses {
                if let Some(token) = again.replace(fixture.join()) {
                    fixture.leave(token);
                    again = Some(fixture.join());
                }
                assert_eq!(again.unwrap().index(), first.index());
            }
            assert!(!fixture.ev.post_next(first, Ready::READABLE), "it is stale");
            if !closed_in_the_next_turn {
                assert_eq!(fixture.rest(), []);
                fixture.wait();
            }
            assert_eq!(fixture.rest(), [Recorded::Ready(other, Ready::WRITABLE)]);
            assert_eq!(fixture.turn(), []);

            // The next token with this index does not count as queued.
            if let Some(again) = again {
                fixture.ev.post_next(again, Ready::PRIORITY);
                assert_eq!(fixture.turn(), [Recorded::Ready(again, Ready::PRIORITY)]);
            }
        }
    }
}

#[test]
fn a_wait_that_fails_loses_nothing_and_the_next_does_not_wait() {
    let (mut fixture, token) = in_a_turn();
    fixture.ev.post_next(token, Ready::WRITABLE);
    fixture.rest();
    fixture.backend.fail_wait();
    assert!(fixture.ev.wait().is_err());
    assert!(fixture.step().is_none());
    fixture.backend.record();
    assert_eq!(fixture.turn(), [Recorded::Ready(token, Ready::WRITABLE)]);
    assert_eq!(fixture.backend.timeouts(), [ZERO]);
}

#[test]
fn a_token_that_puts_itself_off_gets_one_step_a_turn() {
    const SELFISH: usize = 10;
    const OTHERS: usize = 4;
    const POSTED: usize = 3;
    let mut fixture = fixture(POSTED);
    let selfish = [(); SELFISH].map(|()| fixture.join());
    let others = [(); OTHERS].map(|()| fixture.join());
    for token in selfish {
        fixture.ev.post_next(token, Ready::PRIORITY);
    }
    let [reported, timed, posted, put_off] = others;
    fixture.report_readable(&[reported]);
    fixture.arm_ms(timed, Timer::READ, 1);
    fixture.pass_ms(1);
    fixture.ev.post_next(put_off, Ready::READABLE);
    fixture.ev.post(posted, Ready::READABLE);
    let mut missing = vec![
        readable(reported),
        Recorded::Expired(timed, Timer::READ),
        readable(posted),
        readable(put_off),
    ];

    let mut turns = 0;
    while !missing.is_empty() {
        turns += 1;
        fixture.wait();
        let mut steps = Vec::new();
        while let Some(recorded) = fixture.step() {
            if let Recorded::Ready(token, Ready::PRIORITY) = recorded {
                assert!(!steps.contains(&recorded), "once a turn at most");
                fixture.ev.post_next(token, Ready::PRIORITY);
            }
            steps.push(recorded);
            missing.retain(|other| *other != recorded);
        }
        if turns == 1 {
            assert!(missing.len() <= 1, "put-off work delays no other phase");
        }
        let bound = (SELFISH + 2).div_ceil(POSTED);
        assert!(turns <= bound, "{missing:?} after {turns} turns");
    }
    // Tokens that post themselves do not starve each other.
    let mut seen = Vec::new();
    for _ in 0..SELFISH.div_ceil(POSTED) {
        fixture.wait();
        while let Some(Recorded::Ready(token, _)) = fixture.step() {
            fixture.ev.post_next(token, Ready::PRIORITY);
            seen.push(token);
        }
    }
    assert!(selfish.iter().all(|token| seen.contains(token)), "{seen:?}");
}
