//! What a member of a group does with its listeners, and what it does to the group.

use std::time::Duration;

use evcore::{
    Budgets, Ready,
    balancer::{Leader, Policy},
};

use crate::{
    fake_member::{Call, FakeMember, other},
    script::Did,
    stage::{Stage, readable},
};

/// A worker under `LeastLoaded` that listens, with this many places.
fn grouped(connections: u32) -> (Stage, FakeMember) {
    grouped_with(connections, Budgets::default())
}

fn grouped_with(connections: u32, budgets: Budgets) -> (Stage, FakeMember) {
    let member = FakeMember::new();
    let mut stage = Stage::built(1, |builder, script| {
        script.make_exclusive();
        let builder = builder.backend(script.clone()).connections(connections);
        let builder = builder.budgets(budgets).group(member.clone());
        builder.policy(Policy::least_loaded())
    });
    stage.turn();
    assert!(stage.ev.status().listening);
    assert_eq!(member.calls(), [Call::Lead]);
    (stage, member)
}

/// A worker above the slack that has stopped because another leads.
fn away() -> (Stage, FakeMember) {
    let (mut stage, member) = grouped(100);
    for _ in 0..5 {
        stage.join();
    }
    member.show(Leader::Other, Some(0));
    stage.turn();
    assert!(!stage.ev.status().listening);
    (stage, member)
}

#[test]
fn above_the_slack_a_worker_stops_only_when_another_leads() {
    let (mut stage, member) = grouped(100);
    for _ in 0..5 {
        stage.join();
    }
    member.show(Leader::Me, Some(0));
    stage.turn();
    assert!(stage.ev.status().listening, "it has to");
    assert_eq!(member.calls(), [Call::Notify(other())]);

    member.show(Leader::Other, Some(0));
    stage.turn();
    assert!(!stage.ev.status().listening);
    assert_eq!(member.calls(), []);
}

#[test]
fn a_notified_worker_listens_and_leads() {
    let (mut stage, member) = away();
    member.set_notified(true);
    stage.turn();
    assert!(stage.ev.status().listening);
    assert_eq!(member.calls(), [Call::Lead]);
}

#[test]
fn a_worker_leads_after_its_listeners_are_registered() {
    let (mut stage, member) = away();
    member.set_notified(true);
    member.record_in(&stage.script);
    stage.script.record();
    stage.turn();
    let order = [Did::Add(stage.listener_fd(0)), Did::Member(Call::Lead)];
    assert_eq!(stage.script.record()[..2], order);
}

#[test]
fn a_leader_steps_down_then_deregisters_then_notifies() {
    let (mut stage, member) = grouped(2);
    stage.join();
    stage.join();
    member.show(Leader::Me, Some(1));
    member.record_in(&stage.script);
    stage.script.record();
    stage.turn();
    let order = [
        Did::Member(Call::StepDown),
        Did::Remove(stage.listener_fd(0)),
        Did::Member(Call::Notify(other())),
    ];
    assert_eq!(stage.script.record()[..3], order);
}

#[test]
fn a_worker_that_becomes_full_notifies_another_for_known_clients() {
    let (mut stage, member) = grouped(2);
    member.show(Leader::Other, Some(1));
    let token = stage.join_idle();
    stage.join();
    // Its load is near the others', and it offers the place of the idle connection.
    stage.report_listeners(&[0]);
    stage.wait();
    assert!(stage.ev.status().listening);
    stage.ev.set_busy(token);
    assert_eq!(stage.rest(), []);
    member.calls();

    stage.turn();
    assert!(!stage.ev.status().listening);
    assert_eq!(member.calls(), [Call::Notify(other())]);
}

#[test]
fn a_refused_registration_steps_down_and_notifies_another() {
    let (mut stage, member) = away();
    member.set_notified(true);
    stage.script.fail_add_after(0);
    stage.turn();
    // In the same turn: while this worker sleeps no other may be listening.
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
    for _ in 0..3 {
        stage.turn();
    }
    assert_eq!(member.calls(), []);
    assert_eq!(stage.ev.stats().notifications, 1);
}

#[test]
fn a_worker_steps_down_only_if_all_its_listeners_are_suspended() {
    for (listeners, goes_on) in [(1, false), (2, true)] {
        let member = FakeMember::new();
        let mut stage = Stage::built(listeners, |builder, script| {
            script.make_exclusive();
            let builder = builder.backend(script.clone()).group(member.clone());
            builder.policy(Policy::least_loaded())
        });
        stage.turn();
        member.show(Leader::Me, Some(0));
        stage.break_listener(0);
        stage.report_listeners(&[0]);
        stage.turn();
        member.calls();

        stage.turn();
        assert_eq!(stage.ev.status().listening, goes_on);
        let expected: &[_] = if goes_on {
            &[]
        } else {
            &[Call::StepDown, Call::Notify(other())]
        };
        assert_eq!(member.calls(), expected);
        stage.pass_ms(500);
        stage.turn();
        assert!(stage.ev.status().listening);
    }
}

#[test]
fn closing_the_listeners_passes_a_notification_on_once() {
    let (mut stage, member) = away();
    member.set_notified(true);
    stage.ev.close_listeners().unwrap();
    stage.turn();
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
    assert_eq!(stage.ev.stats().notifications, 1);
}

#[test]
fn a_notification_ends_the_wait_and_the_next_plan_answers_it() {
    let (mut stage, member) = away();

    let before = *stage.ev.stats();
    stage
        .script
        .report(vec![(member.notifier_fd(), Ready::READABLE)]);
    stage.wait();
    // It comes during the wait, after the plan of this turn.
    member.set_notified(true);
    assert_eq!(stage.rest(), []);
    assert_eq!(member.calls(), [Call::ClearNotifier]);
    assert!(!stage.ev.status().listening);
    let after = stage.ev.stats();
    assert_eq!((after.events, after.stale), (before.events + 1, 0));

    stage.turn();
    assert!(stage.ev.status().listening);
    assert_eq!(member.calls(), [Call::Lead]);
}

#[test]
fn a_full_leader_steps_down_and_notifies_one_with_a_free_place() {
    let (mut stage, member) = grouped(2);
    stage.join();
    stage.join();
    member.show(Leader::Me, Some(1));
    stage.script.record();
    stage.turn();
    assert!(!stage.ev.status().listening);
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
    assert_eq!(
        stage.script.timeouts(),
        [None],
        "only its own steps free a place"
    );
    assert_eq!(stage.ev.stats().notifications, 1);
    // Once only: the other worker looks after the clients now.
    member.show(Leader::Other, Some(1));
    stage.turn();
    assert_eq!(member.calls(), []);
}

#[test]
fn a_full_leader_steps_down_and_leads_again_at_its_first_free_place() {
    let (mut stage, member) = grouped(2);
    let [first, _] = [stage.join(), stage.join()];
    member.show(Leader::Me, None);
    stage.turn();
    assert!(!stage.ev.status().listening);
    assert_eq!(member.calls(), [Call::StepDown]);

    member.show(Leader::None, None);
    stage.leave(first);
    stage.turn();
    assert!(stage.ev.status().listening);
    assert_eq!(member.calls(), [Call::Lead]);
}

#[test]
fn a_worker_that_cannot_accept_notifies_another() {
    let (mut stage, member) = grouped(100);
    member.show(Leader::Other, Some(0));
    stage.turn();
    stage.break_listener(0);
    stage.report_listeners(&[0]);
    assert_eq!(stage.turn(), []);
    assert_eq!(member.calls(), []);
    stage.turn();
    assert!(!stage.ev.status().listening, "it is suspended");
    assert_eq!(member.calls(), [Call::Notify(other())]);
}

#[test]
fn a_worker_that_stops_after_a_full_batch_notifies_another() {
    let batch = Budgets {
        batch: 2,
        ..Budgets::default()
    };
    for events in [1, 2] {
        let (mut stage, member) = grouped_with(100, batch);
        let tokens = [(); 4].map(|()| stage.join());
        stage.report_readable(&tokens[..events]);
        stage.turn();
        member.calls();

        stage.join();
        member.show(Leader::Other, Some(0));
        stage.turn();
        assert!(!stage.ev.status().listening);
        let is_full = events == 2;
        assert_eq!(
            member.calls(),
            [Call::Notify(other())][..usize::from(is_full)]
        );
    }
}

#[test]
fn closing_the_listeners_steps_down_and_notifies_another() {
    let (mut stage, member) = grouped(2);
    member.show(Leader::None, Some(0));
    stage.ev.close_listeners().unwrap();
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
}

#[test]
fn shutting_down_notifies_another_for_clients_only_this_worker_saw() {
    let (mut stage, member) = grouped(100);
    let token = stage.join();
    member.show(Leader::Other, Some(0));
    let (conn, listener) = (stage.fd(token), stage.listener_fd(0));
    let events = [conn, listener].map(|fd| (fd, Ready::READABLE));
    stage.script.report(events.to_vec());
    stage.wait();
    assert_eq!(stage.step(), Some(readable(token)));
    stage.ev.shutdown(Duration::from_secs(1));
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
    assert_eq!(stage.rest(), []);
}

#[test]
fn without_listeners_shutting_down_only_passes_a_notification_on() {
    for is_notified in [false, true] {
        let (mut stage, member) = away();
        member.set_notified(is_notified);
        stage.ev.shutdown(Duration::from_secs(1));
        let expected = [Call::StepDown, Call::Notify(other())];
        assert_eq!(member.calls(), expected[..1 + usize::from(is_notified)]);
        assert_eq!(stage.ev.stats().notifications, u64::from(is_notified));
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

#[test]
fn a_worker_alone_in_its_group_is_woken_for_all_and_sleeps_without_limit() {
    let (mut stage, member) = grouped(100);
    member.show_alone(Leader::Me);
    stage.pass_ms(500);
    stage.script.record();
    stage.turn();
    let fd = stage.listener_fd(0);
    let order = [Did::Remove(fd), Did::Add(fd), Did::Wait(None)];
    assert_eq!(stage.script.record(), order);
    assert!(!stage.script.is_exclusive(fd));

    // Another worker joins, and the next client wakes both.
    member.show(Leader::Other, Some(0));
    stage.script.record();
    stage.turn();
    let delay = Some(Policy::DEFAULT_DELAY);
    let order = [Did::Remove(fd), Did::Add(fd), Did::Wait(delay)];
    assert_eq!(stage.script.record(), order);
    assert!(stage.script.is_exclusive(fd));
}
