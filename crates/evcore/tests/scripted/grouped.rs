//! A worker as a member of a group. With more connections than the least loaded member plus the
//! *slack*, a worker under `LeastLoaded` leaves new clients to others. The *leader* is a member that
//! stops listening only when another member leads, or when its slots are full.

use std::time::Duration;

use evcore::{
    Budgets, Ready,
    balancer::{Leader, Policy},
};

use crate::{
    fake_backend::Recorded,
    fake_member::{Call, FakeMember, other},
    fixture::{Fixture, readable},
};

/// A worker under `LeastLoaded` that listens, with this many slots.
fn grouped(connections: u32) -> (Fixture, FakeMember) {
    grouped_with(connections, Budgets::default())
}

fn grouped_with(connections: u32, budgets: Budgets) -> (Fixture, FakeMember) {
    let member = FakeMember::new();
    let mut fixture = Fixture::built(1, |builder, backend| {
        backend.make_exclusive();
        let builder = builder.backend(backend.clone()).connections(connections);
        let builder = builder.budgets(budgets).group(member.clone());
        builder.policy(Policy::least_loaded())
    });
    fixture.turn();
    assert!(fixture.ev.stats().listening);
    assert_eq!(member.calls(), [Call::Lead]);
    (fixture, member)
}

/// A worker above the slack. It does not listen, because another worker leads.
fn away() -> (Fixture, FakeMember) {
    away_with(Budgets::default())
}

fn away_with(budgets: Budgets) -> (Fixture, FakeMember) {
    let (mut fixture, member) = grouped_with(100, budgets);
    for _ in 0..5 {
        fixture.join();
    }
    member.show(Leader::Other, Some(0));
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    (fixture, member)
}

/// Lets another worker notify this one, and makes a turn that sees it.
fn notify(fixture: &mut Fixture, member: &FakeMember) {
    member.set_notified(true);
    report_notifier(fixture, member, Ready::READABLE);
    fixture.turn();
    assert_eq!(member.calls(), [Call::ClearNotifier]);
}

fn report_notifier(fixture: &Fixture, member: &FakeMember, ready: Ready) {
    fixture.backend.report(vec![(member.notifier_fd(), ready)]);
}

#[test]
fn above_the_slack_a_worker_stops_only_when_another_leads() {
    let (mut fixture, member) = grouped(100);
    for _ in 0..5 {
        fixture.join();
    }
    member.show(Leader::Me, Some(0));
    fixture.turn();
    assert!(fixture.ev.stats().listening, "the leader must listen");
    assert_eq!(member.calls(), [Call::Notify(other())]);

    member.show(Leader::Other, Some(0));
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    assert_eq!(member.calls(), []);
}

#[test]
fn a_leader_leaves_clients_to_the_worker_it_has_notified() {
    let (mut fixture, member) = grouped(100);
    for _ in 0..5 {
        fixture.join();
    }
    member.show(Leader::Me, Some(0));
    fixture.connect(0, 20);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), [Recorded::Accepted(0)]);
    assert_eq!(member.calls(), [Call::Notify(other())]);

    // The new registration reports the waiting clients once. No turn spins.
    let fd = fixture.listener_fd(0);
    fixture.backend.record();
    for wait_ms in [2, 1] {
        fixture.report_listeners(&[0]);
        assert_eq!(fixture.turn(), []);
        assert!(fixture.ev.stats().listening && fixture.backend.is_edge_triggered(fd));
        let waits = fixture.backend.timeouts();
        assert_eq!(waits, [Some(Duration::from_millis(wait_ms))]);
        fixture.pass_ms(1);
    }

    // The other worker has not answered.
    member.show(Leader::Me, None);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn().len(), 3);
    assert!(!fixture.backend.is_edge_triggered(fd));
    assert_eq!(fixture.turn(), []);
    assert!(fixture.backend.is_edge_triggered(fd));
    assert_eq!(member.calls(), []);
}

#[test]
fn a_notified_worker_listens_and_leads() {
    let (mut fixture, member) = away();
    notify(&mut fixture, &member);
    fixture.turn();
    assert!(fixture.ev.stats().listening);
    assert_eq!(member.calls(), [Call::Lead]);
}

#[test]
fn a_worker_leads_after_its_listeners_are_registered() {
    let (mut fixture, member) = away();
    notify(&mut fixture, &member);
    member.record_in(&fixture.backend);
    fixture.backend.record();
    fixture.turn();
    let order = [
        Recorded::Add(fixture.listener_fd(0)),
        Recorded::Member(Call::Lead),
    ];
    assert_eq!(fixture.backend.record()[..2], order);
}

#[test]
fn a_leader_steps_down_then_deregisters_then_notifies() {
    let (mut fixture, member) = grouped(2);
    fixture.join();
    fixture.join();
    member.show(Leader::Me, Some(1));
    member.record_in(&fixture.backend);
    fixture.backend.record();
    fixture.turn();
    let order = [
        Recorded::Member(Call::StepDown),
        Recorded::Remove(fixture.listener_fd(0)),
        Recorded::Member(Call::Notify(other())),
    ];
    assert_eq!(fixture.backend.record()[..3], order);
}

#[test]
fn becoming_full_notifies_another_for_known_clients() {
    let (mut fixture, member) = grouped(2);
    member.show(Leader::Other, Some(1));
    let token = fixture.join_idle();
    fixture.join();
    // The worker goes on listening, because its load is near that of the other one, and an idle
    // connection counts as a free slot.
    fixture.report_listeners(&[0]);
    fixture.wait();
    assert!(fixture.ev.stats().listening);
    fixture.ev.set_busy(token);
    assert_eq!(fixture.rest(), []);
    member.calls();

    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    assert_eq!(member.calls(), [Call::Notify(other())]);
}

#[test]
fn a_refused_registration_steps_down_and_notifies_another() {
    let (mut fixture, member) = away();
    notify(&mut fixture, &member);
    fixture.backend.fail_add_after(0);
    fixture.turn();
    // The worker notifies another one in the same turn, so that not all sleep without listening.
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
    for _ in 0..3 {
        fixture.turn();
    }
    assert_eq!(member.calls(), []);
    assert_eq!(fixture.ev.stats().notifications, 1);
}

#[test]
fn a_worker_steps_down_only_if_all_its_listeners_are_suspended() {
    for (listeners, goes_on) in [(1, false), (2, true)] {
        let member = FakeMember::new();
        let mut fixture = Fixture::built(listeners, |builder, backend| {
            backend.make_exclusive();
            let builder = builder.backend(backend.clone()).group(member.clone());
            builder.policy(Policy::least_loaded())
        });
        fixture.turn();
        member.show(Leader::Me, Some(0));
        fixture.break_listener(0);
        fixture.report_listeners(&[0]);
        fixture.turn();
        member.calls();

        fixture.turn();
        assert_eq!(fixture.ev.stats().listening, goes_on);
        let expected: &[_] = if goes_on {
            &[]
        } else {
            &[Call::StepDown, Call::Notify(other())]
        };
        assert_eq!(member.calls(), expected);
        fixture.pass_ms(500);
        fixture.turn();
        assert!(fixture.ev.stats().listening);
    }
}

#[test]
fn closing_the_listeners_passes_a_notification_on_once() {
    let (mut fixture, member) = away();
    member.set_notified(true);
    fixture.ev.listeners().close().unwrap();
    fixture.turn();
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
    assert_eq!(fixture.ev.stats().notifications, 1);
}

#[test]
fn a_notification_ends_the_wait_and_the_next_plan_answers_it() {
    let (mut fixture, member) = away();

    let before = fixture.ev.stats();
    report_notifier(&fixture, &member, Ready::READABLE);
    fixture.wait();
    // The notification comes during the wait, after the plan of this turn.
    member.set_notified(true);
    assert_eq!(fixture.rest(), []);
    assert_eq!(member.calls(), [Call::ClearNotifier]);
    assert!(!fixture.ev.stats().listening);
    let after = fixture.ev.stats();
    assert_eq!((after.events, after.stale), (before.events + 1, 0));

    fixture.turn();
    assert!(fixture.ev.stats().listening);
    assert_eq!(member.calls(), [Call::Lead]);
}

#[test]
fn with_a_watched_notifier_no_turn_looks_for_a_notification() {
    let (mut fixture, member) = away();
    fixture.turn();
    member.looks();
    for _ in 0..3 {
        fixture.turn();
    }
    assert_eq!(member.looks(), 0);
}

#[test]
fn a_notification_whose_event_is_left_out_is_answered() {
    let one = Budgets {
        batch: 1,
        ..Budgets::default()
    };
    let (mut fixture, member) = away_with(one);
    let token = fixture.join();
    fixture.turn();
    assert!(!fixture.ev.stats().listening);

    // The batch has no place for the event of the notifier.
    let events = vec![(fixture.fd(token), Ready::READABLE)];
    fixture.backend.report(events);
    member.set_notified(true);
    assert_eq!(fixture.turn(), [readable(token)]);
    fixture.turn();
    assert!(fixture.ev.stats().listening);
    assert_eq!(member.calls(), [Call::Lead]);
}

#[test]
fn without_a_watched_notifier_turns_look_for_a_notification() {
    let (mut fixture, member) = away();
    // The kernel has refused to watch the notifier.
    report_notifier(&fixture, &member, Ready::ERROR);
    fixture.turn();
    assert_eq!(member.calls(), [Call::ClearNotifier]);
    fixture.turn();
    assert!(!fixture.ev.stats().listening);

    member.set_notified(true);
    fixture.turn();
    assert!(fixture.ev.stats().listening);
    assert_eq!(member.calls(), [Call::Lead]);
}

#[test]
fn a_full_leader_steps_down_and_notifies_a_worker_with_room() {
    let (mut fixture, member) = grouped(2);
    fixture.join();
    fixture.join();
    member.show(Leader::Me, Some(1));
    fixture.backend.record();
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
    assert_eq!(
        fixture.backend.timeouts(),
        [None],
        "the wait has no limit, because only this worker's own steps can free a slot"
    );
    assert_eq!(fixture.ev.stats().notifications, 1);
    // The worker notifies only once, because the other worker now serves the clients.
    member.show(Leader::Other, Some(1));
    fixture.turn();
    assert_eq!(member.calls(), []);
}

#[test]
fn a_full_leader_steps_down_until_its_first_free_slot() {
    let (mut fixture, member) = grouped(2);
    let [first, _] = [fixture.join(), fixture.join()];
    member.show(Leader::Me, None);
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    assert_eq!(member.calls(), [Call::StepDown]);

    member.show(Leader::None, None);
    fixture.leave(first);
    fixture.turn();
    assert!(fixture.ev.stats().listening);
    assert_eq!(member.calls(), [Call::Lead]);
}

#[test]
fn a_worker_that_cannot_accept_notifies_another() {
    let (mut fixture, member) = grouped(100);
    member.show(Leader::Other, Some(0));
    fixture.turn();
    fixture.break_listener(0);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), []);
    assert_eq!(member.calls(), []);
    fixture.turn();
    assert!(!fixture.ev.stats().listening, "it is suspended");
    assert_eq!(member.calls(), [Call::Notify(other())]);
}

#[test]
fn a_worker_that_stops_after_a_full_batch_notifies_another() {
    let batch = Budgets {
        batch: 2,
        ..Budgets::default()
    };
    for events in [1, 2] {
        let (mut fixture, member) = grouped_with(100, batch);
        let tokens = [(); 4].map(|()| fixture.join());
        fixture.report_readable(&tokens[..events]);
        fixture.turn();
        member.calls();

        fixture.join();
        member.show(Leader::Other, Some(0));
        fixture.turn();
        assert!(!fixture.ev.stats().listening);
        let is_full = events == 2;
        assert_eq!(
            member.calls(),
            [Call::Notify(other())][..usize::from(is_full)]
        );
    }
}

#[test]
fn closing_the_listeners_steps_down_and_notifies_another() {
    let (mut fixture, member) = grouped(2);
    member.show(Leader::None, Some(0));
    fixture.ev.listeners().close().unwrap();
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
}

#[test]
fn shutting_down_notifies_another_for_unclaimed_clients() {
    let (mut fixture, member) = grouped(100);
    let token = fixture.join();
    member.show(Leader::Other, Some(0));
    let (conn, listener) = (fixture.fd(token), fixture.listener_fd(0));
    let events = [conn, listener].map(|fd| (fd, Ready::READABLE));
    fixture.backend.report(events.to_vec());
    fixture.wait();
    assert_eq!(fixture.step(), Some(readable(token)));
    fixture.ev.shutdown(Duration::from_secs(1));
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
    assert_eq!(fixture.rest(), []);
}

#[test]
fn a_shutdown_while_not_listening_passes_a_notification_on() {
    for is_notified in [false, true] {
        let (mut fixture, member) = away();
        member.set_notified(is_notified);
        fixture.ev.shutdown(Duration::from_secs(1));
        let expected = [Call::StepDown, Call::Notify(other())];
        assert_eq!(member.calls(), expected[..1 + usize::from(is_notified)]);
        assert_eq!(fixture.ev.stats().notifications, u64::from(is_notified));
    }
}

#[test]
fn exclusive_listeners_are_registered_anew_after_16_accepts() {
    let mut fixture = Fixture::built(1, |builder, backend| {
        backend.make_exclusive();
        let builder = builder.backend(backend.clone());
        builder.policy(Policy::exclusive())
    });
    fixture.turn();
    fixture.connect(0, 16);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn().len(), 16);
    fixture.backend.record();
    fixture.turn();
    let fd = fixture.listener_fd(0);
    let record = fixture.backend.record();
    assert_eq!(record[..2], [Recorded::Remove(fd), Recorded::Add(fd)]);
}

#[test]
fn a_worker_alone_in_its_group_sleeps_without_limit() {
    let (mut fixture, member) = grouped(100);
    member.show_alone(Leader::Me);
    fixture.pass_ms(500);
    fixture.backend.record();
    fixture.turn();
    let fd = fixture.listener_fd(0);
    let order = [
        Recorded::Remove(fd),
        Recorded::Add(fd),
        Recorded::Wait(None),
    ];
    assert_eq!(fixture.backend.record(), order);
    assert!(!fixture.backend.is_exclusive(fd));

    // Another worker joins, and the next client wakes both.
    member.show(Leader::Other, Some(0));
    fixture.backend.record();
    fixture.turn();
    let delay = Some(Policy::DEFAULT_DELAY);
    let order = [
        Recorded::Remove(fd),
        Recorded::Add(fd),
        Recorded::Wait(delay),
    ];
    assert_eq!(fixture.backend.record(), order);
    assert!(fixture.backend.is_exclusive(fd));
}

#[test]
fn a_full_worker_notifies_once_in_all_the_turns_that_it_serves() {
    let (mut fixture, member) = grouped(2);
    let served = fixture.join();
    fixture.join();
    member.show(Leader::None, Some(0));
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    assert_eq!(member.calls().last(), Some(&Call::Notify(other())));
    for _ in 0..3 {
        fixture.report_readable(&[served]);
        assert_eq!(fixture.turn(), [readable(served)]);
        assert_eq!(member.calls(), []);
    }
    // An idle connection counts as a free slot.
    fixture.ev.set_idle(served);
    fixture.turn();
    assert!(fixture.ev.stats().listening);
}

#[test]
fn a_worker_whose_listeners_are_suspended_notifies_once() {
    let (mut fixture, member) = grouped(100);
    let served = fixture.join();
    member.show(Leader::None, Some(0));
    fixture.break_listener(0);
    fixture.report_listeners(&[0]);
    fixture.turn();
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    assert_eq!(member.calls().last(), Some(&Call::Notify(other())));
    for _ in 0..3 {
        fixture.pass_ms(9); // a longer handler would make the worker late
        fixture.report_readable(&[served]);
        assert_eq!(fixture.turn(), [readable(served)]);
        assert_eq!(member.calls(), []);
    }
    fixture.pass_ms(500 - 3 * 9);
    fixture.turn();
    assert!(fixture.ev.stats().listening, "the suspension is over");
}

#[test]
fn a_worker_that_pauses_steps_down_and_notifies_another() {
    let (mut fixture, member) = grouped(100);
    member.show(Leader::Me, Some(0));
    fixture.ev.listeners().pause();
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    assert_eq!(member.calls(), [Call::StepDown, Call::Notify(other())]);
}

#[test]
fn a_worker_with_long_handlers_is_late_until_they_are_over() {
    for updates_clock in [false, true] {
        let (mut fixture, member) = grouped(100);
        fixture.rest();
        member.show(Leader::Other, Some(9));
        fixture.turn();
        let mut blocks = |ms: u64| {
            fixture.pass_ms(1);
            fixture.turn();
            for _ in 0..2 {
                fixture.pass_ms(ms / 2);
                if updates_clock {
                    fixture.ev.timers().update_clock();
                }
            }
            fixture.turn();
            member.is_late()
        };
        assert!(!blocks(50), "one long handler");
        assert!(blocks(50));
        // The part of a turn before an update of the clock counts for that turn only.
        let short_turns = (0..100).take_while(|_| blocks(8)).count();
        assert!((70..100).contains(&short_turns), "{short_turns}");
    }
}

#[test]
fn a_sleep_between_two_prepares_is_not_a_long_turn() {
    let (mut fixture, member) = grouped(100);
    fixture.rest();
    member.show(Leader::Other, Some(9));
    fixture.turn();
    for _ in 0..9 {
        // The outer loop sleeps, and wakes for an event of its own.
        fixture.ev.prepare().unwrap();
        fixture.pass_ms(60);
    }
    assert!(!member.is_late());
    // Later turns count again, even after a wait that was only prepared.
    for _ in 0..2 {
        fixture.turn();
        fixture.pass_ms(60);
        assert!(!member.is_late());
    }
    fixture.turn();
    assert!(member.is_late());
}

#[test]
fn a_worker_of_a_quiet_group_sleeps_until_a_client_comes() {
    let (mut fixture, member) = grouped(100);
    member.show(Leader::Me, None);
    member.quieten();
    while fixture.ev.prepare().unwrap().timeout.is_some() {
        fixture.pass_ms(500);
        assert_eq!(fixture.turn(), []);
    }
    assert!(member.calls().contains(&Call::Rest(true)));
    let fd = fixture.listener_fd(0);
    assert!(fixture.ev.stats().listening && !fixture.backend.is_exclusive(fd));

    fixture.connect(0, 1);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), [Recorded::Accepted(0)]);
    assert!(fixture.ev.prepare().unwrap().timeout.is_some());
    assert!(fixture.backend.is_exclusive(fd));
    assert_eq!(member.calls(), [Call::Rest(false)]);
}

#[test]
fn a_resting_worker_above_the_slack_leaves_the_client_and_does_not_spin() {
    let (mut fixture, member) = away();
    member.quieten();
    while !member.calls().contains(&Call::Rest(true)) {
        fixture.pass_ms(500);
        fixture.turn();
    }
    fixture.connect(0, 1);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), [], "it leaves the client to the others");
    assert_eq!(fixture.turn(), [], "it does not spin");
    assert!(!fixture.ev.stats().listening);
    assert_eq!(member.calls(), [Call::Rest(false)]);

    // No other worker has accepted the client.
    fixture.pass_ms(500);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), [Recorded::Accepted(0)]);
}
