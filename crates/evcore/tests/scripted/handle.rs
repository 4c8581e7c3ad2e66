//! Wake-ups and posts that a `Handle` sends to the loop come in order, and none is lost or
//! delivered twice. (`tests/sockets.rs` has real threads.)

use std::time::Duration;

use evcore::{Budgets, Ready, Timer};

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

#[test]
fn a_post_ends_the_wait_and_makes_one_posted_step() {
    for mut fixture in [Fixture::new(), Fixture::locking(1)] {
        let token = fixture.join();
        fixture.ev.handle().post(token, Ready::READABLE);
        assert_eq!(fixture.turn(), [readable(token)], "no Woken with it");
        assert_eq!(fixture.turn(), []);
        assert_eq!(fixture.backend.timeouts(), [None, None]);
        let stats = fixture.ev.stats();
        assert_eq!((stats.received, stats.posted, stats.stale), (1, 1, 0));
    }
}

#[test]
fn a_wake_comes_as_such_whether_or_not_there_are_posts() {
    let mut fixture = Fixture::new();
    let (token, handle) = (fixture.join(), fixture.ev.handle());
    handle.post(token, Ready::READABLE);
    handle.wake();
    handle.clone().wake();
    assert_eq!(fixture.turn(), [Recorded::Woken, readable(token)]);
    handle.wake();
    assert_eq!(fixture.turn(), [Recorded::Woken]);
    handle.post(token, Ready::READABLE);
    assert_eq!(fixture.turn(), [readable(token)]);
}

#[test]
fn a_write_to_the_descriptor_is_a_wake() {
    let mut fixture = Fixture::new();
    let handle = fixture.ev.handle();
    let fd = handle
        .descriptor()
        .expect("the script's waker is a channel");
    for _ in 0..2 {
        rustix::io::write(fd, &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(fixture.turn(), [Recorded::Woken]);
    }
}

#[test]
fn remote_posts_come_after_carried_work_and_before_new_posts() {
    let mut fixture = Fixture::locking(1);
    let [over, waited, outside, reported, timed] = [(); 5].map(|()| fixture.join());
    fixture.ev.handle().post(outside, Ready::READABLE);
    fixture.ev.post_next(waited, Ready::READABLE);
    fixture.ev.post(over, Ready::READABLE);
    fixture.report_before_listener(&[reported]);
    fixture.arm_ms(timed, Timer::READ, 1);
    fixture.pass_ms(1);
    fixture.wait();
    assert_eq!(fixture.step(), Some(Recorded::Expired(timed, Timer::READ)));
    fixture.ev.post(timed, Ready::READABLE);
    let expected = [over, waited, outside, reported, timed].map(readable);
    assert_eq!(fixture.rest(), expected);
}

#[test]
fn posts_merge_with_each_other_and_with_the_loops_own() {
    let mut fixture = Fixture::new();
    let [a, b] = [fixture.join(), fixture.join()];
    let handle = fixture.ev.handle();
    handle.post(a, Ready::READABLE);
    handle.post(b, Ready::READABLE);
    handle.post(a, Ready::WRITABLE);
    fixture.ev.post_next(b, Ready::PRIORITY);
    let expected = [
        Recorded::Ready(b, Ready::READABLE | Ready::PRIORITY),
        Recorded::Ready(a, Ready::READABLE | Ready::WRITABLE),
    ];
    assert_eq!(fixture.turn(), expected);
    assert_eq!(fixture.ev.stats().received, 2);
}

#[test]
fn a_remote_post_after_the_wait_comes_in_the_next_turn() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.wait();
    fixture.ev.handle().post(token, Ready::READABLE);
    assert_eq!(fixture.rest(), []);
    assert_eq!(fixture.turn(), [readable(token)]);
}

#[test]
fn remote_posts_over_the_budget_come_in_the_next_turns() {
    let mut fixture = fixture(2);
    let tokens = [(); 5].map(|()| fixture.join());
    let handle = fixture.ev.handle();
    for token in tokens {
        handle.post(token, Ready::READABLE);
    }
    let [a, b, c, d, e] = tokens.map(readable);
    assert_eq!(fixture.turn(), [a, b]);
    handle.post(tokens[0], Ready::READABLE);
    assert_eq!(fixture.turn(), [c, d]);
    assert_eq!(fixture.turn(), [e, a]);
    assert_eq!(fixture.backend.timeouts(), [None, ZERO, ZERO]);
    fixture.turn();
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.backend.timeouts().last(), Some(&None));
}

#[test]
fn stale_posts_count_against_the_budget() {
    let mut fixture = fixture(2);
    let gone = [(); 4].map(|()| fixture.join());
    let (token, handle) = (fixture.join(), fixture.ev.handle());
    for token in gone {
        handle.post(token, Ready::READABLE);
    }
    handle.post(token, Ready::READABLE);
    gone.into_iter().for_each(|token| fixture.leave(token));
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.turn(), [readable(token)]);
    let stats = fixture.ev.stats();
    assert_eq!((stats.received, stats.stale, stats.posted), (5, 4, 1));
}

#[test]
fn a_post_for_a_closed_token_is_dropped() {
    for closed_in_the_turn in [false, true] {
        for reuses in 0..=2 {
            let mut fixture = Fixture::new();
            let first = fixture.join();
            fixture.ev.handle().post(first, Ready::READABLE);
            if closed_in_the_turn {
                fixture.wait();
            }
            let mut token = first;
            for _ in 0..reuses {
                fixture.leave(token);
                token = fixture.join();
                assert_eq!(token.index(), first.index());
            }
            if reuses == 0 {
                fixture.leave(token);
            }
            if !closed_in_the_turn {
                fixture.wait();
            }
            assert_eq!(fixture.rest(), []);
            let stats = fixture.ev.stats();
            // Closing cancels a post that has already come in, and the post does not count as
            // stale.
            assert_eq!(stats.stale, u64::from(!closed_in_the_turn));
            assert_eq!((stats.received, stats.posted), (1, 0));
        }
    }
}

#[test]
fn a_wait_that_fails_loses_neither_wakes_nor_posts() {
    let mut fixture = Fixture::new();
    let (token, handle) = (fixture.join(), fixture.ev.handle());
    handle.wake();
    handle.post(token, Ready::READABLE);
    fixture.backend.fail_wait();
    assert!(fixture.ev.wait().is_err());
    fixture.backend.record();
    assert_eq!(fixture.turn(), [Recorded::Woken, readable(token)]);
    assert_eq!(fixture.backend.timeouts(), [ZERO]);
}

#[test]
fn a_flood_of_posts_starves_no_other_phase() {
    const POSTED: usize = 2;
    let mut fixture = fixture(POSTED);
    let flooding = [(); 3 * POSTED].map(|()| fixture.join());
    let [other, reported] = [fixture.join(), fixture.join()];
    let handle = fixture.ev.handle();
    let mut missing = vec![readable(other), readable(reported)];
    for token in flooding {
        handle.post(token, Ready::PRIORITY);
    }
    handle.post(other, Ready::READABLE);
    fixture.report_readable(&[reported]);
    for turn in 0..=3 {
        fixture.wait();
        while let Some(recorded) = fixture.step() {
            for token in flooding {
                handle.post(token, Ready::PRIORITY);
            }
            missing.retain(|other| *other != recorded);
        }
        assert!(
            turn > 0 || missing.len() == 1,
            "the flood does not delay the batch"
        );
    }
    assert_eq!(missing, []);
}

#[test]
fn posts_of_one_token_take_one_place_in_the_budget() {
    let mut fixture = fixture(2);
    let [often, once] = [fixture.join(), fixture.join()];
    let handle = fixture.ev.handle();
    for _ in 0..100_000 {
        handle.post(often, Ready::READABLE);
    }
    handle.post(once, Ready::READABLE);
    assert_eq!(fixture.turn(), [often, once].map(readable));
    assert_eq!(fixture.ev.stats().received, 2);
}

#[test]
fn a_loop_that_is_gone_refuses_posts_and_is_not_woken() {
    let mut fixture = Fixture::new();
    let (token, handle) = (fixture.join(), fixture.ev.handle());
    drop(fixture);
    assert!(!handle.post(token, Ready::READABLE));
    handle.wake();
}
