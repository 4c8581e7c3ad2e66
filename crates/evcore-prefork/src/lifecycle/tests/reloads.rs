//! Reloads: the new workers take over from the old ones, refuse, or find no free row of slots.

use super::*;

#[test]
fn a_reload_stops_the_old_once_all_new_workers_are_ready() {
    let mut server = Fixture::reloading(2);
    server.ready(1, 1);
    server.waits_for_a_time();
    server.ready(1, 2);
    server.ends_reload(0);
    server.end_all(0, 2);
    server.waits();
}

#[test]
fn silent_new_workers_take_over_at_the_ready_timeout() {
    let mut server = Fixture::reloading(2);
    server.waits_for(TIMEOUTS.ready);
    server.ends_reload(0);
}

#[test]
fn workers_of_both_generations_are_replaced_during_a_reload() {
    let mut server = Fixture::reloading(2);
    server.ready(1, 1);
    server.now += Duration::from_secs(2);
    server.end(0, 1);
    server.end(1, 1);
    for row in [0, 1] {
        let slot = Slot { row, index: 1 };
        assert_eq!(server.next(), Action::Start(slot));
        server.lifecycle.started(slot, server.now);
    }
    server.waits_for(TIMEOUTS.ready);
    assert_eq!(server.next(), Action::Report(Reload::Done));
}

#[test]
fn workers_of_a_retired_generation_are_not_replaced() {
    let mut server = Fixture::reloading(2);
    server.ready(1, 2);
    server.ends_reload(0);
    server.end(0, 0);
    server.waits_for_a_time();
}

#[test]
fn a_new_generation_that_refuses_leaves_the_old_in_place() {
    let mut server = Fixture::reloading(2);
    server.refuse(1, 0);
    server.waits_for_a_time();
    server.refuse(1, 1);
    assert_eq!(server.next(), Action::Report(Reload::Refused));
    server.waits();
    // Workers of the old generation are still replaced.
    server.now += Duration::from_secs(1);
    server.end(0, 0);
    assert_eq!(server.next(), Action::Start(Slot { row: 0, index: 0 }));
}

#[test]
fn the_new_generation_replaces_an_old_one_that_refuses() {
    let mut server = Fixture::reloading(1);
    server.refuse(0, 0);
    server.waits_for_a_time();
    server.ready(1, 1);
    assert_eq!(server.next(), Action::Report(Reload::Done));
    server.waits();
    server.refuse(1, 0);
    assert_eq!(server.next(), Action::Done(Outcome::AllRefused));
}

#[test]
fn a_refusal_is_not_the_end_while_older_workers_finish() {
    let mut server = Fixture::reloading(1);
    server.ready(1, 1);
    server.ends_reload(0);
    server.refuse(1, 0);
    server.waits_for_a_time();
    server.end(0, 0);
    assert_eq!(server.next(), Action::Done(Outcome::AllRefused));
}

#[test]
fn a_second_reload_takes_over_from_both_generations() {
    let mut server = Fixture::reloading(1);
    server.reload(2, 0);
    server.stops(1, Stop::Graceful);
    server.end(0, 0);
    server.end(1, 0);
    server.waits();
}

#[test]
fn a_reload_during_the_start_stops_no_worker_too_early() {
    let mut server = Fixture::with_workers(1);
    server.start(0, 1);
    server.begin_reload(1, 1);
    server.ready(0, 1);
    server.waits_for_a_time();
    server.ready(1, 1);
    server.ends_reload(0);
}

#[test]
fn a_reload_without_a_free_row_waits_for_one() {
    let mut server = Fixture::serving(1);
    for row in 1..GENERATIONS_MAX {
        server.reload(row, row - 1);
    }
    // Several requests are one reload.
    server.lifecycle.reload();
    server.lifecycle.reload();
    assert_eq!(server.next(), Action::Report(Reload::Waiting));
    server.waits_for_a_time();
    server.lifecycle.reload();
    assert_eq!(server.next(), Action::Report(Reload::Waiting));
    server.end(1, 0);
    assert_eq!(server.next(), Action::Report(Reload::Started));
    server.start(1, 1);
    server.ready(1, 1);
    server.ends_reload(3);
    server.waits_for_a_time();
}

/// A server with one generation that serves. The workers of all other rows were killed just now,
/// and have not ended yet.
fn stuck() -> Fixture {
    let mut server = Fixture::serving(1);
    for row in 1..GENERATIONS_MAX {
        server.reload(row, row - 1);
    }
    for action in [|row| Action::Stop(row, Stop::Fast), Action::Kill] {
        let Action::Wait(Some(until)) = server.next() else {
            panic!("the old workers have time left");
        };
        server.now = until;
        for row in 0..GENERATIONS_MAX - 1 {
            assert_eq!(server.next(), action(row));
        }
    }
    server
}

#[test]
fn a_reload_is_stuck_if_the_workers_of_all_rows_do_not_end() {
    let mut server = stuck();
    // The kill may still end the workers, so the reload waits for a second.
    server.lifecycle.reload();
    assert_eq!(server.next(), Action::Report(Reload::Waiting));
    server.waits_for(Duration::from_secs(1));
    for row in 0..GENERATIONS_MAX - 1 {
        assert_eq!(server.next(), Action::ReportStuck(row));
    }
    assert_eq!(server.next(), Action::Report(Reload::Stuck));
    server.waits();
    // The reload was given up, so it does not begin later by itself.
    server.end(1, 0);
    server.waits();
    server.begin_reload(1, 1);
}

#[test]
fn a_waiting_reload_begins_when_a_killed_worker_ends() {
    let mut server = stuck();
    server.lifecycle.reload();
    assert_eq!(server.next(), Action::Report(Reload::Waiting));
    server.waits_for_a_time();
    server.end(2, 0);
    assert_eq!(server.next(), Action::Report(Reload::Started));
}

#[test]
fn a_reload_after_a_drain_is_stuck_if_no_worker_ends() {
    let mut server = stuck();
    server.drain();
    server.stops(3, Stop::Graceful);
    server.lifecycle.reload();
    assert_eq!(server.next(), Action::Report(Reload::Waiting));
    server.waits_for(Duration::from_secs(1));
    for row in 0..GENERATIONS_MAX - 1 {
        assert_eq!(server.next(), Action::ReportStuck(row));
    }
    server.waits_for(TIMEOUTS.stop - Duration::from_secs(1));
    server.stops(3, Stop::Fast);
    server.waits_for(Duration::from_secs(1));
    assert_eq!(server.next(), Action::Kill(3));
    server.waits_for(Duration::from_secs(1));
    assert_eq!(server.next(), Action::ReportStuck(3));
    assert_eq!(server.next(), Action::Report(Reload::Stuck));
    assert!(
        server.lifecycle.is_drained(),
        "a further reload may bring workers back"
    );
    server.waits();
}

#[test]
fn each_old_generation_has_its_own_stop_timeout() {
    let mut server = Fixture::reloading(1);
    server.ready(1, 1);
    server.ends_reload(0);
    server.now += Duration::from_secs(10);
    server.reload(2, 1);
    server.waits_for(Duration::from_secs(20));
    server.stops(0, Stop::Fast);
    server.waits_for(Duration::from_secs(1));
    assert_eq!(server.next(), Action::Kill(0));
    server.waits_for(Duration::from_secs(1));
    assert_eq!(server.next(), Action::ReportStuck(0));
    server.waits_for(Duration::from_secs(8));
    server.stops(1, Stop::Fast);
}
