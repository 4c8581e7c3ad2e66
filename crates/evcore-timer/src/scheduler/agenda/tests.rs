//! The agenda with ticks made up, and no thread.

use std::sync::Arc;

use super::*;

fn no_op() -> Run {
    Box::new(|_| {})
}

/// A closure, and something that is alone once the closure is dropped.
fn owned() -> (Run, Arc<()>) {
    let held = Arc::new(());
    let owner = Arc::clone(&held);
    let run = move |_: &Job| {
        let _ = &owner;
    };
    (Box::new(run), held)
}

/// Takes what is due and puts it back, as the thread does; returns what ran.
fn run_due(agenda: &mut Agenda, now: u64) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((key, run)) = agenda.take_due(now) {
        keys.push(key);
        drop(agenda.put_back(key, run, false));
    }
    keys
}

#[test]
fn jobs_run_at_their_tick_in_order_and_are_gone() {
    let mut agenda = Agenda::default();
    let late = agenda.add(Plan::Once(20), no_op());
    let early = agenda.add(Plan::Once(10), no_op());
    assert_eq!(run_due(&mut agenda, 9), []);
    assert_eq!(run_due(&mut agenda, 30), [early, late]);
    assert_eq!(agenda.len(), 0);
    assert!(!agenda.is_scheduled(early));
}

#[test]
fn a_periodic_job_runs_once_for_all_it_missed_and_keeps_its_grid() {
    let mut agenda = Agenda::default();
    let plan = Plan::Every {
        first: 10,
        period: 10,
    };
    let job = agenda.add(plan, no_op());
    assert_eq!(run_due(&mut agenda, 47), [job]);
    assert_eq!(agenda.fall_asleep(), Some(50));
}

#[test]
fn a_job_that_cancels_itself_does_not_come_back() {
    let mut agenda = Agenda::default();
    let (run, held) = owned();
    let plan = Plan::Every {
        first: 10,
        period: 10,
    };
    agenda.add(plan, run);
    let (key, run) = agenda.take_due(10).unwrap();
    assert!(agenda.cancel(key).0);
    assert!(!agenda.cancel(key).0);
    assert!(!agenda.move_to(key, 20));
    drop(agenda.put_back(key, run, false));
    assert_eq!(Arc::strong_count(&held), 1);
    assert_eq!(agenda.fall_asleep(), None);
}

#[test]
fn a_job_that_moves_itself_runs_again() {
    let mut agenda = Agenda::default();
    let job = agenda.add(Plan::Once(10), no_op());
    let (key, run) = agenda.take_due(10).unwrap();
    assert!(agenda.move_to(key, 15));
    assert!(agenda.put_back(key, run, false).is_none());
    assert_eq!(run_due(&mut agenda, 15), [job]);
    assert!(!agenda.move_to(key, 20));
}

#[test]
fn a_job_that_moves_itself_into_the_past_lets_the_others_run_between() {
    let mut agenda = Agenda::default();
    let eager = agenda.add(Plan::Once(10), no_op());
    let other = agenda.add(Plan::Once(20), no_op());
    let mut ran = Vec::new();
    for _ in 0..3 {
        let (key, run) = agenda.take_due(30).unwrap();
        ran.push(key);
        if key == eager {
            assert!(agenda.move_to(key, 0));
        }
        agenda.put_back(key, run, false);
    }
    assert_eq!(ran, [eager, other, eager]);
}

#[test]
fn a_periodic_job_that_panicked_is_over() {
    let mut agenda = Agenda::default();
    let plan = Plan::Every {
        first: 10,
        period: 10,
    };
    let job = agenda.add(plan, no_op());
    let (key, run) = agenda.take_due(10).unwrap();
    assert!(agenda.put_back(key, run, true).is_some());
    assert!(!agenda.is_scheduled(job));
    assert_eq!(agenda.fall_asleep(), None);
}

#[test]
fn the_handle_of_a_job_that_is_gone_does_not_reach_the_next_in_its_place() {
    let mut agenda = Agenda::default();
    let old = agenda.add(Plan::Once(10), no_op());
    assert!(agenda.cancel(old).0);
    let new = agenda.add(Plan::Once(10), no_op());
    assert_eq!(new.id, old.id);
    assert!(!agenda.cancel(old).0);
    assert!(!agenda.move_to(old, 20));
    assert!(!agenda.is_scheduled(old));
    assert!(agenda.is_scheduled(new));
}

#[test]
fn cancelling_hands_the_closure_out_and_not_to_the_lock() {
    let mut agenda = Agenda::default();
    let (run, held) = owned();
    let job = agenda.add(Plan::Once(10), run);
    let (was_armed, run) = agenda.cancel(job);
    assert!(was_armed);
    assert_eq!(Arc::strong_count(&held), 2);
    drop(run);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn only_an_earlier_job_ends_the_sleep_and_is_told_so_once() {
    let mut agenda = Agenda::default();
    agenda.add(Plan::Once(100), no_op());
    assert!(!agenda.oversleeps(), "nobody sleeps");
    assert_eq!(agenda.fall_asleep(), Some(100));
    agenda.add(Plan::Once(100), no_op());
    assert!(!agenda.oversleeps(), "not earlier");
    agenda.add(Plan::Once(99), no_op());
    assert!(agenda.oversleeps());
    assert!(!agenda.oversleeps(), "it was woken already");
}

#[test]
fn any_job_and_a_stop_end_a_sleep_without_end() {
    let mut agenda = Agenda::default();
    assert_eq!(agenda.fall_asleep(), None);
    agenda.add(Plan::Once(1 << 60), no_op());
    assert!(agenda.oversleeps());
    assert_eq!(agenda.fall_asleep(), Some(1 << 60));
    agenda.stop();
    assert!(agenda.oversleeps());
}

#[test]
fn jobs_come_and_go_in_the_same_places() {
    let mut agenda = Agenda::default();
    for tick in 0..1_000 {
        let job = agenda.add(Plan::Once(tick), no_op());
        agenda.add(Plan::Once(tick), no_op());
        agenda.cancel(job);
        run_due(&mut agenda, tick);
    }
    assert_eq!(agenda.slots.len(), 2);
}
