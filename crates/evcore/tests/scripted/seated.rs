//! What a worker among others does with its listeners, and tells the others.

use std::time::Duration;

use evcore::{
    Budgets, Ready,
    balancer::{Keeper, Policy},
};

use crate::{
    place::{Place, Told},
    script::Did,
    stage::{Stage, readable},
};

/// A worker under `LeastLoaded` that listens, with room for so many.
fn seated(connections: u32) -> (Stage, Place) {
    seated_with(connections, Budgets::default())
}

fn seated_with(connections: u32, budgets: Budgets) -> (Stage, Place) {
    let place = Place::new();
    let mut stage = Stage::built(1, |builder, script| {
        script.make_exclusive();
        let builder = builder.backend(script.clone()).connections(connections);
        let builder = builder.budgets(budgets).seat(place.clone());
        builder.policy(Policy::least_loaded())
    });
    stage.turn();
    assert!(stage.ev.is_listening());
    assert_eq!(place.told(), [Told::Take]);
    (stage, place)
}

/// One that is above the slack, and has left because another keeps.
fn away() -> (Stage, Place) {
    let (mut stage, place) = seated(100);
    for _ in 0..5 {
        stage.join();
    }
    place.show(Keeper::Other, Some(0));
    stage.turn();
    assert!(!stage.ev.is_listening());
    (stage, place)
}

#[test]
fn above_the_slack_a_worker_leaves_only_when_another_keeps() {
    let (mut stage, place) = seated(100);
    for _ in 0..5 {
        stage.join();
    }
    place.show(Keeper::Me, Some(0));
    stage.turn();
    assert!(stage.ev.is_listening(), "it has to");
    assert_eq!(place.told(), [Told::Call(7)]);

    place.show(Keeper::Other, Some(0));
    stage.turn();
    assert!(!stage.ev.is_listening());
    assert_eq!(place.told(), []);
}

#[test]
fn a_called_worker_joins_and_takes_over() {
    let (mut stage, place) = away();
    place.set_called(true);
    stage.turn();
    assert!(stage.ev.is_listening());
    assert_eq!(place.told(), [Told::Take]);
}

#[test]
fn who_joins_takes_over_after_its_listeners_are_registered() {
    let (mut stage, place) = away();
    place.set_called(true);
    place.goes_on_record(&stage.script);
    stage.script.record();
    stage.turn();
    let order = [Did::Add(stage.listener_fd(0)), Did::Told(Told::Take)];
    assert_eq!(stage.script.record()[..2], order);
}

#[test]
fn who_leaves_resigns_before_its_listeners_are_taken_out_and_then_calls() {
    let (mut stage, place) = seated(2);
    stage.join();
    stage.join();
    place.show(Keeper::Me, Some(1));
    place.goes_on_record(&stage.script);
    stage.script.record();
    stage.turn();
    let order = [
        Did::Told(Told::Resign),
        Did::Remove(stage.listener_fd(0)),
        Did::Told(Told::Call(7)),
    ];
    assert_eq!(stage.script.record()[..3], order);
}

#[test]
fn who_becomes_full_calls_another_for_those_it_was_told_of() {
    let (mut stage, place) = seated(2);
    place.show(Keeper::Other, Some(1));
    let token = stage.join_idle();
    stage.join();
    // It is near the others, and offers the place of the idle one.
    stage.report_listeners(&[0]);
    stage.wait();
    assert!(stage.ev.is_listening());
    stage.ev.set_busy(token);
    assert_eq!(stage.rest(), []);
    place.told();

    stage.turn();
    assert!(!stage.ev.is_listening());
    assert_eq!(place.told(), [Told::Call(7)]);
}

#[test]
fn a_registration_that_is_refused_leaves_no_duty_and_calls_another() {
    let (mut stage, place) = away();
    place.set_called(true);
    stage.script.fail_add_after(0);
    stage.turn();
    // In the same turn: while this one sleeps nobody may be listening.
    assert_eq!(place.told(), [Told::Resign, Told::Call(7)]);
    for _ in 0..3 {
        stage.turn();
    }
    assert_eq!(place.told(), []);
    assert_eq!(stage.ev.stats().calls, 1);
}

#[test]
fn one_whose_listeners_are_all_suspended_resigns_and_calls_and_one_with_others_goes_on() {
    for (listeners, goes_on) in [(1, false), (2, true)] {
        let place = Place::new();
        let mut stage = Stage::built(listeners, |builder, script| {
            script.make_exclusive();
            let builder = builder.backend(script.clone()).seat(place.clone());
            builder.policy(Policy::least_loaded())
        });
        stage.turn();
        place.show(Keeper::Me, Some(0));
        stage.break_listener(0);
        stage.report_listeners(&[0]);
        stage.turn();
        place.told();

        stage.turn();
        assert_eq!(stage.ev.is_listening(), goes_on);
        let said: &[_] = if goes_on {
            &[]
        } else {
            &[Told::Resign, Told::Call(7)]
        };
        assert_eq!(place.told(), said);
        stage.pass_ms(500);
        stage.turn();
        assert!(stage.ev.is_listening());
    }
}

#[test]
fn who_closes_its_listeners_passes_a_call_on_once() {
    let (mut stage, place) = away();
    place.set_called(true);
    stage.ev.close_listeners().unwrap();
    stage.turn();
    assert_eq!(place.told(), [Told::Resign, Told::Call(7)]);
    assert_eq!(stage.ev.stats().calls, 1);
}

#[test]
fn a_bell_ends_the_wait_without_a_step_and_the_plan_after_it_answers() {
    let (mut stage, place) = away();

    let before = *stage.ev.stats();
    stage
        .script
        .report(vec![(place.bell_fd(), Ready::READABLE)]);
    stage.wait();
    // It came in the midst of the wait, so the plan before it could not know.
    place.set_called(true);
    assert_eq!(stage.rest(), []);
    assert_eq!(place.told(), [Told::Silence]);
    assert!(!stage.ev.is_listening());
    let after = stage.ev.stats();
    assert_eq!((after.events, after.stale), (before.events + 1, 0));

    stage.turn();
    assert!(stage.ev.is_listening());
    assert_eq!(place.told(), [Told::Take]);
}

#[test]
fn a_full_keeper_resigns_and_calls_another_that_has_a_place() {
    let (mut stage, place) = seated(2);
    stage.join();
    stage.join();
    place.show(Keeper::Me, Some(1));
    stage.script.record();
    stage.turn();
    assert!(!stage.ev.is_listening());
    assert_eq!(place.told(), [Told::Resign, Told::Call(7)]);
    assert_eq!(
        stage.script.timeouts(),
        [None],
        "only its own steps free a place"
    );
    assert_eq!(stage.ev.stats().calls, 1);
    // And once: what it left is now the other's.
    place.show(Keeper::Other, Some(1));
    stage.turn();
    assert_eq!(place.told(), []);
}

#[test]
fn a_full_keeper_resigns_though_nobody_else_has_room_and_joins_at_its_first_free_place() {
    let (mut stage, place) = seated(2);
    let [first, _] = [stage.join(), stage.join()];
    place.show(Keeper::Me, None);
    stage.turn();
    assert!(!stage.ev.is_listening());
    assert_eq!(place.told(), [Told::Resign]);

    place.show(Keeper::Nobody, None);
    stage.leave(first);
    stage.turn();
    assert!(stage.ev.is_listening());
    assert_eq!(place.told(), [Told::Take]);
}

#[test]
fn who_cannot_accept_calls_another_for_those_who_wait() {
    let (mut stage, place) = seated(100);
    place.show(Keeper::Other, Some(0));
    stage.turn();
    stage.break_listener(0);
    stage.report_listeners(&[0]);
    assert_eq!(stage.turn(), []);
    assert_eq!(place.told(), []);
    stage.turn();
    assert!(!stage.ev.is_listening(), "it is suspended");
    assert_eq!(place.told(), [Told::Call(7)]);
}

#[test]
fn who_leaves_after_a_full_batch_calls_another_since_a_client_may_have_been_behind_it() {
    let batch = Budgets {
        batch: 2,
        ..Budgets::default()
    };
    for events in [1, 2] {
        let (mut stage, place) = seated_with(100, batch);
        let tokens = [(); 4].map(|()| stage.join());
        stage.report_readable(&tokens[..events]);
        stage.turn();
        place.told();

        stage.join();
        place.show(Keeper::Other, Some(0));
        stage.turn();
        assert!(!stage.ev.is_listening());
        let is_full = events == 2;
        assert_eq!(place.told(), [Told::Call(7)][..usize::from(is_full)]);
    }
}

#[test]
fn closing_the_listeners_resigns_and_calls_another() {
    let (mut stage, place) = seated(2);
    place.show(Keeper::Nobody, Some(0));
    stage.ev.close_listeners().unwrap();
    assert_eq!(place.told(), [Told::Resign, Told::Call(7)]);
}

#[test]
fn who_shuts_down_calls_another_for_those_of_whom_only_it_was_told() {
    let (mut stage, place) = seated(100);
    let token = stage.join();
    place.show(Keeper::Other, Some(0));
    let (conn, listener) = (stage.fd(token), stage.listener_fd(0));
    let events = [conn, listener].map(|fd| (fd, Ready::READABLE));
    stage.script.report(events.to_vec());
    stage.wait();
    assert_eq!(stage.step(), Some(readable(token)));
    stage.ev.shutdown(Duration::from_secs(1));
    assert_eq!(place.told(), [Told::Resign, Told::Call(7)]);
    assert_eq!(stage.rest(), []);
}

#[test]
fn who_does_not_listen_shuts_down_without_a_call_but_passes_on_the_one_it_got() {
    for is_called in [false, true] {
        let (mut stage, place) = away();
        place.set_called(is_called);
        stage.ev.shutdown(Duration::from_secs(1));
        let expected = [Told::Resign, Told::Call(7)];
        assert_eq!(place.told(), expected[..1 + usize::from(is_called)]);
        assert_eq!(stage.ev.stats().calls, u64::from(is_called));
    }
}

#[test]
fn under_exclusive_the_listener_is_registered_again_after_sixteen_accepts() {
    let mut stage = Stage::built(1, |builder, script| {
        script.make_exclusive();
        let builder = builder.backend(script.clone());
        builder.policy(Policy::exclusive())
    });
    stage.turn();
    stage.connect(0, 16);
    stage.report_listeners(&[0]);
    assert_eq!(stage.turn().len(), 16);
    stage.script.record();
    stage.turn();
    let fd = stage.listener_fd(0);
    let record = stage.script.record();
    assert_eq!(record[..2], [Did::Remove(fd), Did::Add(fd)]);
}
