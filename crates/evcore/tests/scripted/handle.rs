//! Wakes and posts by a handle: what order they come in, and that none is lost or seen twice.
//! (From real threads: `tests/sockets.rs`.)

use std::{os::fd::AsFd, time::Duration};

use evcore::{Budgets, PostError, Ready, Timer};

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

#[test]
fn a_post_ends_the_wait_and_comes_as_a_posted_step_and_as_nothing_else() {
    for mut stage in [Stage::new(), Stage::locking(1)] {
        let token = stage.join();
        stage.ev.handle().post(token, Ready::READABLE).unwrap();
        assert_eq!(stage.turn(), [readable(token)], "no Woken beside it");
        assert_eq!(stage.turn(), []);
        assert_eq!(stage.script.timeouts(), [None, None]);
        let stats = stage.ev.stats();
        assert_eq!((stats.received, stats.posted, stats.stale), (1, 1, 0));
    }
}

#[test]
fn a_wake_comes_as_such_whether_or_not_there_are_posts() {
    let mut stage = Stage::new();
    let (token, handle) = (stage.join(), stage.ev.handle());
    handle.post(token, Ready::READABLE).unwrap();
    handle.wake();
    handle.clone().wake();
    assert_eq!(stage.turn(), [Did::Woken, readable(token)]);
    handle.wake();
    assert_eq!(stage.turn(), [Did::Woken]);
    handle.post(token, Ready::READABLE).unwrap();
    assert_eq!(stage.turn(), [readable(token)]);
}

#[test]
fn a_write_to_the_descriptor_is_a_wake() {
    let mut stage = Stage::new();
    let handle = stage.ev.handle();
    for _ in 0..2 {
        rustix::io::write(handle.as_fd(), &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(stage.turn(), [Did::Woken]);
    }
}

#[test]
fn what_came_from_outside_goes_after_what_waited_and_before_what_steps_post() {
    let mut stage = Stage::locking(1);
    let [over, waited, outside, reported, timed] = [(); 5].map(|()| stage.join());
    stage.ev.handle().post(outside, Ready::READABLE).unwrap();
    stage.ev.post_next(waited, Ready::READABLE);
    stage.ev.post(over, Ready::READABLE);
    stage.report_readable(&[reported]);
    stage.arm_ms(timed, Timer::READ, 1);
    stage.pass_ms(1);
    stage.wait();
    assert_eq!(stage.step(), Some(Did::Expired(timed, Timer::READ)));
    stage.ev.post(timed, Ready::READABLE);
    let expected = [over, waited, outside, reported, timed].map(readable);
    assert_eq!(stage.rest(), expected);
}

#[test]
fn posts_merge_with_each_other_and_with_what_is_posted_within() {
    let mut stage = Stage::new();
    let [a, b] = [stage.join(), stage.join()];
    let handle = stage.ev.handle();
    handle.post(a, Ready::READABLE).unwrap();
    handle.post(b, Ready::READABLE).unwrap();
    handle.post(a, Ready::WRITABLE).unwrap();
    stage.ev.post_next(b, Ready::PRIORITY);
    let expected = [
        Did::Ready(b, Ready::READABLE | Ready::PRIORITY),
        Did::Ready(a, Ready::READABLE | Ready::WRITABLE),
    ];
    assert_eq!(stage.turn(), expected);
    assert_eq!(stage.ev.stats().received, 3);
}

#[test]
fn what_is_posted_after_the_wait_has_ended_comes_in_the_next_turn() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.wait();
    stage.ev.handle().post(token, Ready::READABLE).unwrap();
    assert_eq!(stage.rest(), []);
    assert_eq!(stage.turn(), [readable(token)]);
}

#[test]
fn posts_over_the_budget_come_in_the_next_turns_which_do_not_wait() {
    let mut stage = stage(2);
    let tokens = [(); 5].map(|()| stage.join());
    let handle = stage.ev.handle();
    for token in tokens {
        handle.post(token, Ready::READABLE).unwrap();
    }
    let [a, b, c, d, e] = tokens.map(readable);
    assert_eq!(stage.turn(), [a, b]);
    handle.post(tokens[0], Ready::READABLE).unwrap();
    assert_eq!(stage.turn(), [c, d]);
    assert_eq!(stage.turn(), [e, a]);
    assert_eq!(stage.script.timeouts(), [None, ZERO, ZERO]);
    stage.turn();
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.script.timeouts().last(), Some(&None));
}

#[test]
fn stale_posts_take_of_the_budget_too_so_that_a_flood_of_them_ends() {
    let mut stage = stage(2);
    let [gone, token] = [stage.join(), stage.join()];
    let handle = stage.ev.handle();
    for _ in 0..4 {
        handle.post(gone, Ready::READABLE).unwrap();
    }
    handle.post(token, Ready::READABLE).unwrap();
    stage.leave(gone);
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.turn(), [readable(token)]);
    let stats = stage.ev.stats();
    assert_eq!((stats.received, stats.stale, stats.posted), (5, 4, 1));
}

#[test]
fn a_post_for_a_closed_token_is_dropped_however_often_its_index_is_used_again() {
    for closed_in_the_turn in [false, true] {
        for reuses in 0..=2 {
            let mut stage = Stage::new();
            let first = stage.join();
            stage.ev.handle().post(first, Ready::READABLE).unwrap();
            if closed_in_the_turn {
                stage.wait();
            }
            let mut token = first;
            for _ in 0..reuses {
                stage.leave(token);
                token = stage.join();
                assert_eq!(token.index(), first.index());
            }
            if reuses == 0 {
                stage.leave(token);
            }
            if !closed_in_the_turn {
                stage.wait();
            }
            assert_eq!(stage.rest(), []);
            let stats = stage.ev.stats();
            // What had come in already was cancelled by closing.
            assert_eq!(stats.stale, u64::from(!closed_in_the_turn));
            assert_eq!((stats.received, stats.posted), (1, 0));
        }
    }
}

#[test]
fn a_wait_that_fails_loses_neither_wakes_nor_posts() {
    let mut stage = Stage::new();
    let (token, handle) = (stage.join(), stage.ev.handle());
    handle.wake();
    handle.post(token, Ready::READABLE).unwrap();
    stage.script.fail_wait();
    assert!(stage.ev.wait().is_err());
    stage.script.record();
    assert_eq!(stage.turn(), [Did::Woken, readable(token)]);
    assert_eq!(stage.script.timeouts(), [ZERO]);
}

#[test]
fn a_flood_of_posts_starves_nobody() {
    const POSTED: usize = 2;
    let mut stage = stage(POSTED);
    let [flooding, other, reported] = [(); 3].map(|()| stage.join());
    let handle = stage.ev.handle();
    let mut missing = vec![readable(other), readable(reported)];
    for _ in 0..3 * POSTED {
        handle.post(flooding, Ready::PRIORITY).unwrap();
    }
    handle.post(other, Ready::READABLE).unwrap();
    stage.report_readable(&[reported]);
    for turn in 0..=3 {
        stage.wait();
        while let Some(did) = stage.step() {
            handle.post(flooding, Ready::PRIORITY).unwrap();
            missing.retain(|other| *other != did);
        }
        assert!(turn > 0 || missing.len() == 1, "the batch does not notice");
    }
    assert_eq!(missing, []);
}

#[test]
fn a_post_beyond_the_limit_is_handed_back_until_a_turn_takes_some_in() {
    let mut stage = Stage::built(0, |builder, _| builder.posts(2));
    let token = stage.join();
    let (handle, ready) = (stage.ev.handle(), Ready::READABLE);
    for _ in 0..2 {
        assert_eq!(handle.post(token, ready), Ok(()));
    }
    assert_eq!(
        handle.post(token, ready),
        Err(PostError::Full { token, ready })
    );
    assert_eq!(stage.turn(), [readable(token)]);
    assert_eq!(stage.ev.stats().received, 2);
    assert_eq!(handle.post(token, ready), Ok(()));
}

#[test]
fn a_loop_that_is_gone_hands_the_post_back_and_is_not_woken() {
    let mut stage = Stage::new();
    let (token, handle) = (stage.join(), stage.ev.handle());
    drop(stage);
    let ready = Ready::READABLE;
    assert_eq!(
        handle.post(token, ready),
        Err(PostError::Closed { token, ready })
    );
    handle.wake();
    let error = std::io::Error::from(PostError::Closed { token, ready });
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}
