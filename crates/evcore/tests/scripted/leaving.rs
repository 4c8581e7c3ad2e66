//! Leaving a turn early, by `break` or `?`.

use std::time::Duration;

use evcore::{Ready, Timer};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

/// Two of everything: what the turns yield in all, in no particular order.
fn two_of_everything(stage: &mut Stage) -> Vec<Did> {
    let tokens @ [a, b] = [stage.join(), stage.join()];
    let put_off = [stage.join(), stage.join()];
    let from_outside = [stage.join(), stage.join()];
    for token in put_off {
        stage.ev.post_next(token, Ready::PRIORITY);
    }
    for token in from_outside {
        stage.ev.handle().post(token, Ready::PRIORITY).unwrap();
    }
    for token in tokens {
        stage.arm_ms(token, Timer::READ, 5);
        stage.ev.post(token, Ready::PRIORITY);
    }
    stage.pass_ms(5);
    stage.connect(0, 2);
    stage.ev.handle().wake();
    stage.script.report(vec![
        (stage.fd(a), Ready::READABLE),
        (stage.listener_fd(0), Ready::READABLE),
        (stage.fd(b), Ready::READABLE),
    ]);
    let mut expected = vec![
        Did::Accepted(0),
        Did::Accepted(0),
        Did::Woken,
        Did::Expired(a, Timer::READ),
        Did::Expired(b, Timer::READ),
        Did::Ready(a, Ready::READABLE),
        Did::Ready(b, Ready::READABLE),
        Did::Ready(a, Ready::PRIORITY),
        Did::Ready(b, Ready::PRIORITY),
    ];
    let posted = [put_off, from_outside].concat().into_iter();
    expected.extend(posted.map(|token| Did::Ready(token, Ready::PRIORITY)));
    assert_eq!(expected.len(), STEPS);
    expected
}

const STEPS: usize = 13;

/// The readiness of a token may come in one step or in two: here each bit counts for itself.
fn bit_by_bit(steps: Vec<Did>) -> Vec<String> {
    let mut bits = Vec::new();
    for did in steps {
        match did {
            Did::Ready(token, ready) => {
                for bit in [Ready::READABLE, Ready::PRIORITY] {
                    if ready & bit == bit {
                        bits.push(format!("{:?}", Did::Ready(token, bit)));
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
fn whichever_step_a_turn_is_left_at_the_next_does_not_wait_and_nothing_is_lost() {
    for leave_after in 0..=STEPS {
        for mut stage in [Stage::listening(1), Stage::locking(1)] {
            let expected = bit_by_bit(two_of_everything(&mut stage));
            stage.wait();
            let mut seen: Vec<_> = (0..leave_after).map_while(|_| stage.step()).collect();
            stage.script.record();

            let rest = stage.turn();
            let timeouts = stage.script.timeouts();
            let urgent = rest.is_empty() || timeouts == [Some(Duration::ZERO)];
            assert!(urgent, "left after {leave_after}: {timeouts:?}");
            seen.extend(rest);
            assert_eq!(bit_by_bit(seen), expected, "left after {leave_after}");
            assert_eq!(stage.turn(), []);
            assert_eq!(stage.script.timeouts(), [None], "it hurries no more");
        }
    }
}

#[test]
fn leaving_at_every_step_comes_to_an_end() {
    for mut stage in [Stage::listening(1), Stage::locking(1)] {
        let expected = bit_by_bit(two_of_everything(&mut stage));
        let mut seen = Vec::new();
        while seen.len() < STEPS {
            stage.wait();
            match stage.step() {
                Some(did) => seen.push(did),
                None => break,
            }
        }
        assert_eq!(bit_by_bit(seen), expected);
    }
}

#[test]
fn nor_is_anything_lost_of_a_turn_of_a_loop_that_shuts_down() {
    for leave_after in 0..=STEPS {
        for mut stage in [Stage::listening(1), Stage::locking(1)] {
            let mut expected = two_of_everything(&mut stage);
            let idle = [stage.join_idle(), stage.join_idle()];
            stage.wait();
            stage.ev.shutdown(Duration::from_secs(1));
            expected.retain(|did| *did != Did::Accepted(0));
            expected.extend(idle.map(Did::Evict));
            let expected = bit_by_bit(expected);
            let mut seen: Vec<_> = (0..leave_after).map_while(|_| stage.step()).collect();
            stage.script.record();

            let rest = stage.turn();
            let timeouts = stage.script.timeouts();
            let urgent = rest.is_empty() || timeouts == [Some(Duration::ZERO)];
            assert!(urgent, "left after {leave_after}: {timeouts:?}");
            seen.extend(rest);
            assert_eq!(bit_by_bit(seen), expected, "left after {leave_after}");
            assert_eq!(stage.turn(), []);
            assert_ne!(
                stage.script.timeouts(),
                [Some(Duration::ZERO)],
                "it hurries no more"
            );
        }
    }
}

#[test]
fn what_a_turn_puts_off_before_it_is_left_comes_in_the_next_behind_what_was_left() {
    for leave_after in 0..=STEPS {
        for mut stage in [Stage::listening(1), Stage::locking(1)] {
            two_of_everything(&mut stage);
            let token = stage.join();
            stage.wait();
            for _ in 0..leave_after {
                stage.step();
            }
            stage.ev.post_next(token, Ready::WRITABLE);
            stage.script.record();

            let last = stage.turn().pop();
            assert_eq!(last, Some(Did::Ready(token, Ready::WRITABLE)));
            assert_eq!(stage.script.timeouts(), [Some(Duration::ZERO)]);
            assert_eq!(stage.turn(), []);
            assert_eq!(stage.script.timeouts(), [None], "it hurries no more");
        }
    }
}

#[test]
fn events_that_a_turn_leaves_go_before_what_it_had_put_off() {
    let mut stage = Stage::new();
    let [a, b, put_off] = [(); 3].map(|()| stage.join());
    stage.report_readable(&[a, b]);
    stage.wait();
    assert_eq!(stage.step(), Some(readable(a)));
    stage.ev.post_next(put_off, Ready::READABLE);
    assert_eq!(stage.turn(), [readable(b), readable(put_off)]);
}

#[test]
fn a_wake_that_a_turn_leaves_is_not_lost_to_the_post_that_ends_the_next_wait() {
    let mut stage = Stage::new();
    let (token, handle) = (stage.join(), stage.ev.handle());
    handle.wake();
    stage.wait();
    handle.post(token, Ready::READABLE).unwrap();
    assert_eq!(stage.turn(), [Did::Woken, readable(token)]);
}

#[test]
fn the_lock_is_released_before_the_next_wait_asks_for_it() {
    for leave_after in 0..=2 {
        let mut stage = Stage::locking(1);
        stage.connect(0, 3);
        stage.report_listeners(&[0]);
        stage.wait();
        for _ in 0..leave_after {
            assert_eq!(stage.step(), Some(Did::Accepted(0)));
        }
        assert!(stage.script.holds_lock());
        stage.script.record();
        stage.wait();
        assert_eq!(
            stage.script.record()[..2],
            [Did::Unlock, Did::TryLock(true)]
        );
    }
}

#[test]
fn clients_that_are_left_to_others_with_the_lock_are_not_accepted_here() {
    let mut stage = Stage::locking(1);
    stage.connect(0, 2);
    stage.report_listeners(&[0]);
    stage.wait();
    assert_eq!(stage.step(), Some(Did::Accepted(0)));
    stage.script.set_lock_free(false);
    assert_eq!(stage.turn(), []);
    assert!(!stage.ev.status().listening);

    // The one who waits is reported again.
    stage.script.set_lock_free(true);
    stage.report_listeners(&[0]);
    assert_eq!(stage.turn(), [Did::Accepted(0)]);
}

#[test]
fn dropping_the_loop_in_the_middle_of_a_turn_gives_the_lock_back() {
    use evcore::balancer::{AcceptMutex, Policy, WorkerId};
    let (mutex, me) = (AcceptMutex::new().unwrap(), WorkerId::from_slot(0));
    let mut stage = Stage::built(1, |builder, _| {
        builder.policy(Policy::mutex()).group(mutex.handle(me))
    });
    stage.wait();
    assert_eq!(mutex.owner(), Some(me));
    drop(stage);
    assert_eq!(mutex.owner(), None);
}

#[test]
fn readiness_that_was_left_over_is_not_delivered_twice() {
    let mut stage = Stage::new();
    let [a, b] = [stage.join(), stage.join()];
    stage.report_readable(&[a, b]);
    stage.wait();
    assert_eq!(stage.step(), Some(readable(a)));
    // b is kept while the turn is left twice more.
    stage.wait();
    stage.wait();
    assert_eq!(stage.rest(), [readable(b)]);
    assert_eq!(stage.turn(), []);
}
