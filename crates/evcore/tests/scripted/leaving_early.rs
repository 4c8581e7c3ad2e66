//! A program may leave a turn (an iteration of the loop) early, by `break` or `?`. No step is lost.

use std::time::Duration;

use evcore::{Ready, Timer};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

/// Causes one `Woken` and two steps of each other kind, except evictions and the steps of a
/// shutdown. Returns the expected steps, in any order.
fn two_steps_of_most_kinds(fixture: &mut Fixture) -> Vec<Recorded> {
    let tokens @ [a, b] = [fixture.join(), fixture.join()];
    let put_off = [fixture.join(), fixture.join()];
    let from_outside = [fixture.join(), fixture.join()];
    for token in put_off {
        fixture.ev.post_next(token, Ready::PRIORITY);
    }
    for token in from_outside {
        fixture.ev.handle().post(token, Ready::PRIORITY);
    }
    for token in tokens {
        fixture.arm_ms(token, Timer::READ, 5);
        fixture.ev.post(token, Ready::PRIORITY);
    }
    fixture.pass_ms(5);
    fixture.connect(0, 2);
    fixture.ev.handle().wake();
    fixture.backend.report(vec![
        (fixture.fd(a), Ready::READABLE),
        (fixture.listener_fd(0), Ready::READABLE),
        (fixture.fd(b), Ready::READABLE),
    ]);
    let mut expected = vec![
        Recorded::Accepted(0),
        Recorded::Accepted(0),
        Recorded::Woken,
        Recorded::Expired(a, Timer::READ),
        Recorded::Expired(b, Timer::READ),
        Recorded::Ready(a, Ready::READABLE),
        Recorded::Ready(b, Ready::READABLE),
        Recorded::Ready(a, Ready::PRIORITY),
        Recorded::Ready(b, Ready::PRIORITY),
    ];
    let posted = [put_off, from_outside].concat().into_iter();
    expected.extend(posted.map(|token| Recorded::Ready(token, Ready::PRIORITY)));
    assert_eq!(expected.len(), STEPS);
    expected
}

const STEPS: usize = 13;

/// Splits readiness into single bits, because a token's readiness may come in one step or in two.
fn bit_by_bit(steps: Vec<Recorded>) -> Vec<String> {
    let mut bits = Vec::new();
    for recorded in steps {
        match recorded {
            Recorded::Ready(token, ready) => {
                for bit in [Ready::READABLE, Ready::PRIORITY] {
                    if ready & bit == bit {
                        bits.push(format!("{:?}", Recorded::Ready(token, bit)));
                    }
                }
            }
            other => bits.push(format!("{other:?}")),
        }
    }
    bits.sort();
    bits
}

#[test]
fn a_turn_left_at_any_step_loses_nothing() {
    for leave_after in 0..=STEPS {
        for mut fixture in [Fixture::listening(1), Fixture::locking(1)] {
            let expected = bit_by_bit(two_steps_of_most_kinds(&mut fixture));
            fixture.wait();
            let mut seen: Vec<_> = (0..leave_after).map_while(|_| fixture.step()).collect();
            fixture.backend.record();

            let rest = fixture.turn();
            let timeouts = fixture.backend.timeouts();
            let urgent = rest.is_empty() || timeouts == [Some(Duration::ZERO)];
            assert!(urgent, "left after {leave_after}: {timeouts:?}");
            seen.extend(rest);
            assert_eq!(bit_by_bit(seen), expected, "left after {leave_after}");
            assert_eq!(fixture.turn(), []);
            assert_eq!(fixture.backend.timeouts(), [None], "no wait is cut short");
        }
    }
}

#[test]
fn leaving_at_every_step_makes_progress() {
    for mut fixture in [Fixture::listening(1), Fixture::locking(1)] {
        let expected = bit_by_bit(two_steps_of_most_kinds(&mut fixture));
        let mut seen = Vec::new();
        while seen.len() < STEPS {
            fixture.wait();
            match fixture.step() {
                Some(recorded) => seen.push(recorded),
                None => break,
            }
        }
        assert_eq!(bit_by_bit(seen), expected);
    }
}

#[test]
fn a_turn_left_during_a_shutdown_loses_nothing() {
    for leave_after in 0..=STEPS {
        for mut fixture in [Fixture::listening(1), Fixture::locking(1)] {
            let mut expected = two_steps_of_most_kinds(&mut fixture);
            let idle = [fixture.join_idle(), fixture.join_idle()];
            fixture.wait();
            fixture.ev.shutdown(Duration::from_secs(1));
            expected.retain(|recorded| *recorded != Recorded::Accepted(0));
            expected.extend(idle.map(Recorded::Evict));
            let expected = bit_by_bit(expected);
            let mut seen: Vec<_> = (0..leave_after).map_while(|_| fixture.step()).collect();
            fixture.backend.record();

            let rest = fixture.turn();
            let timeouts = fixture.backend.timeouts();
            let urgent = rest.is_empty() || timeouts == [Some(Duration::ZERO)];
            assert!(urgent, "left after {leave_after}: {timeouts:?}");
            seen.extend(rest);
            assert_eq!(bit_by_bit(seen), expected, "left after {leave_after}");
            assert_eq!(fixture.turn(), []);
            assert_ne!(
                fixture.backend.timeouts(),
                [Some(Duration::ZERO)],
                "no wait is cut short"
            );
        }
    }
}

#[test]
fn post_next_comes_after_all_steps_of_a_turn_left_early() {
    for leave_after in 0..=STEPS {
        for mut fixture in [Fixture::listening(1), Fixture::locking(1)] {
            two_steps_of_most_kinds(&mut fixture);
            let token = fixture.join();
            fixture.wait();
            for _ in 0..leave_after {
                fixture.step();
            }
            fixture.ev.post_next(token, Ready::WRITABLE);
            fixture.backend.record();

            let last = fixture.turn().pop();
            assert_eq!(last, Some(Recorded::Ready(token, Ready::WRITABLE)));
            assert_eq!(fixture.backend.timeouts(), [Some(Duration::ZERO)]);
            assert_eq!(fixture.turn(), []);
            assert_eq!(fixture.backend.timeouts(), [None], "no wait is cut short");
        }
    }
}

#[test]
fn events_of_a_turn_left_early_come_before_its_post_next() {
    let mut fixture = Fixture::new();
    let [a, b, put_off] = [(); 3].map(|()| fixture.join());
    fixture.report_readable(&[a, b]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(readable(a)));
    fixture.ev.post_next(put_off, Ready::READABLE);
    assert_eq!(fixture.turn(), [readable(b), readable(put_off)]);
}

#[test]
fn a_wake_of_a_left_turn_survives_a_post() {
    let mut fixture = Fixture::new();
    let (token, handle) = (fixture.join(), fixture.ev.handle());
    handle.wake();
    fixture.wait();
    handle.post(token, Ready::READABLE);
    assert_eq!(fixture.turn(), [Recorded::Woken, readable(token)]);
}

#[test]
fn the_lock_is_released_before_the_next_wait_tries_it() {
    for leave_after in 0..=2 {
        let mut fixture = Fixture::locking(1);
        fixture.connect(0, 3);
        fixture.report_listeners(&[0]);
        fixture.wait();
        for _ in 0..leave_after {
            assert_eq!(fixture.step(), Some(Recorded::Accepted(0)));
        }
        assert!(fixture.backend.holds_lock());
        fixture.backend.record();
        fixture.wait();
        assert_eq!(
            fixture.backend.record()[..2],
            [Recorded::Unlock, Recorded::TryLock(true)]
        );
    }
}

#[test]
fn no_waiting_client_is_accepted_without_the_lock() {
    let mut fixture = Fixture::locking(1);
    fixture.connect(0, 2);
    fixture.report_listeners(&[0]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(Recorded::Accepted(0)));
    fixture.backend.set_lock_free(false);
    assert_eq!(fixture.turn(), []);
    assert!(!fixture.ev.stats().listening);

    // The waiting client is reported again.
    fixture.backend.set_lock_free(true);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), [Recorded::Accepted(0)]);
}

#[test]
fn dropping_the_loop_within_a_turn_releases_the_lock() {
    use evcore::balancer::{AcceptMutex, Policy, WorkerId};
    let (mutex, me) = (AcceptMutex::new().unwrap(), WorkerId::from_slot(0));
    let mut fixture = Fixture::built(1, |builder, _| {
        builder.policy(Policy::mutex()).group(mutex.lock_handle(me))
    });
    fixture.report_listeners(&[0]);
    fixture.wait();
    assert_eq!(mutex.owner(), Some(me));
    drop(fixture);
    assert_eq!(mutex.owner(), None);
}

#[test]
fn readiness_that_was_left_over_is_not_delivered_twice() {
    let mut fixture = Fixture::new();
    let [a, b] = [fixture.join(), fixture.join()];
    fixture.report_readable(&[a, b]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(readable(a)));
    // The event of b is kept, although this turn and the next are left early.
    fixture.wait();
    fixture.wait();
    assert_eq!(fixture.rest(), [readable(b)]);
    assert_eq!(fixture.turn(), []);
}
