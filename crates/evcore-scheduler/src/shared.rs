//! The state that the handles and the background thread share: the jobs, the time, and the thread's
//! sleep.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::{
    jobs::{Jobs, Key, Schedule, Slot},
    sync::{Condvar, Mutex, MutexGuard, now},
};

pub(crate) struct Shared<R> {
    jobs: Mutex<Jobs<R>>,
    wake: Condvar,
    /// The instant of tick 0. Ticks count nanoseconds from it.
    start: Instant,
    /// The present tick of a [`ManualTime`](crate::ManualTime); `None` if time passes by itself.
    manual: Option<AtomicU64>,
}

impl<R> Shared<R> {
    pub(crate) fn new() -> Self {
        Self {
            jobs: Mutex::new(Jobs::new()),
            wake: Condvar::default(),
            start: now(),
            manual: None,
        }
    }

    /// Creates the state of a scheduler without a thread. Its time is tick 0 until it is moved.
    pub(crate) fn manual() -> Self {
        Self {
            manual: Some(AtomicU64::new(0)),
            ..Self::new()
        }
    }

    pub(crate) fn add(&self, schedule: Schedule, run: R) -> Key {
        self.change(|jobs| jobs.add(schedule, run))
    }

    pub(crate) fn move_to(&self, key: Key, tick: u64) -> bool {
        self.change(|jobs| jobs.move_to(key, tick))
    }

    pub(crate) fn set_period(&self, key: Key, first: u64, period: u64) -> bool {
        self.change(|jobs| jobs.set_period(key, first, period))
    }

    pub(crate) fn cancel(&self, key: Key) -> bool {
        let (was_armed, _run) = self.jobs.lock().cancel(key);
        was_armed
    }

    pub(crate) fn stop(&self) {
        self.change(Jobs::stop);
    }

    pub(crate) fn is_scheduled(&self, key: Key) -> bool {
        self.jobs.lock().is_scheduled(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.lock().len()
    }

    /// The tick of an instant, in nanoseconds from the start; 0 if it is before the start.
    pub(crate) fn tick_of(&self, when: Instant) -> u64 {
        nanoseconds(when.saturating_duration_since(self.start))
    }

    /// The tick at `delay` from now, but at most the last tick.
    pub(crate) fn tick_after(&self, delay: Duration) -> u64 {
        self.tick().saturating_add(nanoseconds(delay))
    }

    pub(crate) fn now(&self) -> Instant {
        match &self.manual {
            Some(tick) => self.start + Duration::from_nanos(tick.load(Ordering::Relaxed)),
            None => now(),
        }
    }

    fn tick(&self) -> u64 {
        match &self.manual {
            Some(tick) => tick.load(Ordering::Relaxed),
            None => self.tick_of(now()),
        }
    }

    pub(crate) fn move_time(&self, to: u64) {
        if let Some(tick) = &self.manual {
            tick.fetch_max(to, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_manual(&self) -> bool {
        self.manual.is_some()
    }

    /// Takes the next job that is due by tick `end`, and moves a manual time to the job's deadline.
    pub(crate) fn next_due_by(&self, end: u64) -> Option<(Key, R)> {
        let mut jobs = self.jobs.lock();
        if jobs.is_stopping() {
            return None;
        }
        let due = jobs.take_due(self.tick());
        if due.is_some() {
            return due;
        }
        let next = jobs.next_deadline().filter(|next| *next <= end)?;
        self.move_time(next);
        jobs.take_due(next)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Jobs<R>) -> T) -> T {
        let mut jobs = self.jobs.lock();
        let result = change(&mut jobs);
        if jobs.take_early_wake() {
            self.wake.notify_one();
        }
        result
    }

    /// Sleeps until a job is due, and takes the job. Returns `None` if the thread must stop.
    pub(crate) fn next_due(&self) -> Option<(Key, R)> {
        let mut jobs = self.jobs.lock();
        while !jobs.is_stopping() {
            let due = jobs.take_due(self.tick());
            if due.is_some() {
                return due;
            }
            jobs = self.sleep(jobs);
        }
        None
    }

    pub(crate) fn put_back(&self, key: Key, run: R, panicked: bool) -> Option<R> {
        self.jobs.lock().put_back(key, run, panicked)
    }

    pub(crate) fn take_all(&self) -> Vec<Slot<R>> {
        self.jobs.lock().take_all()
    }

    /// Sleeps until the next deadline or a notification; it may wake up early.
    fn sleep<'a>(&'a self, mut jobs: MutexGuard<'a, Jobs<R>>) -> MutexGuard<'a, Jobs<R>> {
        let end = jobs.fall_asleep().and_then(|tick| self.instant_of(tick));
        let mut jobs = match end {
            Some(end) => self.wake.wait_until(jobs, end),
            None => self.wake.wait(jobs),
        };
        jobs.wake_up();
        jobs
    }

    /// The instant of a tick; `None` if it is out of the range of `Instant`.
    fn instant_of(&self, tick: u64) -> Option<Instant> {
        self.start.checked_add(Duration::from_nanos(tick))
    }
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
