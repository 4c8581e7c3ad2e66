//! Tests of a scheduler whose time is moved by hand.
#![cfg(not(evcore_loom))]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evcore_scheduler::{Job, ManualTime, Scheduler};

const SECOND: Duration = Duration::from_secs(1);

type Run = Box<dyn FnMut(&Job) + Send>;

fn recorder() -> (impl Fn(&'static str) -> Run, Receiver<&'static str>) {
    let (sender, receiver) = mpsc::channel();
    let job = move |name| -> Run {
        let sender = sender.clone();
        Box::new(move |_| sender.send(name).unwrap())
    };
    (job, receiver)
}

fn names(receiver: &Receiver<&'static str>) -> Vec<&'static str> {
    receiver.try_iter().collect()
}

#[test]
fn moving_the_time_runs_jobs_in_the_order_of_their_times() {
    let (scheduler, mut time) = Scheduler::manual();
    let (job, ran) = recorder();
    scheduler.after(3 * SECOND, job("third"));
    scheduler.at(scheduler.now() + SECOND, job("first"));
    scheduler.after(SECOND, job("second"));
    time.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(names(&ran), [""; 0]);
    time.advance(Duration::from_nanos(1));
    assert_eq!(names(&ran), ["first", "second"]);
    time.advance(10 * SECOND);
    assert_eq!(names(&ran), ["third"]);
    assert!(scheduler.is_empty());
}

#[test]
fn jobs_with_equal_times_run_in_the_order_of_the_calls() {
    let (scheduler, mut time) = Scheduler::manual();
    let (job, ran) = recorder();
    scheduler.every(5 * SECOND, job("often"));
    scheduler.every(10 * SECOND, job("rarely"));
    let moved = scheduler.after(SECOND, job("moved"));
    scheduler.after(10 * SECOND, job("added"));
    moved.move_after(10 * SECOND);
    time.advance(10 * SECOND);
    assert_eq!(names(&ran), ["often", "rarely", "added", "moved", "often"]);
}

#[test]
fn a_job_of_the_past_runs_when_the_time_is_moved_by_zero() {
    let (scheduler, mut time) = Scheduler::manual();
    let (job, ran) = recorder();
    time.advance(5 * SECOND);
    scheduler.at(scheduler.now() - SECOND, job("late"));
    time.advance(Duration::ZERO);
    assert_eq!(names(&ran), ["late"]);
}

#[test]
fn each_job_runs_at_its_own_time() {
    let (scheduler, mut time) = Scheduler::manual();
    let scheduler = Arc::new(scheduler);
    let start = scheduler.now();
    let (sender, ran) = mpsc::channel();
    let clock = Arc::downgrade(&scheduler);
    scheduler.every(2 * SECOND, move |_| {
        let clock = clock.upgrade().unwrap();
        sender.send(clock.now() - start).unwrap();
    });
    time.advance(5 * SECOND);
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [2 * SECOND, 4 * SECOND]);
    assert_eq!(scheduler.now() - start, 5 * SECOND);
}

#[test]
fn a_new_period_counts_from_the_manual_time() {
    let (scheduler, mut time) = Scheduler::manual();
    let (job, ran) = recorder();
    let job = scheduler.every(10 * SECOND, job("run"));
    time.advance(15 * SECOND);
    assert_eq!(names(&ran).len(), 1);
    assert!(job.set_period(2 * SECOND));
    time.advance(SECOND);
    assert_eq!(names(&ran).len(), 0);
    time.advance(5 * SECOND);
    assert_eq!(names(&ran).len(), 3);
    assert!(job.set_period(100 * SECOND));
    time.advance(99 * SECOND);
    assert_eq!(names(&ran).len(), 0);
}

#[test]
fn a_job_that_sets_its_own_period_keeps_it() {
    let (scheduler, mut time) = Scheduler::manual();
    let (sender, ran) = mpsc::channel();
    let mut period = SECOND;
    scheduler.after(period, move |job| {
        sender.send(()).unwrap();
        period *= 2;
        assert!(job.set_period(period));
    });
    // The runs come after 1, 3, 7, 15 and 31 seconds.
    time.advance(40 * SECOND);
    assert_eq!(ran.try_iter().count(), 5);
}

#[test]
fn jobs_added_and_moved_by_a_job_run_in_the_same_advance() {
    let (scheduler, mut time) = Scheduler::manual();
    let scheduler = Arc::new(scheduler);
    let (job, ran) = recorder();
    let (moved, added) = (scheduler.after(90 * SECOND, job("moved")), job("added"));
    let (adder, mut added) = (Arc::downgrade(&scheduler), Some(added));
    scheduler.after(SECOND, move |_| {
        let adder = adder.upgrade().unwrap();
        adder.after(2 * SECOND, added.take().unwrap());
        assert!(moved.move_after(SECOND));
    });
    time.advance(3 * SECOND);
    assert_eq!(names(&ran), ["moved", "added"]);
}

#[test]
fn the_panic_of_a_job_resumes_after_the_other_jobs() {
    let (scheduler, mut time) = Scheduler::manual();
    let (job, ran) = recorder();
    let panicking = scheduler.every(SECOND, |_| resume_unwind(Box::new("planted")));
    scheduler.after(2 * SECOND, job("another"));
    let panicked = catch_unwind(AssertUnwindSafe(|| time.advance(5 * SECOND)));
    let payload = panicked.expect_err("advance resumes the panic");
    assert_eq!(payload.downcast_ref(), Some(&"planted"));
    assert_eq!(names(&ran), ["another"]);
    assert!(!panicking.is_scheduled());
    // The time was moved in spite of the panic.
    scheduler.after(SECOND, job("later"));
    time.advance(SECOND);
    assert_eq!(names(&ran), ["later"]);
}

#[test]
fn a_panic_handler_gets_the_panics_of_all_jobs() {
    let (scheduler, mut time) = Scheduler::manual();
    let (sender, reported) = mpsc::channel();
    time.set_panic_handler(move |job: &Job, panic: Box<dyn Any + Send>| {
        assert!(!job.is_scheduled());
        sender.send(*panic.downcast::<u32>().unwrap()).unwrap();
    });
    for number in [1, 2] {
        scheduler.every(number * SECOND, move |_| resume_unwind(Box::new(number)));
    }
    time.advance(5 * SECOND);
    assert_eq!(reported.try_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn dropping_a_manual_scheduler_drops_its_jobs() {
    let (scheduler, mut time) = Scheduler::manual();
    let (make, ran) = recorder();
    let job = scheduler.after(SECOND, make("dropped"));
    drop((make, scheduler));
    assert_eq!(ran.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    assert!(!job.is_scheduled() && !job.cancel() && !job.move_after(SECOND));
    time.advance(SECOND);
}

#[test]
fn a_manual_scheduler_dropped_by_its_job_runs_no_other() {
    let (scheduler, mut time) = Scheduler::manual();
    let (job, ran) = recorder();
    let owner = Arc::new(Mutex::new(None));
    let owned = Arc::clone(&owner);
    let dropping = scheduler.every(SECOND, move |_| drop(owned.lock().unwrap().take()));
    scheduler.after(SECOND, job("another"));
    drop(job);
    *owner.lock().unwrap() = Some(scheduler);
    time.advance(10 * SECOND);
    assert!(!dropping.is_scheduled());
    assert_eq!(ran.try_recv(), Err(mpsc::TryRecvError::Disconnected));
}

#[test]
fn the_time_can_be_moved_on_another_thread() {
    let (scheduler, mut time): (Scheduler, ManualTime) = Scheduler::manual();
    let (job, ran) = recorder();
    scheduler.after(SECOND, job("run"));
    std::thread::spawn(move || time.advance(SECOND))
        .join()
        .unwrap();
    assert_eq!(names(&ran), ["run"]);
}
