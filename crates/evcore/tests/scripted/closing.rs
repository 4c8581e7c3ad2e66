//! Closing a token, wherever its events are at that moment.

use std::{collections::HashSet, mem::discriminant, time::Duration};

use evcore::{Connections, Error, Interest, Mode, Ready, Timer, Token};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

/// A loop in which all events are posted at first, and one in which they are delivered directly.
fn stages() -> [Stage; 2] {
    [Stage::locking(1), Stage::new()]
}

#[test]
fn closing_any_other_connection_of_the_batch_drops_its_event_wherever_it_stands() {
    for closing in 0..4 {
        for closed in (0..4).filter(|closed| *closed != closing) {
            for mut stage in stages() {
                let tokens = [(); 4].map(|()| stage.join());
                stage.report_readable(&tokens);
                stage.wait();
                let mut seen = Vec::new();
                while let Some(did) = stage.step() {
                    seen.push(did);
                    if did == readable(tokens[closing]) {
                        stage.leave(tokens[closed]);
                    }
                }
                // Who stood before had its event already.
                let kept = tokens
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| *at != closed || closed < closing);
                let expected: Vec<_> = kept.map(|(_, token)| readable(*token)).collect();
                assert_eq!(seen, expected, "{closing} closes {closed}");
            }
        }
    }
}

#[test]
fn closing_oneself_at_every_position_leaves_the_others_alone() {
    for closing in 0..4 {
        for mut stage in stages() {
            let tokens = [(); 4].map(|()| stage.join());
            stage.report_readable(&tokens);
            stage.wait();
            let mut seen = Vec::new();
            while let Some(did) = stage.step() {
                seen.push(did);
                if did == readable(tokens[closing]) {
                    stage.leave(tokens[closing]);
                }
            }
            assert_eq!(seen, tokens.map(readable), "{closing} closes itself");
        }
    }
}

#[test]
fn an_index_that_is_reused_once_or_twice_within_a_batch_is_not_taken_for_the_old_one() {
    for reuses in [1, 2] {
        for mut stage in stages() {
            let [first, second] = [stage.join(), stage.join()];
            stage.report_readable(&[first, second]);
            stage.wait();
            assert_eq!(stage.step(), Some(readable(first)));
            let mut token = second;
            for _ in 0..reuses {
                stage.leave(token);
                token = stage.join();
                assert_eq!(token.index(), second.index());
            }
            assert_eq!(stage.rest(), [], "reused {reuses} times");
            assert!(stage.ev.rearm(token, Interest::NONE));
            assert!(!stage.ev.rearm(second, Interest::NONE));

            stage.report_readable(&[token]);
            assert_eq!(stage.turn(), [readable(token)]);
        }
    }
}

#[test]
fn what_was_armed_and_posted_ends_with_the_token() {
    for mut stage in stages() {
        let [token, other] = [stage.join(), stage.join()];
        for side in [Timer::READ, Timer::WRITE] {
            stage.arm_ms(token, side, 1);
            stage.arm_ms(other, side, 1);
        }
        stage.ev.post(token, Ready::WRITABLE);
        stage.pass_ms(1);
        stage.report_readable(&[other, token]);
        stage.wait();
        stage.leave(token);
        let again = stage.join();
        assert_eq!(again.index(), token.index());
        let mut seen = stage.rest();
        let mut expected = vec![
            readable(other),
            Did::Expired(other, Timer::READ),
            Did::Expired(other, Timer::WRITE),
        ];
        // With the lock the event comes last, since it was posted.
        let key = |did: &Did| format!("{did:?}");
        seen.sort_by_key(key);
        expected.sort_by_key(key);
        assert_eq!(seen, expected);
    }
}

#[test]
fn a_timers_handler_may_close_the_other_timers_owner_and_its_own() {
    let mut stage = Stage::new();
    let [a, b] = [stage.join(), stage.join()];
    for token in [a, b] {
        stage.arm_ms(token, Timer::READ, 1);
        stage.arm_ms(token, Timer::WRITE, 1);
    }
    stage.pass_ms(1);
    stage.wait();
    assert_eq!(stage.step(), Some(Did::Expired(a, Timer::READ)));
    stage.leave(a);
    stage.leave(b);
    assert_eq!(stage.rest(), []);
}

#[test]
fn a_posted_steps_handler_may_close_the_next_ones_owner() {
    let mut stage = Stage::new();
    let [a, b, c] = [stage.join(), stage.join(), stage.join()];
    for token in [a, b, c] {
        stage.ev.post(token, Ready::READABLE);
    }
    stage.wait();
    assert_eq!(stage.step(), Some(readable(a)));
    stage.leave(b);
    assert_eq!(stage.rest(), [readable(c)]);
}

#[test]
fn closing_between_turns_drops_what_was_left_over() {
    let mut stage = Stage::new();
    let [a, b] = [stage.join(), stage.join()];
    stage.report_readable(&[a, b]);
    stage.wait();
    stage.leave(a);
    stage.wait();
    stage.leave(b);
    assert_eq!(stage.rest(), []);
}

#[test]
fn closing_removes_and_closing_with_the_descriptor_forgets() {
    let mut stage = Stage::new();
    let token = stage.join();
    let fd = stage.fd(token);
    stage.script.record();
    stage.leave(token);
    assert_eq!(stage.script.record(), [Did::Remove(fd)]);

    let file = std::fs::File::open("/dev/null").unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    let mut conns = Connections::new();
    let (ev, mode) = (&mut stage.ev, Mode::Level);
    let token = conns.add(ev, file, Interest::READ, mode).unwrap();
    stage.script.record();
    assert!(conns.close(&mut stage.ev, token));
    assert_eq!(stage.script.record(), [Did::Forget(fd)]);
}

#[test]
fn a_stale_token_is_refused_everywhere_and_disturbs_nobody() {
    let mut stage = Stage::new();
    let stale = stage.join();
    stage.leave(stale);
    let living = stage.join();
    assert_eq!(living.index(), stale.index());
    stage.arm_ms(living, Timer::READ, 1);
    stage.ev.post(living, Ready::WRITABLE);

    assert!(!stage.ev.close(stale));
    assert!(!stage.ev.arm(stale, Timer::READ, Duration::ZERO));
    assert!(!stage.ev.disarm(stale, Timer::READ));
    assert!(!stage.ev.post(stale, Ready::READABLE));
    assert_eq!(stage.ev.cancel(stale), Ready::NONE);
    assert!(!stage.ev.rearm(stale, Interest::READ));
    let refusal = stage.ev.modify(stale, Interest::BOTH);
    assert!(matches!(refusal, Err(Error::Stale { token }) if token == stale));

    stage.pass_ms(1);
    let expected = [
        Did::Expired(living, Timer::READ),
        Did::Ready(living, Ready::WRITABLE),
    ];
    assert_eq!(stage.turn(), expected);
}

#[test]
fn a_removal_that_the_kernel_refuses_closes_all_the_same() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.script.fail_removals();
    stage.leave(token);
    assert_eq!(stage.ev.status().active, 0);
    assert_ne!(stage.join(), token);
}

/// Two steps of every kind that there can be in one turn: clients come to a loop that goes on, the
/// idle are named by one that shuts down. Whose they are.
fn all_kinds(stage: &mut Stage, shuts_down: bool) -> [Token; 4] {
    let tokens @ [a, b, c, d] = [(); 4].map(|()| stage.join());
    for token in [a, b] {
        stage.arm_ms(token, Timer::READ, 5);
        stage.arm_ms(token, Timer::WRITE, 5);
        stage.ev.post(token, Ready::PRIORITY);
    }
    for token in [c, d] {
        stage.ev.post_next(token, Ready::PRIORITY);
        stage.ev.handle().post(token, Ready::WRITABLE).unwrap();
    }
    stage.pass_ms(5);
    stage.ev.handle().wake();
    let mut reported = tokens
        .map(|token| (stage.fd(token), Ready::READABLE))
        .to_vec();
    if shuts_down {
        for token in tokens {
            stage.ev.set_idle(token);
        }
        stage.ev.shutdown(Duration::from_secs(1));
    } else {
        stage.connect(0, 2);
        reported.insert(1, (stage.listener_fd(0), Ready::READABLE));
    }
    stage.script.report(reported);
    tokens
}

fn owner(did: &Did) -> Option<Token> {
    match did {
        Did::Ready(token, _) | Did::Expired(token, _) | Did::Evict(token) => Some(*token),
        _ => None,
    }
}

/// All steps of a turn and of the one after it; after so many of them something is done.
fn two_turns(stage: &mut Stage, after: usize, mut deed: impl FnMut(&mut Stage)) -> Vec<Did> {
    let mut seen = Vec::new();
    for _ in 0..2 {
        stage.wait();
        loop {
            if seen.len() == after {
                deed(stage);
            }
            match stage.step() {
                Some(did) => seen.push(did),
                None => break,
            }
        }
    }
    seen
}

#[test]
fn from_every_step_of_every_phase_closing_takes_all_that_was_to_come_and_nothing_else() {
    for shuts_down in [false, true] {
        for locks in [false, true] {
            let stage = || {
                if locks {
                    Stage::locking(1)
                } else {
                    Stage::listening(1)
                }
            };
            let mut whole = stage();
            all_kinds(&mut whole, shuts_down);
            let undisturbed = two_turns(&mut whole, usize::MAX, |_| {});
            let kinds: HashSet<_> = undisturbed.iter().map(discriminant).collect();
            assert_eq!(kinds.len(), 4, "{undisturbed:?}");

            for after in 0..undisturbed.len() {
                for (closed, reuses) in
                    (0..4).flat_map(|closed| [(closed, 0), (closed, 1), (closed, 2)])
                {
                    let mut stage = stage();
                    let tokens = all_kinds(&mut stage, shuts_down);
                    let mut closes = Some(tokens[closed]);
                    let seen = two_turns(&mut stage, after, |stage| {
                        let Some(token) = closes.take() else { return };
                        stage.leave(token);
                        for reuse in 0..reuses {
                            let again = stage.join();
                            assert_eq!(again.index(), token.index());
                            if reuse + 1 < reuses {
                                stage.leave(again);
                            }
                        }
                    });
                    let stays = |(at, did): &(usize, &Did)| {
                        *at < after || owner(did) != Some(tokens[closed])
                    };
                    let expected = undisturbed.iter().enumerate().filter(stays);
                    let expected: Vec<_> = expected.map(|(_, did)| *did).collect();
                    assert_eq!(
                        seen, expected,
                        "{closed} closed after {after}, used again {reuses} times"
                    );
                }
            }
        }
    }
}
