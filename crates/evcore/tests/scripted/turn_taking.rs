//! `LeastLoaded` where the kernel has no exclusive wake-ups: workers near the least load share the
//! lock.

use std::time::Duration;

use evcore::{
    Ready, Timer,
    balancer::{Leader, Policy},
};

use crate::{
    fake_member::{Call, FakeMember, other},
    script::Did,
    stage::{Stage, readable},
};

/// A worker that has the lock, and a hundred places.
fn holding() -> (Stage, FakeMember) {
    let member = FakeMember::new();
    let mut stage = Stage::built(1, |builder, script| {
        let member = member.clone().with_lock(script);
        let builder = builder.connections(100).group(member);
        builder.policy(Policy::least_loaded())
    });
    member.show(Leader::None, Some(0));
    stage.turn();
    assert!(stage.ev.status().listening && !stage.script.holds_lock());
    stage.script.record();
    (stage, member)
}

/// A worker that was above the limit, has handed the lock over and is away.
fn away() -> (Stage, FakeMember) {
    let (mut stage, member) = holding();
    for _ in 0..5 {
        stage.join();
    }
    stage.turn();
    assert!(!stage.ev.status().listening);
    assert_eq!(member.calls(), [Call::Notify(other())]);
    stage.script.record();
    (stage, member)
}

#[test]
fn the_holder_accepts_and_releases_the_lock_before_its_handlers_run() {
    let (mut stage, _member) = holding();
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
fn the_holder_of_the_lock_does_not_become_leader() {
    let (mut stage, member) = holding();
    stage.join();
    stage.turn();
    assert_eq!(member.calls(), []);
}

#[test]
fn above_the_limit_the_lock_is_handed_over_without_a_try() {
    let (mut stage, member) = holding();
    for _ in 0..5 {
        stage.join();
    }
    stage.turn();
    assert!(!stage.ev.status().listening && !stage.script.watches(stage.listener_fd(0)));
    assert_eq!(member.calls(), [Call::Notify(other())]);
    let asked = |did: &Did| matches!(did, Did::TryLock(_));
    assert!(!stage.script.record().iter().any(asked));
    stage.turn();
    assert_eq!(member.calls(), [], "once");
}

#[test]
fn a_notified_worker_tries_the_lock_whatever_its_load() {
    for is_free in [true, false] {
        let (mut stage, member) = away();
        stage.script.set_lock_free(is_free);
        member.set_notified(true);
        stage.turn();
        assert_eq!(stage.ev.status().listening, is_free);
        assert_eq!(stage.script.record()[0], Did::TryLock(is_free));
    }
}

#[test]
fn a_notification_during_the_wait_is_answered_in_the_next_turn() {
    let (mut stage, member) = away();
    stage
        .script
        .report(vec![(member.notifier_fd(), Ready::READABLE)]);
    stage.wait();
    member.set_notified(true);
    assert_eq!(stage.rest(), []);
    stage.turn();
    assert!(stage.ev.status().listening);
}

#[test]
fn a_holder_that_shuts_down_releases_the_lock_and_notifies_another() {
    let (mut stage, member) = holding();
    stage.connect(0, 1);
    stage.report_listeners(&[0]);
    stage.wait();
    assert!(stage.script.holds_lock());
    stage.ev.shutdown(Duration::from_secs(1));
    assert!(!stage.script.holds_lock());
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
    assert_eq!(stage.rest(), [], "the client is the other's");
}
