//! The thread that sleeps and runs, and what it shares with those who add jobs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::agenda::{Agenda, Key, Plan, Run};
use super::job::Job;
use super::nanoseconds;
use crate::sync::{Condvar, Mutex, MutexGuard, now};

/// What is due, and how to wake the thread.
#[derive(Debug)]
pub(super) struct Shared {
    agenda: Mutex<Agenda>,
    wake: Condvar,
    /// Tick 0.
    start: Instant,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            agenda: Mutex::new(Agenda::default()),
            wake: Condvar::default(),
            start: now(),
        }
    }

    pub(super) fn add(&self, plan: Plan, run: Run) -> Key {
        self.change(|agenda| agenda.add(plan, run))
    }

    pub(super) fn move_to(&self, key: Key, tick: u64) -> bool {
        self.change(|agenda| agenda.move_to(key, tick))
    }

    pub(super) fn cancel(&self, key: Key) -> bool {
        let (was_armed, _run) = self.agenda.lock().cancel(key);
        was_armed
    }

    pub(super) fn stop(&self) {
        self.change(Agenda::stop);
    }

    pub(super) fn is_scheduled(&self, key: Key) -> bool {
        self.agenda.lock().is_scheduled(key)
    }

    pub(super) fn len(&self) -> usize {
        self.agenda.lock().len()
    }

    /// Ticks are nanoseconds from the start; what lies before it is tick 0.
    pub(super) fn tick_of(&self, when: Instant) -> u64 {
        nanoseconds(when.saturating_duration_since(self.start))
    }

    /// The tick when `delay` has passed; the last one, if it is beyond that.
    pub(super) fn tick_after(&self, delay: Duration) -> u64 {
        self.tick_of(now()).saturating_add(nanoseconds(delay))
    }

    /// Changes the agenda, and wakes the thread if it must not sleep on.
    fn change<T>(&self, change: impl FnOnce(&mut Agenda) -> T) -> T {
        let mut agenda = self.agenda.lock();
        let answer = change(&mut agenda);
        if agenda.oversleeps() {
            self.wake.notify_one();
        }
        answer
    }

    /// Sleeps until a job is due; `None` when it is time to stop.
    fn next_due(&self) -> Option<(Key, Run)> {
        let mut agenda = self.agenda.lock();
        while !agenda.is_stopping() {
            let due = agenda.take_due(self.tick_of(now()));
            if due.is_some() {
                return due;
            }
            agenda = self.sleep(agenda);
        }
        None
    }

    /// Sleeps until the next deadline or a call, and sometimes less.
    fn sleep<'a>(&'a self, mut agenda: MutexGuard<'a, Agenda>) -> MutexGuard<'a, Agenda> {
        let end = agenda.fall_asleep().and_then(|tick| self.instant_of(tick));
        let mut agenda = match end {
            Some(end) => self.wake.wait_until(agenda, end),
            None => self.wake.wait(agenda),
        };
        agenda.wake_up();
        agenda
    }

    /// `None` where it is beyond what an `Instant` can tell.
    fn instant_of(&self, tick: u64) -> Option<Instant> {
        self.start.checked_add(Duration::from_nanos(tick))
    }
}

/// What the thread does: jobs as they come due, until it is told to stop.
pub(super) fn body(
    shared: Arc<Shared>,
    mut report: impl FnMut(&Job, Box<dyn Any + Send>) + Send + 'static,
) -> impl FnOnce() + Send + 'static {
    move || {
        while let Some((key, mut run)) = shared.next_due() {
            let job = Job::new(Arc::clone(&shared), key);
            let ran = contain(|| run(&job));
            let over = shared.agenda.lock().put_back(key, run, ran.is_err());
            // Its captures are the user's too, and may panic when dropped.
            let dropped = contain(|| drop(over));
            for panic in [ran, dropped].into_iter().filter_map(Result::err) {
                let _ = contain(|| report(&job, panic));
            }
        }
        let unrun = shared.agenda.lock().take_all();
        for slot in unrun {
            let _ = contain(|| drop(slot));
        }
    }
}

/// Runs the user's code; its panic is an error.
fn contain(code: impl FnOnce()) -> Result<(), Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(code))
}
