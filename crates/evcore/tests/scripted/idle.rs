//! Who is idle, and whom of them the loop names when clients wait and places are short.

use evcore::{Budgets, Ready, Timer, Token, balancer::Policy};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

/// Room for so many and one listener, without a lock and with one.
fn room_for(connections: u32) -> [Stage; 2] {
    [Policy::Off, Policy::mutex()].map(|policy| {
        Stage::built(1, |builder, script| {
            let builder = builder.connections(connections);
            builder.policy(policy).group(script.clone())
        })
    })
}

/// A turn that hears of waiting clients; what it does beside taking them.
fn turn_with_clients(stage: &mut Stage) -> Vec<Did> {
    stage.report_listeners(&[0]);
    let mut did = stage.turn();
    did.retain(|did| *did != Did::Accepted(0));
    did
}

#[test]
fn an_eighth_of_the_idle_is_named_where_a_client_finds_no_more_than_a_sixteenth_free() {
    let [mut stage, _] = room_for(32);
    let idle: Vec<_> = (0..29).map(|_| stage.join_idle()).collect();
    stage.connect(0, 1);
    assert_eq!(turn_with_clients(&mut stage), [], "three places were free");
    stage.join();
    stage.connect(0, 1);
    let oldest = [0, 1, 2].map(|at| Did::Evict(idle[at]));
    assert_eq!(turn_with_clients(&mut stage), oldest, "29 / 8");
    assert_eq!(stage.accepted.len(), 2);
    assert_eq!(stage.ev.stats().evictions, 3);
    assert_eq!(stage.ev.status().idle, 26);
}

#[test]
fn nobody_is_named_while_nobody_waits_however_few_places_are_left() {
    for mut stage in room_for(4) {
        let tokens = [(); 4].map(|()| stage.join_idle());
        stage.report_readable(&tokens);
        let mut did = stage.turn();
        did.extend(stage.turn());
        assert_eq!(did, tokens.map(readable));
        assert!(stage.ev.status().listening, "a place can be made");
        assert_eq!(
            stage.script.timeouts().last(),
            Some(&None),
            "it does not hurry"
        );
    }
}

#[test]
fn who_was_of_use_is_the_last_to_be_named_and_who_is_busy_is_not() {
    for mut stage in room_for(4) {
        let tokens @ [a, b, c, d] = [(); 4].map(|()| stage.join_idle());
        assert!(stage.ev.set_busy(b) && !stage.ev.set_busy(b));
        assert!(stage.ev.set_idle(a));
        let idle = tokens.map(|token| stage.ev.is_idle(token));
        assert_eq!(idle, [true, false, true, true]);
        stage.connect(0, 1);
        let mut named = Vec::new();
        while stage.ev.status().idle > 0 {
            named.extend(turn_with_clients(&mut stage));
        }
        assert_eq!(named, [c, d, a].map(Did::Evict), "as nobody is closed");
    }
}

#[test]
fn while_a_client_waits_and_nobody_is_closed_the_next_turns_name_others() {
    for mut stage in room_for(3) {
        let tokens = [(); 3].map(|()| stage.join_idle());
        stage.connect(0, 1);
        for token in tokens {
            assert_eq!(turn_with_clients(&mut stage), [Did::Evict(token)]);
        }
        assert_eq!(stage.turn(), []);
        assert!(!stage.ev.status().listening, "now all are busy");
    }
}

#[test]
fn who_takes_the_last_place_sends_nobody_away_and_lets_the_loop_sleep() {
    for mut stage in room_for(2) {
        let idle = stage.join_idle();
        stage.connect(0, 1);
        stage.report_listeners(&[0]);
        stage.wait();
        assert_eq!(stage.step(), Some(Did::Accepted(0)));
        stage.join();
        assert_eq!(stage.rest(), []);
        stage.script.record();
        assert_eq!(stage.turn(), [], "nobody else waits");
        assert_eq!(stage.script.timeouts(), [None]);
        assert!(stage.ev.status().listening && stage.ev.is_idle(idle));
    }
}

#[test]
fn a_full_table_of_idle_connections_makes_room_for_who_waits_in_the_backlog() {
    for mut stage in room_for(2) {
        stage.connect(0, 4);
        let (mut living, mut named) = (Vec::new(), Vec::new());
        while stage.accepted.len() < 4 {
            stage.report_listeners(&[0]);
            stage.wait();
            while let Some(did) = stage.step() {
                match did {
                    Did::Accepted(0) => living.push(stage.join_idle()),
                    Did::Evict(token) => {
                        assert!(!stage.script.holds_lock(), "handlers run without it");
                        stage.leave(token);
                        named.push(token);
                    }
                    did => panic!("{did:?}"),
                }
                assert!(stage.ev.status().active <= 2);
            }
            assert!(stage.ev.status().listening);
        }
        assert_eq!(
            named,
            living[..2],
            "the oldest each time, and no more than it takes"
        );
    }
}

#[test]
fn where_all_are_busy_a_client_waits_until_one_is_idle() {
    for mut stage in room_for(2) {
        let [a, b] = [stage.join(), stage.join()];
        stage.connect(0, 1);
        assert_eq!(stage.turn(), []);
        assert!(!stage.ev.status().listening);
        stage.report_readable(&[a, b]);
        stage.wait();
        assert_eq!(stage.step(), Some(readable(a)));
        stage.ev.set_idle(a);
        assert_eq!(stage.rest(), [readable(b)]);
        stage.report_listeners(&[0]);
        assert_eq!(stage.turn(), [Did::Evict(a)]);
        stage.leave(a);
        stage.report_listeners(&[0]);
        assert_eq!(stage.turn(), [Did::Accepted(0)]);
    }
}

#[test]
fn who_has_just_come_is_not_sent_away_for_who_came_with_him() {
    for mut stage in room_for(2) {
        stage.join();
        stage.connect(0, 2);
        stage.report_listeners(&[0]);
        stage.wait();
        assert_eq!(stage.step(), Some(Did::Accepted(0)));
        let new = stage.join_idle();
        assert_eq!(stage.rest(), [], "nobody was idle before");
        stage.report_listeners(&[0]);
        assert_eq!(stage.turn(), [Did::Evict(new)], "the other one still waits");
    }
}

#[test]
fn who_takes_the_index_of_one_that_was_chosen_is_not_taken_for_it() {
    for mut stage in room_for(2) {
        let [chosen, _busy] = [stage.join_idle(), stage.join()];
        stage.ev.handle().wake();
        stage.connect(0, 1);
        stage.report_listeners(&[0]);
        stage.wait();
        assert_eq!(stage.step(), Some(Did::Woken));
        stage.leave(chosen);
        let again = stage.join_idle();
        assert_eq!(again.index(), chosen.index());
        assert_eq!(stage.rest(), []);
    }
}

#[test]
fn the_idle_are_named_last_when_all_that_is_known_has_been_told() {
    for mut stage in room_for(5) {
        let [asks, timed, posted, oldest] = [(); 4].map(|()| stage.join_idle());
        stage.join();
        stage.arm_ms(timed, Timer::READ, 1);
        stage.pass_ms(1);
        stage.ev.post(posted, Ready::READABLE);
        stage.ev.handle().wake();
        stage.connect(0, 1);
        stage.script.report(vec![
            (stage.listener_fd(0), Ready::READABLE),
            (stage.fd(asks), Ready::READABLE),
        ]);
        stage.wait();
        let mut named = Vec::new();
        while let Some(did) = stage.step() {
            match did {
                Did::Ready(token, _) | Did::Expired(token, _) => {
                    assert_eq!(named, [], "this was known before");
                    assert!(stage.ev.set_idle(token), "of use, and idle again");
                }
                Did::Evict(token) => named.push(token),
                did => assert_eq!(did, Did::Woken),
            }
        }
        // With the lock, what was reported was told after `asks` had been chosen.
        assert!(named == [oldest] || named.is_empty(), "{named:?}");
    }
}

#[test]
fn one_that_was_chosen_and_then_was_of_use_is_not_named() {
    for mut stage in room_for(3) {
        let [chosen, other, _busy] = [stage.join_idle(), stage.join_idle(), stage.join()];
        stage.ev.handle().wake();
        stage.connect(0, 1);
        stage.report_listeners(&[0]);
        stage.wait();
        assert_eq!(stage.step(), Some(Did::Woken));
        stage.ev.set_idle(chosen);
        assert_eq!(stage.rest(), []);
        assert_eq!(turn_with_clients(&mut stage), [Did::Evict(other)]);
    }
}

#[test]
fn one_for_which_something_is_posted_that_is_over_the_budget_is_passed_over() {
    for put_off in [false, true] {
        let mut stage = Stage::built(1, |builder, _| {
            builder.connections(3).budgets(Budgets {
                posted: 1,
                ..Budgets::default()
            })
        });
        let [a, b, c] = [stage.join(), stage.join_idle(), stage.join_idle()];
        let post = |stage: &mut Stage, token: Token| match put_off {
            false => stage.ev.post(token, Ready::READABLE),
            true => stage.ev.post_next(token, Ready::READABLE),
        };
        stage.ev.post(a, Ready::READABLE);
        post(&mut stage, b);
        if put_off {
            // Else it would be due when the turn begins.
            stage.ev.post_next(a, Ready::READABLE);
        }
        stage.connect(0, 1);
        stage.report_listeners(&[0]);
        assert_eq!(stage.turn(), [readable(a)], "b was chosen, and has news");
        assert!(stage.ev.is_idle(b));
        assert_eq!(turn_with_clients(&mut stage), [readable(b), Did::Evict(c)]);
    }
}

#[test]
fn a_turn_that_is_left_before_it_has_named_anybody_leaves_that_to_the_next() {
    for mut stage in room_for(2) {
        let [a, b] = [stage.join_idle(), stage.join_idle()];
        stage.ev.post(b, Ready::READABLE);
        stage.connect(0, 1);
        stage.report_listeners(&[0]);
        stage.wait();
        assert_eq!(stage.step(), Some(readable(b)));
        assert_eq!(turn_with_clients(&mut stage), [Did::Evict(a)]);
    }
}

#[test]
fn closing_ends_idleness_and_who_comes_to_the_index_next_is_busy() {
    for mut stage in room_for(2) {
        let [first, _] = [stage.join_idle(), stage.join()];
        stage.leave(first);
        let again = stage.join();
        assert_eq!(again.index(), first.index());
        assert!(!stage.ev.is_idle(again) && !stage.ev.is_idle(first));
        assert!(
            !stage.ev.set_idle(first) && !stage.ev.set_busy(first),
            "stale"
        );
        assert_eq!(stage.ev.status().idle, 0);
        stage.turn();
        assert!(!stage.ev.status().listening, "nobody would leave a place");
    }
}

#[test]
fn a_token_without_a_descriptor_is_never_idle_for_its_end_would_free_no_place() {
    for mut stage in room_for(1) {
        let job = stage.begin();
        stage.join();
        assert!(!stage.ev.set_idle(job) && !stage.ev.is_idle(job));
        stage.turn();
        assert!(!stage.ev.status().listening);
    }
}

#[test]
fn what_is_idle_gets_its_steps_and_stays_idle_until_told_otherwise() {
    let mut stage = Stage::new();
    let token = stage.join_idle();
    stage.report_readable(&[token]);
    assert_eq!(stage.turn(), [readable(token)]);
    assert!(stage.ev.is_idle(token));
}
