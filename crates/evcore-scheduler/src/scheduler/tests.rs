//! Tests of the scheduler with its thread.
//!
//! Tests wait for events, up to a limit, and not for a fixed time.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};

use super::*;

const LONG: Duration = Duration::from_secs(3_600);

/// Much longer than any event takes.
const LIMIT: Duration = Duration::from_secs(30);

/// Keeps the thread busy until the returned sender is dropped.
fn hold(scheduler: &Scheduler) -> Sender<()> {
    let (held, release) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    scheduler.after(Duration::ZERO, move |_| {
        started.send(()).unwrap();
        let _ = release.recv();
    });
    starts.recv_timeout(LIMIT).unwrap();
    held
}

/// Waits until all senders and the closures that own them are dropped. Returns the received values.
fn wait_for_drop<T>(receiver: &Receiver<T>) -> Vec<T> {
    let mut seen = Vec::new();
    loop {
        match receiver.recv_timeout(LIMIT) {
            Ok(value) => seen.push(value),
            Err(mpsc::RecvTimeoutError::Disconnected) => return seen,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("a closure was kept"),
        }
    }
}

#[test]
fn jobs_run_in_the_order_of_their_times() {
    let scheduler = Scheduler::new().unwrap();
    let (order, seen) = mpsc::channel();
    let held = hold(&scheduler);
    let now = Instant::now();
    for delay_ms in [3, 1, 2, 1] {
        let order = order.clone();
        scheduler.at(now + Duration::from_millis(delay_ms), move |_| {
            order.send(delay_ms).unwrap();
        });
    }
    drop((held, order));
    assert_eq!(wait_for_drop(&seen), [1, 1, 2, 3]);
}

#[test]
fn no_job_runs_early() {
    let scheduler = Scheduler::new().unwrap();
    let (times, seen) = mpsc::channel();
    let now = Instant::now();
    for delay_us in [0, 1, 999, 1_000, 1_001] {
        let (times, when) = (times.clone(), now + Duration::from_micros(delay_us));
        scheduler.at(when, move |_| times.send((when, Instant::now())).unwrap());
    }
    drop(times);
    let seen = wait_for_drop(&seen);
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|(when, ran)| ran >= when));
}

#[test]
fn the_thread_wakes_up_for_an_earlier_job() {
    let scheduler = Scheduler::new().unwrap();
    scheduler.after(LONG, |_| {});
    let (ran, runs) = mpsc::channel();
    scheduler.after(Duration::ZERO, move |_| ran.send(()).unwrap());
    runs.recv_timeout(LIMIT).unwrap();
    assert_eq!(scheduler.len(), 1);
}

#[test]
fn a_job_moved_to_now_runs_now() {
    let scheduler = Scheduler::new().unwrap();
    let (ran, runs) = mpsc::channel();
    let job = scheduler.after(LONG, move |_| ran.send(()).unwrap());
    assert!(job.move_to(Instant::now()));
    runs.recv_timeout(LIMIT).unwrap();
    assert_eq!(wait_for_drop(&runs), []);
    assert!(!job.move_to(Instant::now()));
}

#[test]
fn a_job_can_move_itself_repeatedly() {
    let scheduler = Scheduler::new().unwrap();
    let (ran, runs) = mpsc::channel();
    let mut left = 5;
    scheduler.after(Duration::ZERO, move |job| {
        ran.send(left).unwrap();
        left -= 1;
        if left > 0 {
            assert!(job.move_to(Instant::now()));
        }
    });
    assert_eq!(wait_for_drop(&runs), [5, 4, 3, 2, 1]);
}

#[test]
fn a_job_can_be_moved_by_a_delay() {
    let scheduler = Scheduler::new().unwrap();
    let (ran, runs) = mpsc::channel();
    let delay = Duration::from_millis(2);
    let mut moved: Option<Instant> = None;
    let job = scheduler.after(LONG, move |job| {
        let since_move = moved.map(|moved| moved.elapsed());
        ran.send(since_move).unwrap();
        if since_move.is_none() {
            moved = Some(Instant::now());
            assert!(job.move_after(delay));
        }
    });
    assert!(job.move_after(Duration::ZERO));
    assert_eq!(runs.recv_timeout(LIMIT).unwrap(), None);
    assert!(runs.recv_timeout(LIMIT).unwrap().unwrap() >= delay);
    assert_eq!(wait_for_drop(&runs), []);
    assert!(!job.move_after(Duration::ZERO));
}

#[test]
fn a_delay_beyond_the_last_tick_never_ends() {
    let scheduler = Scheduler::new().unwrap();
    let (ran, runs) = mpsc::channel();
    let job = scheduler.after(LONG, move |_| ran.send(()).unwrap());
    assert!(job.move_after(Duration::MAX));
    assert!(job.is_scheduled());
    drop(scheduler);
    assert_eq!(wait_for_drop(&runs), []);
}

#[test]
fn a_periodic_job_can_cancel_itself() {
    let scheduler = Scheduler::new().unwrap();
    let (ran, runs) = mpsc::channel();
    let mut count = 0;
    let job = scheduler.every(Duration::from_micros(10), move |job| {
        count += 1;
        ran.send(count).unwrap();
        if count == 10 {
            assert!(job.cancel());
        }
    });
    assert_eq!(wait_for_drop(&runs), (1..=10).collect::<Vec<_>>());
    assert!(!job.is_scheduled());
}

#[test]
fn a_cancelled_job_does_not_run() {
    let scheduler = Scheduler::new().unwrap();
    let (ran, runs) = mpsc::channel();
    let held = hold(&scheduler);
    let job = scheduler.after(Duration::ZERO, move |_| ran.send(()).unwrap());
    assert!(job.cancel());
    drop(held);
    assert_eq!(wait_for_drop(&runs), []);
}

#[test]
fn a_job_can_add_and_cancel_others() {
    let scheduler = Arc::new(Scheduler::new().unwrap());
    let (ran, runs) = mpsc::channel();
    let never = scheduler.after(LONG, |_| unreachable!("it was cancelled"));
    let inner = Arc::downgrade(&scheduler);
    scheduler.after(Duration::ZERO, move |_| {
        assert!(never.cancel());
        let ran = ran.clone();
        let scheduler = inner.upgrade().unwrap();
        scheduler.after(Duration::ZERO, move |_| ran.send(()).unwrap());
    });
    runs.recv_timeout(LIMIT).unwrap();
}

#[test]
fn a_panic_is_reported_and_ends_only_its_job() {
    let (panicked, panics) = mpsc::channel();
    let scheduler = Scheduler::with_panic_handler(move |job, panic| {
        let what = *panic.downcast::<&str>().unwrap();
        panicked.send((job.is_scheduled(), what)).unwrap();
    })
    .unwrap();
    let (ran, runs) = mpsc::channel();
    let job = scheduler.every(Duration::from_micros(1), move |_| {
        ran.send(()).unwrap();
        // Unlike `panic!`, this call prints nothing.
        resume_unwind(Box::new("expected"));
    });
    let report = panics.recv_timeout(LIMIT).unwrap();
    assert_eq!(report, (false, "expected"));
    assert_eq!(wait_for_drop(&runs), [()]);
    assert!(!job.is_scheduled());

    let (ran, runs) = mpsc::channel();
    scheduler.after(Duration::ZERO, move |_| ran.send(()).unwrap());
    runs.recv_timeout(LIMIT).unwrap();
}

#[test]
fn a_panic_in_report_or_drop_does_not_end_the_thread() {
    struct PanicsWhenDropped;
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            resume_unwind(Box::new("dropped"));
        }
    }

    let scheduler =
        Scheduler::with_panic_handler(|_, _| resume_unwind(Box::new("reported"))).unwrap();
    let capture = PanicsWhenDropped;
    scheduler.after(Duration::ZERO, move |_| {
        let _ = &capture;
    });
    let (ran, runs) = mpsc::channel();
    scheduler.after(Duration::ZERO, move |_| ran.send(()).unwrap());
    runs.recv_timeout(LIMIT).unwrap();
}

#[test]
fn dropping_waits_for_the_running_job_and_drops_the_others() {
    let scheduler = Scheduler::new().unwrap();
    let (events, seen) = mpsc::channel();
    let held = hold(&scheduler);
    let after_release = events.clone();
    let waiting = scheduler.after(LONG, move |_| after_release.send("ran").unwrap());
    let releaser = std::thread::spawn(move || {
        events.send("released").unwrap();
        drop(held);
    });
    drop(scheduler);
    assert_eq!(wait_for_drop(&seen), ["released"]);
    assert!(!waiting.is_scheduled());
    releaser.join().unwrap();
}

#[test]
fn a_scheduler_dropped_by_its_own_job_ends_after_it() {
    let (dropped, drops) = mpsc::channel();
    let scheduler = Scheduler::new().unwrap();
    let held = hold(&scheduler);
    let holder = Arc::new(Mutex::new(None));
    let from_job = Arc::clone(&holder);
    let job = scheduler.every(Duration::from_micros(1), move |_| {
        drop(from_job.lock().unwrap().take());
        dropped.send(()).unwrap();
    });
    *holder.lock().unwrap() = Some(scheduler);
    drop(held);
    assert_eq!(wait_for_drop(&drops), [()]);
    assert!(!job.is_scheduled());
}

#[test]
#[should_panic(expected = "the period is zero")]
fn a_period_of_zero_is_refused() {
    let scheduler = Scheduler::new().unwrap();
    scheduler.every(Duration::ZERO, |_| {});
}

#[test]
fn the_longest_delay_does_not_overflow() {
    let scheduler = Scheduler::new().unwrap();
    let job = scheduler.after(Duration::MAX, |_| {});
    scheduler.every(Duration::MAX, |_| {});
    assert_eq!(scheduler.len(), 2);
    assert!(job.cancel());
}

#[test]
fn debug_counts_the_jobs() {
    let scheduler = Scheduler::new().unwrap();
    let job = scheduler.after(LONG, |_| {});
    assert_eq!(format!("{scheduler:?}"), "Scheduler { jobs: 1, .. }");
    assert_eq!(format!("{job:?}"), "Job { scheduled: true, .. }");
}
