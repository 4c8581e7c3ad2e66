//! Idle connections, and the evictions when clients wait and slots are short.

use evcore::{Budgets, Ready, Timer, Token, balancer::Policy};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

/// Two fixtures with this connection limit and one listener: without a lock, and with one.
fn room_for(connections: u32) -> [Fixture; 2] {
    [Policy::Off, Policy::mutex()].map(|policy| {
        Fixture::built(1, |builder, backend| {
            let builder = builder.connections(connections);
            builder.policy(policy).group(backend.clone())
        })
    })
}

/// Makes a turn in which clients wait. Returns its steps except the accepts.
fn turn_with_clients(fixture: &mut Fixture) -> Vec<Recorded> {
    fixture.report_listeners(&[0]);
    let mut recorded = fixture.turn();
    recorded.retain(|recorded| *recorded != Recorded::Accepted(0));
    recorded
}

#[test]
fn an_eighth_of_the_idle_is_evicted_below_a_sixteenth_free() {
    let [mut fixture, _] = room_for(32);
    let idle: Vec<_> = (0..29).map(|_| fixture.join_idle()).collect();
    fixture.connect(0, 1);
    assert_eq!(turn_with_clients(&mut fixture), [], "three slots were free");
    fixture.join();
    fixture.connect(0, 1);
    let oldest = [0, 1, 2].map(|at| Recorded::Evict(idle[at]));
    assert_eq!(turn_with_clients(&mut fixture), oldest, "29 / 8");
    assert_eq!(fixture.accepted.len(), 2);
    assert_eq!(fixture.ev.stats().evictions, 3);
    assert_eq!(fixture.ev.stats().idle, 26);
}

#[test]
fn nothing_is_evicted_while_no_client_waits() {
    for mut fixture in room_for(4) {
        let tokens = [(); 4].map(|()| fixture.join_idle());
        fixture.report_readable(&tokens);
        let mut recorded = fixture.turn();
        recorded.extend(fixture.turn());
        assert_eq!(recorded, tokens.map(readable));
        assert!(fixture.ev.stats().listening, "an eviction can free a slot");
        assert_eq!(
            fixture.backend.timeouts().last(),
            Some(&None),
            "the wait has no limit"
        );
    }
}

/// The kernel may wake several workers for a client, and another one may accept it.
#[test]
fn an_event_of_a_listener_without_a_client_evicts_nothing_while_a_slot_is_free() {
    let [mut fixture, _] = room_for(32);
    let idle: Vec<_> = (0..31).map(|_| fixture.join_idle()).collect();
    assert_eq!(turn_with_clients(&mut fixture), []);
    // Without a free slot, the loop cannot find out whether a client waits, so it evicts.
    fixture.join();
    let oldest = [0, 1, 2].map(|at| Recorded::Evict(idle[at]));
    assert_eq!(turn_with_clients(&mut fixture), oldest);
}

#[test]
fn a_turn_that_finds_no_further_client_evicts_nothing() {
    let mut fixture = Fixture::built(1, |builder, _| {
        let budgets = Budgets {
            accepts: 1,
            ..Budgets::default()
        };
        builder.connections(32).budgets(budgets)
    });
    let idle: Vec<_> = (0..31).map(|_| fixture.join_idle()).collect();
    fixture.connect(0, 1);
    let oldest = [0, 1, 2].map(|at| Recorded::Evict(idle[at]));
    assert_eq!(turn_with_clients(&mut fixture), oldest);
    assert_eq!(fixture.turn(), [], "the listener was still queued");
}

#[test]
fn busy_connections_are_not_evicted_and_recently_used_come_last() {
    for mut fixture in room_for(4) {
        let tokens @ [a, b, c, d] = [(); 4].map(|()| fixture.join_idle());
        assert!(fixture.ev.set_busy(b) && !fixture.ev.set_busy(b));
        assert!(fixture.ev.set_idle(a));
        let idle = tokens.map(|token| fixture.ev.is_idle(token));
        assert_eq!(idle, [true, false, true, true]);
        fixture.connect(0, 1);
        let mut named = Vec::new();
        while fixture.ev.stats().idle > 0 {
            named.extend(turn_with_clients(&mut fixture));
        }
        assert_eq!(
            named,
            [c, d, a].map(Recorded::Evict),
            "each is evicted once, although none was closed"
        );
    }
}

#[test]
fn if_evicted_connections_stay_open_the_next_turns_evict_others() {
    for mut fixture in room_for(3) {
        let tokens = [(); 3].map(|()| fixture.join_idle());
        fixture.connect(0, 1);
        for token in tokens {
            assert_eq!(turn_with_clients(&mut fixture), [Recorded::Evict(token)]);
        }
        assert_eq!(fixture.turn(), []);
        assert!(!fixture.ev.stats().listening, "now all are busy");
    }
}

#[test]
fn taking_the_last_slot_evicts_nothing_and_the_loop_sleeps() {
    for mut fixture in room_for(2) {
        let idle = fixture.join_idle();
        fixture.connect(0, 1);
        fixture.report_listeners(&[0]);
        fixture.wait();
        assert_eq!(fixture.step(), Some(Recorded::Accepted(0)));
        fixture.join();
        assert_eq!(fixture.rest(), []);
        fixture.backend.record();
        assert_eq!(fixture.turn(), [], "no other client waits");
        assert_eq!(fixture.backend.timeouts(), [None]);
        assert!(fixture.ev.stats().listening && fixture.ev.is_idle(idle));
    }
}

#[test]
fn a_full_loop_of_idle_connections_makes_room_for_the_backlog() {
    for mut fixture in room_for(2) {
        fixture.connect(0, 4);
        let (mut living, mut named) = (Vec::new(), Vec::new());
        while fixture.accepted.len() < 4 {
            fixture.report_listeners(&[0]);
            fixture.wait();
            while let Some(recorded) = fixture.step() {
                match recorded {
                    Recorded::Accepted(0) => living.push(fixture.join_idle()),
                    Recorded::Evict(token) => {
                        assert!(!fixture.backend.holds_lock(), "handlers run without it");
                        fixture.leave(token);
                        named.push(token);
                    }
                    recorded => panic!("{recorded:?}"),
                }
                assert!(fixture.ev.stats().active <= 2);
            }
            assert!(fixture.ev.stats().listening);
        }
        assert_eq!(
            named,
            living[..2],
            "the longest idle each time, and no more than needed"
        );
    }
}

#[test]
fn if_all_are_busy_a_client_waits_until_one_is_idle() {
    for mut fixture in room_for(2) {
        let [a, b] = [fixture.join(), fixture.join()];
        fixture.connect(0, 1);
        assert_eq!(fixture.turn(), []);
        assert!(!fixture.ev.stats().listening);
        fixture.report_readable(&[a, b]);
        fixture.wait();
        assert_eq!(fixture.step(), Some(readable(a)));
        fixture.ev.set_idle(a);
        assert_eq!(fixture.rest(), [readable(b)]);
        fixture.report_listeners(&[0]);
        assert_eq!(fixture.turn(), [Recorded::Evict(a)]);
        fixture.leave(a);
        fixture.report_listeners(&[0]);
        assert_eq!(fixture.turn(), [Recorded::Accepted(0)]);
    }
}

#[test]
fn a_connection_is_not_evicted_in_the_turn_that_accepts_it() {
    for mut fixture in room_for(2) {
        fixture.join();
        fixture.connect(0, 2);
        fixture.report_listeners(&[0]);
        fixture.wait();
        assert_eq!(fixture.step(), Some(Recorded::Accepted(0)));
        let new = fixture.join_idle();
        assert_eq!(fixture.rest(), [], "none was idle before");
        fixture.report_listeners(&[0]);
        assert_eq!(
            fixture.turn(),
            [Recorded::Evict(new)],
            "the other one still waits"
        );
    }
}

#[test]
fn a_new_connection_at_a_chosen_index_is_not_evicted() {
    for mut fixture in room_for(2) {
        let [chosen, _busy] = [fixture.join_idle(), fixture.join()];
        fixture.ev.handle().wake();
        fixture.connect(0, 1);
        fixture.report_listeners(&[0]);
        fixture.wait();
        assert_eq!(fixture.step(), Some(Recorded::Woken));
        fixture.leave(chosen);
        let again = fixture.join_idle();
        assert_eq!(again.index(), chosen.index());
        assert_eq!(fixture.rest(), []);
    }
}

#[test]
fn evictions_come_after_every_pending_event() {
    for mut fixture in room_for(5) {
        let [busy, timed, posted, oldest] = [(); 4].map(|()| fixture.join_idle());
        fixture.join();
        fixture.arm_ms(timed, Timer::READ, 1);
        fixture.pass_ms(1);
        fixture.ev.post(posted, Ready::READABLE);
        fixture.ev.handle().wake();
        fixture.connect(0, 1);
        fixture.backend.report(vec![
            (fixture.listener_fd(0), Ready::READABLE),
            (fixture.fd(busy), Ready::READABLE),
        ]);
        fixture.wait();
        let mut named = Vec::new();
        while let Some(recorded) = fixture.step() {
            match recorded {
                Recorded::Ready(token, _) | Recorded::Expired(token, _) => {
                    assert_eq!(named, [], "this step is due before the evictions");
                    assert!(fixture.ev.set_idle(token), "it was used, and is idle again");
                }
                Recorded::Evict(token) => named.push(token),
                recorded => assert_eq!(recorded, Recorded::Woken),
            }
        }
        // If the connection that was chosen has been used since, the turn evicts none.
        assert!(named == [oldest] || named.is_empty(), "{named:?}");
    }
}

#[test]
fn a_chosen_connection_that_was_used_since_is_not_evicted() {
    for mut fixture in room_for(3) {
        let [chosen, other, _busy] = [fixture.join_idle(), fixture.join_idle(), fixture.join()];
        fixture.ev.handle().wake();
        fixture.connect(0, 1);
        fixture.report_listeners(&[0]);
        fixture.wait();
        assert_eq!(fixture.step(), Some(Recorded::Woken));
        fixture.ev.set_idle(chosen);
        assert_eq!(fixture.rest(), []);
        assert_eq!(turn_with_clients(&mut fixture), [Recorded::Evict(other)]);
    }
}

#[test]
fn a_connection_with_a_post_over_the_budget_is_not_evicted() {
    for put_off in [false, true] {
        let mut fixture = Fixture::built(1, |builder, _| {
            builder.connections(3).budgets(Budgets {
                posted: 1,
                ..Budgets::default()
            })
        });
        let [a, b, c] = [fixture.join(), fixture.join_idle(), fixture.join_idle()];
        let post = |fixture: &mut Fixture, token: Token| match put_off {
            false => fixture.ev.post(token, Ready::READABLE),
            true => fixture.ev.post_next(token, Ready::READABLE),
        };
        fixture.ev.post(a, Ready::READABLE);
        post(&mut fixture, b);
        fixture.connect(0, 1);
        fixture.report_listeners(&[0]);
        assert_eq!(
            fixture.turn(),
            [readable(a)],
            "b was chosen, and has a post"
        );
        assert!(fixture.ev.is_idle(b));
        assert_eq!(
            turn_with_clients(&mut fixture),
            [readable(b), Recorded::Evict(c)]
        );
    }
}

#[test]
fn evictions_of_a_turn_left_early_come_in_the_next() {
    for mut fixture in room_for(2) {
        let [a, b] = [fixture.join_idle(), fixture.join_idle()];
        fixture.ev.post(b, Ready::READABLE);
        fixture.connect(0, 1);
        fixture.report_listeners(&[0]);
        fixture.wait();
        assert_eq!(fixture.step(), Some(readable(b)));
        assert_eq!(turn_with_clients(&mut fixture), [Recorded::Evict(a)]);
    }
}

#[test]
fn closing_ends_idleness_and_the_next_occupant_is_busy() {
    for mut fixture in room_for(2) {
        let [first, _] = [fixture.join_idle(), fixture.join()];
        fixture.leave(first);
        let again = fixture.join();
        assert_eq!(again.index(), first.index());
        assert!(!fixture.ev.is_idle(again) && !fixture.ev.is_idle(first));
        assert!(
            !fixture.ev.set_idle(first) && !fixture.ev.set_busy(first),
            "stale"
        );
        assert_eq!(fixture.ev.stats().idle, 0);
        fixture.turn();
        assert!(!fixture.ev.stats().listening, "no eviction can free a slot");
    }
}

#[test]
fn a_token_without_a_descriptor_is_never_idle() {
    for mut fixture in room_for(1) {
        let job = fixture.begin();
        fixture.join();
        assert!(!fixture.ev.set_idle(job) && !fixture.ev.is_idle(job));
        fixture.turn();
        assert!(!fixture.ev.stats().listening);
    }
}

#[test]
fn an_idle_connection_gets_its_steps_and_stays_idle() {
    let mut fixture = Fixture::new();
    let token = fixture.join_idle();
    fixture.report_readable(&[token]);
    assert_eq!(fixture.turn(), [readable(token)]);
    assert!(fixture.ev.is_idle(token));
}
