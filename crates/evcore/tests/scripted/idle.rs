//! Who is idle, and whom of them the loop names when places are short.

use std::time::Duration;

use evcore::{Ready, balancer::Policy};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

const ZERO: Option<Duration> = Some(Duration::ZERO);

fn room_for(connections: u32) -> Stage {
    Stage::built(0, |builder, _| builder.connections(connections))
}

/// Room for so many, one listener, with and without the lock.
fn listening_with_room_for(connections: u32) -> [Stage; 2] {
    [Policy::Off, Policy::mutex()].map(|policy| {
        Stage::built(1, |builder, script| {
            let builder = builder.connections(connections);
            builder.policy(policy).lock(script.clone())
        })
    })
}

#[test]
fn an_eighth_of_the_idle_is_named_the_oldest_first_once_no_more_than_a_sixteenth_is_free() {
    let mut stage = room_for(32);
    let idle: Vec<_> = (0..29).map(|_| stage.join_idle()).collect();
    assert_eq!(stage.turn(), [], "three places are free");
    stage.join();
    let oldest = [0, 1, 2].map(|at| Did::Closing(idle[at]));
    assert_eq!(stage.turn(), oldest, "29 / 8");
    assert_eq!(stage.ev.stats().closing, 3);
    assert_eq!(stage.ev.idle(), 26);
}

#[test]
fn those_who_stay_are_left_in_peace_until_somebody_comes() {
    let mut stage = room_for(32);
    let idle: Vec<_> = (0..30).map(|_| stage.join_idle()).collect();
    assert_eq!(stage.turn().len(), 3);
    stage.script.record();
    assert_eq!(stage.turn(), [], "nobody has come");
    assert_eq!(stage.script.timeouts(), [None], "and it does not hurry");
    stage.join();
    assert_eq!(stage.turn().first(), Some(&Did::Closing(idle[3])));
}

#[test]
fn who_was_of_use_is_the_last_to_be_named_and_who_is_busy_is_not() {
    let mut stage = room_for(4);
    let [a, b, c, d] = [(); 4].map(|()| stage.join_idle());
    assert!(stage.ev.set_busy(b) && !stage.ev.set_busy(b));
    assert!(stage.ev.set_idle(a));
    assert_eq!(
        [a, b, c, d].map(|token| stage.ev.is_idle(token)),
        [true, false, true, true]
    );
    let mut named = Vec::new();
    while stage.ev.idle() > 0 {
        named.extend(stage.turn());
    }
    assert_eq!(named, [c, d, a].map(Did::Closing), "nobody was closed");
}

#[test]
fn while_no_place_is_free_the_next_turn_names_others_and_does_not_wait() {
    let mut stage = room_for(3);
    let [a, b, c] = [(); 3].map(|()| stage.join_idle());
    let named = [a, b, c].map(|token| vec![Did::Closing(token)]);
    assert_eq!([(); 3].map(|()| stage.turn()), named, "as nobody is closed");
    assert_eq!(stage.script.timeouts(), [ZERO; 3]);
    assert_eq!(stage.turn(), []);
    assert_eq!(
        stage.script.timeouts(),
        [None],
        "there is nobody left to name"
    );
}

#[test]
fn a_place_that_is_free_again_is_enough() {
    let mut stage = room_for(3);
    let [a, b, _] = [(); 3].map(|()| stage.join_idle());
    stage.wait();
    assert_eq!(stage.step(), Some(Did::Closing(a)));
    stage.leave(a);
    assert_eq!(stage.rest(), []);
    assert_eq!(stage.turn(), []);
    stage.join();
    assert_eq!(stage.turn(), [Did::Closing(b)]);
}

#[test]
fn who_becomes_idle_when_all_places_are_taken_is_named_in_that_turn() {
    let mut stage = room_for(2);
    let [a, b] = [stage.join(), stage.join()];
    assert_eq!(stage.turn(), [], "both are busy");
    stage.report_readable(&[a, b]);
    stage.wait();
    assert_eq!(stage.step(), Some(readable(a)));
    stage.ev.set_idle(a);
    assert_eq!(stage.rest(), [readable(b), Did::Closing(a)]);
}

#[test]
fn a_full_table_of_idle_connections_makes_room_for_who_waits_in_the_backlog() {
    for mut stage in listening_with_room_for(2) {
        stage.connect(0, 4);
        let (mut living, mut named) = (Vec::new(), Vec::new());
        while stage.accepted.len() < 4 {
            stage.report_listeners(&[0]);
            stage.wait();
            while let Some(did) = stage.step() {
                match did {
                    Did::Accepted(0) => living.push(stage.join_idle()),
                    Did::Closing(token) => {
                        assert!(!stage.script.holds_lock(), "handlers run without it");
                        stage.leave(token);
                        named.push(token);
                    }
                    did => panic!("{did:?}"),
                }
            }
            assert!(stage.ev.is_listening(), "there always was a place again");
        }
        assert_eq!(named, living[..3], "the oldest each time");
        assert_eq!(stage.script.timeouts().len(), 3, "two in the first turn");
    }
}

#[test]
fn where_all_are_busy_who_waits_in_the_backlog_is_accepted_when_one_ends() {
    for mut stage in listening_with_room_for(2) {
        let [a, _] = [stage.join(), stage.join()];
        stage.connect(0, 1);
        assert_eq!(stage.turn(), []);
        assert!(!stage.ev.is_listening());
        stage.leave(a);
        stage.report_listeners(&[0]);
        assert_eq!(stage.turn(), [Did::Accepted(0)]);
    }
}

#[test]
fn the_idle_are_named_last_when_all_that_is_known_has_been_told() {
    for mut stage in listening_with_room_for(4) {
        let [asks, timed, posted, oldest] = [(); 4].map(|()| stage.join());
        for token in [asks, timed, posted, oldest] {
            stage.ev.set_idle(token);
        }
        stage.arm_ms(timed, evcore::Side::Read, 1);
        stage.pass_ms(1);
        stage.ev.post(posted, Ready::READABLE);
        stage.ev.handle().wake();
        stage.report_readable(&[asks]);
        stage.wait();
        while let Some(did) = stage.step() {
            match did {
                Did::Ready(token, _) | Did::Expired(token, _) => {
                    assert!(stage.ev.set_idle(token), "of use, and idle again");
                }
                Did::Woken => {}
                did => assert_eq!(did, Did::Closing(oldest)),
            }
        }
        assert_eq!(stage.ev.stats().closing, 1);
    }
}

#[test]
fn one_for_which_something_is_posted_that_is_over_the_budget_is_passed_over() {
    for put_off in [false, true] {
        let mut stage = Stage::built(0, |builder, _| {
            builder.connections(4).budgets(evcore::Budgets {
                posted: 1,
                ..evcore::Budgets::default()
            })
        });
        let [a, b, c, _] = [(); 4].map(|()| stage.join());
        // 8 idle would name one: so does one.
        for token in [b, c] {
            stage.ev.set_idle(token);
        }
        stage.ev.post(a, Ready::READABLE);
        if put_off {
            stage.ev.post_next(b, Ready::READABLE);
        } else {
            stage.ev.post(b, Ready::READABLE);
        }
        assert_eq!(
            stage.turn(),
            [readable(a)],
            "its turn to be named was spent on b"
        );
        assert!(stage.ev.is_idle(b), "it still is");
        assert_eq!(stage.turn(), [readable(b), Did::Closing(c)]);
        assert_eq!(stage.turn(), [Did::Closing(b)]);
    }
}

#[test]
fn a_turn_that_is_left_before_it_has_named_the_idle_leaves_that_to_the_next_which_does_not_wait() {
    let mut stage = room_for(16);
    let tokens: Vec<_> = (0..16).map(|_| stage.join_idle()).collect();
    stage.ev.post(tokens[15], Ready::READABLE);
    stage.wait();
    assert_eq!(stage.step(), Some(readable(tokens[15])));
    stage.leave(tokens[15]);
    stage.script.record();
    // One place is free: places are short because they were taken, and nobody has looked yet.
    assert_eq!(stage.turn(), [Did::Closing(tokens[0])]);
    assert_eq!(stage.script.timeouts(), [ZERO]);
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.script.timeouts(), [None]);
}

#[test]
fn closing_ends_idleness_and_who_comes_to_the_index_next_is_busy() {
    let mut stage = room_for(2);
    let [first, _] = [stage.join_idle(), stage.join()];
    stage.leave(first);
    let again = stage.join();
    assert_eq!(again.index(), first.index());
    assert!(!stage.ev.is_idle(again) && !stage.ev.is_idle(first));
    assert!(
        !stage.ev.set_idle(first) && !stage.ev.set_busy(first),
        "stale"
    );
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.ev.idle(), 0);
}

#[test]
fn a_token_without_a_descriptor_is_never_idle_for_its_end_would_free_no_place() {
    let mut stage = room_for(1);
    let job = stage.begin();
    stage.join();
    assert!(!stage.ev.set_idle(job) && !stage.ev.is_idle(job));
    assert_eq!(stage.turn(), []);
}

#[test]
fn what_is_idle_gets_its_steps_and_stays_idle_until_told_otherwise() {
    let mut stage = Stage::new();
    let token = stage.join_idle();
    stage.report_readable(&[token]);
    assert_eq!(stage.turn(), [readable(token)]);
    assert!(stage.ev.is_idle(token));
}
