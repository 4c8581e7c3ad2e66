//! `LeastLoaded` where the kernel has no exclusive wake-ups: those near the least load share the
//! lock.

use std::time::Duration;

use evcore::{
    Ready, Timer,
    balancer::{Keeper, Policy},
};

use crate::{
    place::{Place, Told},
    script::Did,
    stage::{Stage, readable},
};

/// A worker that has the lock, and room for a hundred.
fn holding() -> (Stage, Place) {
    let place = Place::new();
    let mut stage = Stage::built(1, |builder, script| {
        let builder = builder.connections(100).seat(place.clone());
        let builder = builder.policy(Policy::least_loaded());
        builder.lock(script.clone())
    });
    place.show(Keeper::Nobody, Some(0));
    stage.turn();
    assert!(stage.ev.is_listening() && !stage.script.holds_lock());
    stage.script.record();
    (stage, place)
}

/// A worker that was above the limit, has handed the lock over and is away.
fn away() -> (Stage, Place) {
    let (mut stage, place) = holding();
    for _ in 0..5 {
        stage.join();
    }
    stage.turn();
    assert!(!stage.ev.is_listening());
    assert_eq!(place.told(), [Told::Call(7)]);
    stage.script.record();
    (stage, place)
}

#[test]
fn the_holder_accepts_and_releases_the_lock_before_its_handlers_run() {
    let (mut stage, _place) = holding();
    let [event, timer] = [stage.join(), stage.join()];
    stage.arm_ms(timer, Timer::READ, 5);
    stage.pass_ms(5);
    stage.connect(0, 1);
    let fds = [stage.fd(event), stage.listener_fd(0)];
    let events = fds.map(|fd| (fd, Ready::READABLE));
    stage.script.report(events.to_vec());
    stage.script.record();
    stage.turn();
    let record = stage.script.record();
    assert_eq!(record[0], Did::TryLock(true));
    let after_the_wait = [
        Did::Accepted(0),
        Did::Unlock,
        Did::Expired(timer, Timer::READ),
        readable(event),
    ];
    assert_eq!(record[2..], after_the_wait);
}

#[test]
fn the_holder_keeps_no_duty_that_the_lock_tells_already() {
    let (mut stage, place) = holding();
    stage.join();
    stage.turn();
    assert_eq!(place.told(), []);
}

#[test]
fn above_the_limit_the_lock_is_handed_over_without_being_asked_for() {
    let (mut stage, place) = holding();
    for _ in 0..5 {
        stage.join();
    }
    stage.turn();
    assert!(!stage.ev.is_listening() && !stage.script.watches(stage.listener_fd(0)));
    assert_eq!(place.told(), [Told::Call(7)]);
    let asked = |did: &Did| matches!(did, Did::TryLock(_));
    assert!(!stage.script.record().iter().any(asked));
    stage.turn();
    assert_eq!(place.told(), [], "once");
}

#[test]
fn the_called_one_tries_the_lock_whatever_its_load() {
    for is_free in [true, false] {
        let (mut stage, place) = away();
        stage.script.set_lock_free(is_free);
        place.set_called(true);
        stage.turn();
        assert_eq!(stage.ev.is_listening(), is_free);
        assert_eq!(stage.script.record()[0], Did::TryLock(is_free));
    }
}

#[test]
fn a_call_that_comes_by_the_bell_is_answered_in_the_next_turn() {
    let (mut stage, place) = away();
    stage
        .script
        .report(vec![(place.bell_fd(), Ready::READABLE)]);
    stage.wait();
    place.set_called(true);
    assert_eq!(stage.rest(), []);
    stage.turn();
    assert!(stage.ev.is_listening());
}

#[test]
fn a_holder_that_shuts_down_releases_the_lock_and_calls_another() {
    let (mut stage, place) = holding();
    stage.connect(0, 1);
    stage.report_listeners(&[0]);
    stage.wait();
    assert!(stage.script.holds_lock());
    stage.ev.shutdown(Duration::from_secs(1));
    assert!(!stage.script.holds_lock());
    assert_eq!(place.told(), [Told::Resign, Told::Call(7)]);
    assert_eq!(stage.rest(), [], "the client is the other's");
}
