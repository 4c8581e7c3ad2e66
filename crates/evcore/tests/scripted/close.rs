//! Closing a token, at any stage of its events.

use std::{collections::HashSet, mem::discriminant, time::Duration};

use evcore::{Error, Interest, Mode, Ready, Timer, Token, TokenMap};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

type Report = fn(&Fixture, &[Token]);

/// Two loops. One holds the accept lock and posts the events (queues them until it has accepted),
/// because a listener is reported with them. The other one has no listener.
fn fixtures() -> [(Fixture, Report); 2] {
    [
        (Fixture::locking(1), Fixture::report_before_listener),
        (Fixture::new(), Fixture::report_readable),
    ]
}

#[test]
fn closing_a_connection_drops_its_event_of_the_batch() {
    for closing in 0..4 {
        for closed in (0..4).filter(|closed| *closed != closing) {
            for (mut fixture, report) in fixtures() {
                let tokens = [(); 4].map(|()| fixture.join());
                report(&fixture, &tokens);
                fixture.wait();
                let mut seen = Vec::new();
                while let Some(recorded) = fixture.step() {
                    seen.push(recorded);
                    if recorded == readable(tokens[closing]) {
                        fixture.leave(tokens[closed]);
                    }
                }
                // The earlier connections had their events already.
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
fn closing_its_own_token_keeps_the_other_events() {
    for closing in 0..4 {
        for (mut fixture, report) in fixtures() {
            let tokens = [(); 4].map(|()| fixture.join());
            report(&fixture, &tokens);
            fixture.wait();
            let mut seen = Vec::new();
            while let Some(recorded) = fixture.step() {
                seen.push(recorded);
                if recorded == readable(tokens[closing]) {
                    fixture.leave(tokens[closing]);
                }
            }
            assert_eq!(seen, tokens.map(readable), "{closing} closes itself");
        }
    }
}

#[test]
fn an_index_reused_within_a_batch_gets_no_stale_event() {
    for reuses in [1, 2] {
        for (mut fixture, report) in fixtures() {
            let [first, second] = [fixture.join(), fixture.join()];
            report(&fixture, &[first, second]);
            fixture.wait();
            assert_eq!(fixture.step(), Some(readable(first)));
            let mut token = second;
            for _ in 0..reuses {
                fixture.leave(token);
                token = fixture.join();
                assert_eq!(token.index(), second.index());
            }
            assert_eq!(fixture.rest(), [], "reused {reuses} times");
            assert!(fixture.ev.rearm(token, Interest::NONE));
            assert!(!fixture.ev.rearm(second, Interest::NONE));

            report(&fixture, &[token]);
            assert_eq!(fixture.turn(), [readable(token)]);
        }
    }
}

#[test]
fn timers_and_posts_end_with_the_token() {
    for (mut fixture, report) in fixtures() {
        let [token, other] = [fixture.join(), fixture.join()];
        for side in [Timer::READ, Timer::WRITE] {
            fixture.arm_ms(token, side, 1);
            fixture.arm_ms(other, side, 1);
        }
        fixture.ev.post(token, Ready::WRITABLE);
        fixture.pass_ms(1);
        report(&fixture, &[other, token]);
        fixture.wait();
        fixture.leave(token);
        let again = fixture.join();
        assert_eq!(again.index(), token.index());
        let mut seen = fixture.rest();
        let mut expected = vec![
            readable(other),
            Recorded::Expired(other, Timer::READ),
            Recorded::Expired(other, Timer::WRITE),
        ];
        // This test does not check the order of the steps.
        let key = |recorded: &Recorded| format!("{recorded:?}");
        seen.sort_by_key(key);
        expected.sort_by_key(key);
        assert_eq!(seen, expected);
    }
}

#[test]
fn a_timers_handler_may_close_its_own_token_and_others() {
    let mut fixture = Fixture::new();
    let [a, b] = [fixture.join(), fixture.join()];
    for token in [a, b] {
        fixture.arm_ms(token, Timer::READ, 1);
        fixture.arm_ms(token, Timer::WRITE, 1);
    }
    fixture.pass_ms(1);
    fixture.wait();
    assert_eq!(fixture.step(), Some(Recorded::Expired(a, Timer::READ)));
    fixture.leave(a);
    fixture.leave(b);
    assert_eq!(fixture.rest(), []);
}

#[test]
fn a_posted_step_may_close_the_token_of_the_next() {
    let mut fixture = Fixture::new();
    let [a, b, c] = [fixture.join(), fixture.join(), fixture.join()];
    for token in [a, b, c] {
        fixture.ev.post(token, Ready::READABLE);
    }
    fixture.wait();
    assert_eq!(fixture.step(), Some(readable(a)));
    fixture.leave(b);
    assert_eq!(fixture.rest(), [readable(c)]);
}

#[test]
fn closing_between_turns_drops_what_was_left_over() {
    let mut fixture = Fixture::new();
    let [a, b] = [fixture.join(), fixture.join()];
    fixture.report_readable(&[a, b]);
    fixture.wait();
    fixture.leave(a);
    fixture.wait();
    fixture.leave(b);
    assert_eq!(fixture.rest(), []);
}

#[test]
fn a_removal_calls_remove_and_a_close_calls_forget() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    let fd = fixture.fd(token);
    fixture.backend.record();
    fixture.leave(token);
    assert_eq!(fixture.backend.record(), [Recorded::Remove(fd)]);

    let file = std::fs::File::open("/dev/null").unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    let mut conns = TokenMap::new();
    let (ev, mode) = (&mut fixture.ev, Mode::Level);
    let token = conns.add(ev, file, Interest::READ, mode).unwrap();
    fixture.backend.record();
    assert!(conns.close(&mut fixture.ev, token));
    assert_eq!(fixture.backend.record(), [Recorded::Forget(fd)]);
}

#[test]
fn every_call_refuses_a_stale_token() {
    let mut fixture = Fixture::new();
    let stale = fixture.join();
    fixture.leave(stale);
    let living = fixture.join();
    assert_eq!(living.index(), stale.index());
    fixture.arm_ms(living, Timer::READ, 1);
    fixture.ev.post(living, Ready::WRITABLE);

    assert!(!fixture.ev.remove(stale));
    assert!(!fixture.ev.arm(stale, Timer::READ, Duration::ZERO));
    assert!(!fixture.ev.disarm(stale, Timer::READ));
    assert!(!fixture.ev.post(stale, Ready::READABLE));
    assert!(!fixture.ev.rearm(stale, Interest::READ));
    let refusal = fixture.ev.modify(stale, Interest::BOTH);
    assert!(matches!(refusal, Err(Error::Stale { token }) if token == stale));

    fixture.pass_ms(1);
    let expected = [
        Recorded::Expired(living, Timer::READ),
        Recorded::Ready(living, Ready::WRITABLE),
    ];
    assert_eq!(fixture.turn(), expected);
}

#[test]
fn a_removal_that_the_kernel_refuses_closes_all_the_same() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.backend.fail_removals();
    fixture.leave(token);
    assert_eq!(fixture.ev.stats().active, 0);
    assert_ne!(fixture.join(), token);
}

/// Causes steps of every kind that a turn can have. Clients come only if the loop does not shut
/// down, and evictions only if it does. Returns the tokens.
fn all_kinds(fixture: &mut Fixture, shuts_down: bool) -> [Token; 4] {
    let tokens @ [a, b, c, d] = [(); 4].map(|()| fixture.join());
    for token in [a, b] {
        fixture.arm_ms(token, Timer::READ, 5);
        fixture.arm_ms(token, Timer::WRITE, 5);
        fixture.ev.post(token, Ready::PRIORITY);
    }
    for token in [c, d] {
        fixture.ev.post_next(token, Ready::PRIORITY);
        fixture.ev.handle().post(token, Ready::WRITABLE);
    }
    fixture.pass_ms(5);
    fixture.ev.handle().wake();
    let mut reported = tokens
        .map(|token| (fixture.fd(token), Ready::READABLE))
        .to_vec();
    if shuts_down {
        for token in tokens {
            fixture.ev.set_idle(token);
        }
        fixture.ev.shutdown(Duration::from_secs(1));
    } else {
        fixture.connect(0, 2);
        reported.insert(1, (fixture.listener_fd(0), Ready::READABLE));
    }
    fixture.backend.report(reported);
    tokens
}

fn owner(recorded: &Recorded) -> Option<Token> {
    match recorded {
        Recorded::Ready(token, _) | Recorded::Expired(token, _) | Recorded::Evict(token) => {
            Some(*token)
        }
        _ => None,
    }
}

/// Returns all steps of a turn and of the next one. Calls `op` after the first `after` steps.
fn two_turns(
    fixture: &mut Fixture,
    after: usize,
    mut op: impl FnMut(&mut Fixture),
) -> Vec<Recorded> {
    let mut seen = Vec::new();
    for _ in 0..2 {
        fixture.wait();
        loop {
            if seen.len() == after {
                op(fixture);
            }
            match fixture.step() {
                Some(recorded) => seen.push(recorded),
                None => break,
            }
        }
    }
    seen
}

#[test]
fn closing_at_any_step_drops_exactly_the_tokens_own_steps() {
    for shuts_down in [false, true] {
        for locks in [false, true] {
            let fixture = || {
                if locks {
                    Fixture::locking(1)
                } else {
                    Fixture::listening(1)
                }
            };
            let mut whole = fixture();
            all_kinds(&mut whole, shuts_down);
            let undisturbed = two_turns(&mut whole, usize::MAX, |_| {});
            let kinds: HashSet<_> = undisturbed.iter().map(discriminant).collect();
            assert_eq!(kinds.len(), 4, "{undisturbed:?}");

            for after in 0..undisturbed.len() {
                for (closed, reuses) in
                    (0..4).flat_map(|closed| [(closed, 0), (closed, 1), (closed, 2)])
                {
                    let mut fixture = fixture();
                    let tokens = all_kinds(&mut fixture, shuts_down);
                    let mut closes = Some(tokens[closed]);
                    let seen = two_turns(&mut fixture, after, |fixture| {
                        let Some(token) = closes.take() else { return };
                        fixture.leave(token);
                        for reuse in 0..reuses {
                            let again = fixture.join();
                            assert_eq!(again.index(), token.index());
                            if reuse + 1 < reuses {
                                fixture.leave(again);
                            }
                        }
                    });
                    let stays = |(at, recorded): &(usize, &Recorded)| {
                        *at < after || owner(recorded) != Some(tokens[closed])
                    };
                    let expected = undisturbed.iter().enumerate().filter(stays);
                    let expected: Vec<_> = expected.map(|(_, recorded)| *recorded).collect();
                    assert_eq!(
                        seen, expected,
                        "{closed} closed after {after}, used again {reuses} times"
                    );
                }
            }
        }
    }
}
