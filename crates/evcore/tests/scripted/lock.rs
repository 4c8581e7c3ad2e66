//! `LeastLoaded` without exclusive wake-ups: workers near the lowest load share the accept lock.

use std::time::Duration;

use evcore::{
    Ready, Timer,
    balancer::{Leader, Policy},
};

use crate::{
    fake_backend::Recorded,
    fake_member::{Call, FakeMember, other},
    fixture::{Fixture, readable},
};

/// A worker with a hundred slots that got the lock in its first turn. It listens, and has released
/// the lock after the wait.
fn holding() -> (Fixture, FakeMember) {
    let member = FakeMember::new();
    let mut fixture = Fixture::built(1, |builder, backend| {
        let member = member.clone().with_lock(backend);
        let builder = builder.connections(100).group(member);
        builder.policy(Policy::least_loaded())
    });
    member.show(Leader::None, Some(0));
    fixture.turn();
    assert!(fixture.ev.stats().listening && !fixture.backend.holds_lock());
    fixture.backend.record();
    (fixture, member)
}

/// A worker that had too many connections for the policy, has handed over the lock, and does not
/// listen.
fn away() -> (Fixture, FakeMember) {
    let (mut fixture, member) = holding();
    for _ in 0..5 {
        fixture.join();
    }
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    assert_eq!(member.calls(), [Call::Notify(other())]);
    fixture.backend.record();
    (fixture, member)
}

#[test]
fn the_lock_is_released_before_handlers_run() {
    let (mut fixture, _member) = holding();
    let [event, timer] = [fixture.join(), fixture.join()];
    fixture.arm_ms(timer, Timer::READ, 5);
    fixture.pass_ms(5);
    fixture.connect(0, 1);
    let fds = [fixture.fd(event), fixture.listener_fd(0)];
    let events = fds.map(|fd| (fd, Ready::READABLE));
    fixture.backend.report(events.to_vec());
    fixture.backend.record();
    fixture.turn();
    let record = fixture.backend.record();
    assert_eq!(record[0], Recorded::TryLock(true));
    let after_the_wait = [
        Recorded::Accepted(0),
        Recorded::Unlock,
        Recorded::Expired(timer, Timer::READ),
        readable(event),
    ];
    assert_eq!(record[2..], after_the_wait);
}

#[test]
fn without_a_client_the_lock_is_released_at_once() {
    let (mut fixture, _member) = holding();
    let [event, timer] = [fixture.join(), fixture.join()];
    fixture.arm_ms(timer, Timer::READ, 5);
    fixture.pass_ms(5);
    fixture.report_readable(&[event]);
    fixture.backend.record();
    fixture.turn();
    let record = fixture.backend.record();
    assert_eq!(record[0], Recorded::TryLock(true));
    let after_the_wait = [
        Recorded::Unlock,
        readable(event),
        Recorded::Expired(timer, Timer::READ),
    ];
    assert_eq!(record[2..], after_the_wait);
    assert_eq!(fixture.ev.stats().posted, 0);
}

#[test]
fn the_holder_of_the_lock_does_not_become_leader() {
    let (mut fixture, member) = holding();
    fixture.join();
    fixture.turn();
    assert_eq!(member.calls(), []);
}

#[test]
fn above_the_limit_the_lock_is_handed_over_without_a_try() {
    let (mut fixture, member) = holding();
    for _ in 0..5 {
        fixture.join();
    }
    fixture.turn();
    assert!(!fixture.ev.stats().listening && !fixture.backend.watches(fixture.listener_fd(0)));
    assert_eq!(member.calls(), [Call::Notify(other())]);
    let is_attempt = |recorded: &Recorded| matches!(recorded, Recorded::TryLock(_));
    assert!(!fixture.backend.record().iter().any(is_attempt));
    fixture.turn();
    assert_eq!(member.calls(), [], "the other is notified once");
}

#[test]
fn a_notified_worker_tries_the_lock_whatever_its_load() {
    for is_free in [true, false] {
        let (mut fixture, member) = away();
        fixture.backend.set_lock_free(is_free);
        member.set_notified(true);
        fixture.turn();
        assert_eq!(fixture.ev.stats().listening, is_free);
        assert_eq!(fixture.backend.record()[0], Recorded::TryLock(is_free));
    }
}

#[test]
fn a_notification_during_the_wait_is_answered_in_the_next_turn() {
    let (mut fixture, member) = away();
    fixture
        .backend
        .report(vec![(member.notifier_fd(), Ready::READABLE)]);
    fixture.wait();
    member.set_notified(true);
    assert_eq!(fixture.rest(), []);
    fixture.turn();
    assert!(fixture.ev.stats().listening);
}

#[test]
fn shutting_down_releases_the_lock_and_notifies_another() {
    let (mut fixture, member) = holding();
    fixture.connect(0, 1);
    fixture.report_listeners(&[0]);
    fixture.wait();
    assert!(fixture.backend.holds_lock());
    fixture.ev.shutdown(Duration::from_secs(1));
    assert!(!fixture.backend.holds_lock());
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
    assert_eq!(fixture.rest(), [], "the other worker gets the client");
}
