//! Tests interleavings of the sleeping scheduler thread and the threads that wake it.
//!
//! Time stands still in these models, and no sleep ends by itself. So loom reports a lost wake-up
//! as a deadlock.
#![cfg(evcore_loom)]

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use evcore_scheduler::Scheduler;
use loom::sync::{Condvar, Mutex};
use loom::thread;

const LONG: Duration = Duration::from_secs(3_600);

#[derive(Clone, Default)]
struct Runs(Arc<(Mutex<usize>, Condvar)>);

impl Runs {
    fn add_one(&self) {
        *self.0.0.lock().unwrap() += 1;
        self.0.1.notify_all();
    }

    fn wait_for(&self, count: usize) {
        let mut runs = self.0.0.lock().unwrap();
        while *runs < count {
            runs = self.0.1.wait(runs).unwrap();
        }
    }

    fn count(&self) -> usize {
        *self.0.0.lock().unwrap()
    }
}

#[test]
fn a_due_job_runs_in_every_interleaving() {
    loom::model(|| {
        let scheduler = Scheduler::new().unwrap();
        let runs = Runs::default();
        let from_job = runs.clone();
        scheduler.after(Duration::ZERO, move |_| from_job.add_one());
        runs.wait_for(1);
    });
}

#[test]
fn an_earlier_job_ends_the_sleep_for_a_later_one() {
    loom::model(|| {
        let scheduler = Scheduler::new().unwrap();
        let runs = Runs::default();
        scheduler.after(LONG, |_| unreachable!("time stands still"));
        let from_job = runs.clone();
        scheduler.after(Duration::ZERO, move |_| from_job.add_one());
        runs.wait_for(1);
    });
}

#[test]
fn a_job_moved_to_now_ends_the_sleep_for_its_old_time() {
    loom::model(|| {
        let scheduler = Scheduler::new().unwrap();
        let runs = Runs::default();
        let from_job = runs.clone();
        // An instant before the one at which the scheduler's time stands still.
        static BEFORE: OnceLock<Instant> = OnceLock::new();
        let before = *BEFORE.get_or_init(|| Instant::now() - Duration::from_secs(3600));
        let job = scheduler.after(LONG, move |_| from_job.add_one());
        assert!(job.move_to(before));
        runs.wait_for(1);
    });
}

#[test]
fn two_jobs_added_concurrently_both_run() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let scheduler = Arc::new(Scheduler::new().unwrap());
        let runs = Runs::default();
        let (other, from_job) = (Arc::clone(&scheduler), runs.clone());
        let adder = thread::spawn(move || {
            other.after(Duration::ZERO, move |_| from_job.add_one());
        });
        let from_job = runs.clone();
        scheduler.after(Duration::ZERO, move |_| from_job.add_one());
        runs.wait_for(2);
        adder.join().unwrap();
    });
}

#[test]
fn dropping_ends_the_thread_in_every_interleaving() {
    loom::model(|| {
        drop(Scheduler::new().unwrap());
    });
    loom::model(|| {
        let scheduler = Scheduler::new().unwrap();
        scheduler.after(LONG, |_| unreachable!("time stands still"));
    });
}

#[test]
fn a_cancelled_job_runs_in_no_interleaving() {
    loom::model(|| {
        let scheduler = Scheduler::new().unwrap();
        let runs = Runs::default();
        let from_job = runs.clone();
        let job = scheduler.after(Duration::ZERO, move |_| from_job.add_one());
        let cancelled = job.cancel();
        drop(scheduler);
        assert!(runs.count() <= usize::from(!cancelled));
    });
}
