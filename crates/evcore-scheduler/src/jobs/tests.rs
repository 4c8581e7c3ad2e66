//! Tests of the jobs without a thread, at ticks that each test chooses.

use std::sync::Arc;

use super::*;
use crate::job::{Job, Run};

fn no_op() -> Run {
    Box::new(|_| {})
}

/// A closure that owns a clone of an `Arc`, and the `Arc`.
fn owned() -> (Run, Arc<()>) {
    let held = Arc::new(());
    let owner = Arc::clone(&held);
    let run = move |_: &Job| {
        let _ = &owner;
    };
    (Box::new(run), held)
}

/// Takes each due job and puts it back, as the thread does, but does not run it. Returns the keys
/// of these jobs.
fn run_due(jobs: &mut Jobs<Run>, now: u64) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((key, run)) = jobs.take_due(now) {
        keys.push(key);
        drop(jobs.put_back(key, run, false));
    }
    keys
}

#[test]
fn jobs_run_at_their_tick_in_order_and_end() {
    let mut jobs = Jobs::new();
    let late = jobs.add(Schedule::Once(20), no_op());
    let early = jobs.add(Schedule::Once(10), no_op());
    assert_eq!(run_due(&mut jobs, 9), []);
    assert_eq!(run_due(&mut jobs, 30), [early, late]);
    assert_eq!(jobs.len(), 0);
    assert!(!jobs.is_scheduled(early));
}

#[test]
fn a_periodic_job_runs_once_for_all_missed_periods() {
    let mut jobs = Jobs::new();
    let schedule = Schedule::Every {
        first: 10,
        period: 10,
    };
    let job = jobs.add(schedule, no_op());
    assert_eq!(run_due(&mut jobs, 47), [job]);
    assert_eq!(jobs.fall_asleep(), Some(50));
}

#[test]
fn a_periodic_job_that_another_holds_up_runs_once() {
    let mut jobs = Jobs::new();
    jobs.add(Schedule::Once(10), no_op());
    let schedule = Schedule::Every {
        first: 11,
        period: 10,
    };
    let held_up = jobs.add(schedule, no_op());
    let (long, run) = jobs.take_due(12).unwrap();
    drop(jobs.put_back(long, run, false));
    // The first job took 40 ticks, and both jobs were due when it began.
    assert_eq!(run_due(&mut jobs, 52), [held_up]);
    assert_eq!(jobs.fall_asleep(), Some(61));
}

#[test]
fn a_late_job_ends_if_its_next_run_is_beyond_the_last_tick() {
    let mut jobs = Jobs::new();
    jobs.add(Schedule::Once(1), no_op());
    let schedule = Schedule::Every {
        first: 2,
        period: u64::MAX / 2,
    };
    let held_up = jobs.add(schedule, no_op());
    let (long, run) = jobs.take_due(3).unwrap();
    drop(jobs.put_back(long, run, false));
    assert_eq!(run_due(&mut jobs, u64::MAX - 1), [held_up]);
    assert_eq!(jobs.len(), 0);
}

#[test]
fn a_job_keeps_to_its_new_period() {
    let schedules = [
        Schedule::Once(10),
        Schedule::Every {
            first: 10,
            period: 10,
        },
    ];
    for schedule in schedules {
        let mut jobs = Jobs::new();
        let job = jobs.add(schedule, no_op());
        assert!(jobs.set_period(job, 7, 4));
        for due in [7, 11, 15] {
            assert_eq!(jobs.fall_asleep(), Some(due));
            assert_eq!(run_due(&mut jobs, due), [job]);
        }
    }
}

#[test]
fn a_running_job_may_set_its_period() {
    let mut jobs = Jobs::new();
    let job = jobs.add(Schedule::Once(10), no_op());
    let (key, run) = jobs.take_due(10).unwrap();
    assert!(jobs.set_period(job, 30, 20));
    assert!(jobs.put_back(key, run, false).is_none());
    assert_eq!(run_due(&mut jobs, 30), [job]);
    assert_eq!(jobs.fall_asleep(), Some(50));
}

#[test]
fn a_job_that_has_ended_gets_no_period() {
    let mut jobs = Jobs::new();
    let job = jobs.add(Schedule::Once(10), no_op());
    let _ = jobs.take_due(10).unwrap();
    jobs.cancel(job);
    assert!(!jobs.set_period(job, 30, 20));
    let other = jobs.add(Schedule::Once(10), no_op());
    jobs.cancel(other);
    assert!(!jobs.set_period(other, 30, 20));
    assert_eq!(jobs.len(), 0);
}

#[test]
fn a_job_that_cancels_itself_does_not_run_again() {
    let mut jobs = Jobs::new();
    let (run, held) = owned();
    let schedule = Schedule::Every {
        first: 10,
        period: 10,
    };
    jobs.add(schedule, run);
    let (key, run) = jobs.take_due(10).unwrap();
    assert!(jobs.cancel(key).0);
    assert!(!jobs.cancel(key).0);
    assert!(!jobs.move_to(key, 20));
    drop(jobs.put_back(key, run, false));
    assert_eq!(Arc::strong_count(&held), 1);
    assert_eq!(jobs.fall_asleep(), None);
}

#[test]
fn a_job_that_moves_itself_runs_again() {
    let mut jobs = Jobs::new();
    let job = jobs.add(Schedule::Once(10), no_op());
    let (key, run) = jobs.take_due(10).unwrap();
    assert!(jobs.move_to(key, 15));
    assert!(jobs.put_back(key, run, false).is_none());
    assert_eq!(run_due(&mut jobs, 15), [job]);
    assert!(!jobs.move_to(key, 20));
}

#[test]
fn a_job_moved_into_the_past_lets_others_run_first() {
    let mut jobs = Jobs::new();
    let eager = jobs.add(Schedule::Once(10), no_op());
    let other = jobs.add(Schedule::Once(20), no_op());
    let mut ran = Vec::new();
    for _ in 0..3 {
        let (key, run) = jobs.take_due(30).unwrap();
        ran.push(key);
        if key == eager {
            assert!(jobs.move_to(key, 0));
        }
        jobs.put_back(key, run, false);
    }
    assert_eq!(ran, [eager, other, eager]);
}

#[test]
fn a_periodic_job_that_panicked_has_ended() {
    let mut jobs = Jobs::new();
    let schedule = Schedule::Every {
        first: 10,
        period: 10,
    };
    let job = jobs.add(schedule, no_op());
    let (key, run) = jobs.take_due(10).unwrap();
    assert!(jobs.put_back(key, run, true).is_some());
    assert!(!jobs.is_scheduled(job));
    assert_eq!(jobs.fall_asleep(), None);
}

#[test]
fn a_stale_handle_does_not_reach_the_next_job_of_its_slot() {
    let mut jobs = Jobs::new();
    let old = jobs.add(Schedule::Once(10), no_op());
    assert!(jobs.cancel(old).0);
    let new = jobs.add(Schedule::Once(10), no_op());
    assert_eq!(new.id, old.id);
    assert!(!jobs.cancel(old).0);
    assert!(!jobs.move_to(old, 20));
    assert!(!jobs.is_scheduled(old));
    assert!(jobs.is_scheduled(new));
}

#[test]
fn cancel_returns_the_closure_undropped() {
    let mut jobs = Jobs::new();
    let (run, held) = owned();
    let job = jobs.add(Schedule::Once(10), run);
    let (was_armed, run) = jobs.cancel(job);
    assert!(was_armed);
    assert_eq!(Arc::strong_count(&held), 2);
    drop(run);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn only_an_earlier_job_ends_the_sleep_and_only_once() {
    let mut jobs = Jobs::new();
    jobs.add(Schedule::Once(100), no_op());
    assert!(!jobs.take_early_wake(), "the thread is awake");
    assert_eq!(jobs.fall_asleep(), Some(100));
    jobs.add(Schedule::Once(100), no_op());
    assert!(!jobs.take_early_wake(), "not earlier");
    jobs.add(Schedule::Once(99), no_op());
    assert!(jobs.take_early_wake());
    assert!(!jobs.take_early_wake(), "it was woken already");
}

#[test]
fn a_job_or_a_stop_ends_a_sleep_without_limit() {
    let mut jobs = Jobs::new();
    assert_eq!(jobs.fall_asleep(), None);
    jobs.add(Schedule::Once(1 << 60), no_op());
    assert!(jobs.take_early_wake());
    assert_eq!(jobs.fall_asleep(), Some(1 << 60));
    jobs.stop();
    assert!(jobs.take_early_wake());
}

#[test]
fn slots_are_reused() {
    let mut jobs = Jobs::new();
    for tick in 0..1_000 {
        let job = jobs.add(Schedule::Once(tick), no_op());
        jobs.add(Schedule::Once(tick), no_op());
        jobs.cancel(job);
        run_due(&mut jobs, tick);
    }
    assert_eq!(jobs.slots.len(), 2);
}
