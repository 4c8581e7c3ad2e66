//! The state under the scheduler's lock: the jobs, their timers, and whether the thread sleeps.
//! Times are in ticks, which are nanoseconds since the start of the scheduler.
//!
//! This module returns closures instead of running or dropping them, because they are the user's
//! code, and the caller runs and drops them outside the lock.

#[cfg(all(test, not(evcore_loom)))]
mod tests;

use std::mem;
use std::time::Duration;

use evcore_timer::{TimerHeap, TimerQueue};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Schedule {
    Once(u64),
    Every { first: u64, period: u64 },
}

/// The id of a job's timer, and a serial number that no other job has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    id: u32,
    serial: u64,
}

pub(crate) struct Jobs<R> {
    timers: TimerHeap,
    // Invariant: it has a slot for every id that was used; the timer of a free slot is not armed.
    slots: Vec<Slot<R>>,
    free: Vec<u32>,
    serials: u64,
    /// The tick at which the current phase of the timers began. A phase fires only timers that were
    /// armed before it began.
    phase: u64,
    /// The tick until which the thread sleeps; `None` while it is awake or waking up.
    sleeps_until: Option<u64>,
    stopping: bool,
}

impl<R> Jobs<R> {
    pub(crate) fn new() -> Self {
        Self {
            timers: TimerHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            serials: 0,
            phase: 0,
            sleeps_until: None,
            stopping: false,
        }
    }

    pub(crate) fn add(&mut self, schedule: Schedule, run: R) -> Key {
        let id = self.free.pop().unwrap_or_else(|| self.new_slot());
        self.serials += 1;
        let serial = self.serials;
        let period = match schedule {
            Schedule::Once(_) => None,
            Schedule::Every { period, .. } => Some(period),
        };
        self.slots[id as usize] = Slot {
            serial,
            period,
            work: Work::Waiting(run),
        };
        let (Schedule::Once(first) | Schedule::Every { first, .. }) = schedule;
        self.arm(id, first);
        Key { id, serial }
    }

    /// Cancels a job. Returns whether it was scheduled, and its closure if the job was waiting.
    pub(crate) fn cancel(&mut self, key: Key) -> (bool, Option<R>) {
        let Some(slot) = self.slot(key) else {
            return (false, None);
        };
        match mem::replace(&mut slot.work, Work::Cancelled) {
            Work::Waiting(run) => {
                self.free(key.id);
                (true, Some(run))
            }
            Work::Running | Work::Cancelled => (self.timers.disarm(key.id), None),
        }
    }

    pub(crate) fn move_to(&mut self, key: Key, tick: u64) -> bool {
        let moves = self.lasting(key).is_some();
        if moves {
            self.arm(key.id, tick);
        }
        moves
    }

    /// Gives a job another period, and moves its next run to the tick `first`. Returns false if the
    /// job has ended.
    pub(crate) fn set_period(&mut self, key: Key, first: u64, period: u64) -> bool {
        if let Some(slot) = self.lasting(key) {
            slot.period = Some(period);
        }
        self.move_to(key, first)
    }

    /// Takes a job that is due. The caller runs it and then [puts it back](Self::put_back).
    pub(crate) fn take_due(&mut self, now: u64) -> Option<(Key, R)> {
        let mut expired = self.timers.pop_expired(self.phase);
        if expired.is_none() {
            self.phase = now;
            expired = self.timers.pop_expired(now);
        }
        let (id, _) = expired?;
        self.skip_missed(id, now);
        let slot = &mut self.slots[id as usize];
        let serial = slot.serial;
        match mem::replace(&mut slot.work, Work::Running) {
            Work::Waiting(run) => Some((Key { id, serial }, run)),
            Work::Running | Work::Cancelled => unreachable!("one job runs at a time"),
        }
    }

    /// Moves a periodic timer that has fired to its first regular tick after `now`. The timer queue
    /// has moved the timer already, but only beyond the beginning of the phase. If other jobs of
    /// the phase ran for long, the new tick has passed, too.
    fn skip_missed(&mut self, id: u32, now: u64) {
        let next = self.timers.deadline(id).filter(|next| *next <= now);
        let (Some(next), Some(period)) = (next, self.timers.period(id)) else {
            return;
        };
        let missed = (now - next) / period;
        // The last missed tick is not after `now`, so only the sum for the next tick can overflow.
        match (next + missed * period).checked_add(period) {
            Some(next) => self.timers.arm_periodic(id, next, period),
            None => _ = self.timers.disarm(id),
        }
    }

    /// Puts back the closure of a job that ran. If the job has ended, returns the closure instead.
    pub(crate) fn put_back(&mut self, key: Key, run: R, panicked: bool) -> Option<R> {
        let armed = self.timers.is_armed(key.id);
        let Some(slot) = self.slot(key) else {
            return Some(run);
        };
        if armed && !panicked {
            slot.work = Work::Waiting(run);
            return None;
        }
        self.free(key.id);
        Some(run)
    }

    pub(crate) fn next_deadline(&mut self) -> Option<u64> {
        self.timers.next_deadline()
    }

    /// Records that the thread goes to sleep. Returns the tick until which it may sleep.
    pub(crate) fn fall_asleep(&mut self) -> Option<u64> {
        let next = self.next_deadline();
        self.sleeps_until = Some(next.unwrap_or(u64::MAX));
        next
    }

    pub(crate) fn wake_up(&mut self) {
        self.sleeps_until = None;
    }

    /// Returns whether the caller must wake the thread, because it sleeps beyond the next deadline
    /// or must stop. Returns true at most once per sleep.
    pub(crate) fn take_early_wake(&mut self) -> bool {
        let next = self.next_deadline();
        let is_too_late = self
            .sleeps_until
            .is_some_and(|until| self.stopping || next.is_some_and(|next| next < until));
        if is_too_late {
            self.sleeps_until = None;
        }
        is_too_late
    }

    pub(crate) fn stop(&mut self) {
        self.stopping = true;
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    pub(crate) fn take_all(&mut self) -> Vec<Slot<R>> {
        self.timers.clear();
        self.free.clear();
        mem::take(&mut self.slots)
    }

    pub(crate) fn is_scheduled(&self, key: Key) -> bool {
        let slot = self.slots.get(key.id as usize);
        slot.is_some_and(|slot| slot.serial == key.serial) && self.timers.is_armed(key.id)
    }

    pub(crate) fn len(&self) -> usize {
        self.timers.len()
    }

    fn slot(&mut self, key: Key) -> Option<&mut Slot<R>> {
        let slot = self.slots.get_mut(key.id as usize)?;
        (slot.serial == key.serial).then_some(slot)
    }

    /// The slot of a job that has not ended.
    fn lasting(&mut self, key: Key) -> Option<&mut Slot<R>> {
        self.slot(key)
            .filter(|slot| !matches!(slot.work, Work::Cancelled))
    }

    fn new_slot(&mut self) -> u32 {
        let id = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        assert!(
            id <= TimerHeap::ID_MAX,
            "cannot schedule another job: {} are scheduled already",
            self.slots.len()
        );
        self.slots.push(Slot::FREE);
        id
    }

    fn free(&mut self, id: u32) {
        self.timers.disarm(id);
        self.slots[id as usize] = Slot::FREE;
        self.free.push(id);
    }

    fn arm(&mut self, id: u32, tick: u64) {
        match self.slots[id as usize].period {
            None => self.timers.arm(id, tick),
            Some(period) => self.timers.arm_periodic(id, tick, period),
        }
    }
}

pub(crate) struct Slot<R> {
    /// 0 if the slot is free.
    serial: u64,
    period: Option<u64>,
    work: Work<R>,
}

impl<R> Slot<R> {
    const FREE: Self = Self {
        serial: 0,
        period: None,
        work: Work::Cancelled,
    };
}

enum Work<R> {
    Waiting(R),
    Running,
    /// The job is in its last run, or the slot is free.
    Cancelled,
}

pub(crate) fn assert_period(period: Duration) {
    assert!(
        !period.is_zero(),
        "the period is zero: the job would never stop running"
    );
}
