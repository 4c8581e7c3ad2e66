//! What a queue must do to be measured.

use std::hint::black_box;

use evcore_timer::TimerQueue;

use super::script::{END_MS, Step, TIMEOUT_MS};
use crate::run::cpu_ns;

/// A queue in Rust, operation by operation; the loops around them are compiled for each.
pub(super) trait Queue {
    /// Whether its time can be set, millisecond by millisecond, at no cost.
    const KEEPS_TIME: bool = true;

    /// Whether it takes a deadline that is past.
    const TAKES_PAST: bool = true;

    /// Arms, or arms again.
    fn arm(&mut self, id: u32, deadline: u64);

    /// Disarms a timer that is armed.
    fn disarm(&mut self, id: u32);

    /// When to call `pop_expired` next.
    fn next_deadline(&mut self) -> Option<u64>;

    /// Takes a timer that is due.
    fn pop_expired(&mut self, now: u64) -> Option<u32>;
}

/// The queues of `evcore-timer`, by their one trait.
impl<Q: TimerQueue> Queue for Q {
    fn arm(&mut self, id: u32, deadline: u64) {
        TimerQueue::arm(self, id, deadline);
    }

    fn disarm(&mut self, id: u32) {
        TimerQueue::disarm(self, id);
    }

    fn next_deadline(&mut self) -> Option<u64> {
        TimerQueue::next_deadline(self)
    }

    fn pop_expired(&mut self, now: u64) -> Option<u32> {
        TimerQueue::pop_expired(self, now).map(|(id, _)| id)
    }
}

/// A queue as the measurement sees it: a whole script a call.
pub(crate) trait PeerQueue {
    /// Arms, or arms again.
    fn arm(&mut self, steps: &[Step]);

    /// Disarms, then arms.
    fn replace(&mut self, steps: &[Step]);

    /// Expires all, in the turns that the queue asks for; returns how many fired.
    fn expire(&mut self) -> usize;

    /// Expires all; returns the nanoseconds of each call, none if it has no calls of its own.
    fn time_expiry(&mut self) -> Vec<u64> {
        Vec::new()
    }

    /// Arms all after the time has passed them, and expires them; returns the nanoseconds of each
    /// call, none if it cannot.
    fn time_past_deadlines(&mut self, _steps: &[Step]) -> Vec<u64> {
        Vec::new()
    }

    /// Takes what is due whenever a millisecond begins, and arms it again; returns false if it cannot.
    fn serve(&mut self, _steps: &[Step]) -> bool {
        false
    }
}

impl<Q: Queue> PeerQueue for Q {
    fn arm(&mut self, steps: &[Step]) {
        for step in steps {
            Queue::arm(self, step.id, step.deadline);
        }
    }

    fn replace(&mut self, steps: &[Step]) {
        for step in steps {
            self.disarm(step.id);
            Queue::arm(self, step.id, step.deadline);
        }
    }

    fn expire(&mut self) -> usize {
        let mut fired = 0;
        while let Some(now) = self.next_deadline() {
            while let Some(id) = self.pop_expired(now) {
                black_box(id);
                fired += 1;
            }
        }
        fired
    }

    fn time_expiry(&mut self) -> Vec<u64> {
        let mut calls = Calls::begin();
        calls.expire(self, |deadline| deadline);
        calls.ns
    }

    fn time_past_deadlines(&mut self, steps: &[Step]) -> Vec<u64> {
        if !(Q::KEEPS_TIME && Q::TAKES_PAST) {
            return Vec::new();
        }
        assert_eq!(self.pop_expired(END_MS), None, "nothing is armed yet");
        let mut calls = Calls::begin();
        for step in steps {
            Queue::arm(self, step.id, step.deadline);
            calls.after_one();
        }
        calls.expire(self, |_| END_MS);
        calls.ns
    }

    fn serve(&mut self, steps: &[Step]) -> bool {
        let mut last = 0;
        for step in steps.iter().filter(|_| Q::KEEPS_TIME) {
            if step.deadline != last {
                last = step.deadline;
                while let Some(id) = self.pop_expired(last - TIMEOUT_MS) {
                    Queue::arm(self, id, last);
                }
            }
            Queue::arm(self, step.id, step.deadline);
        }
        Q::KEEPS_TIME
    }
}

/// The times of calls.
struct Calls {
    ns: Vec<u64>,
    last_ns: u64,
}

impl Calls {
    fn begin() -> Calls {
        Calls {
            ns: Vec::new(),
            last_ns: cpu_ns(),
        }
    }

    fn after_one(&mut self) {
        self.ns.push(cpu_ns() - self.last_ns);
        // What the list itself takes is not a call's.
        self.last_ns = cpu_ns();
    }

    /// Expires all, at the times that `now` makes of the deadlines.
    ///
    /// A queue may pause where one call would take too long.
    fn expire<Q: Queue>(&mut self, queue: &mut Q, now: impl Fn(u64) -> u64) {
        while let Some(deadline) = queue.next_deadline() {
            self.after_one();
            while queue.pop_expired(now(deadline)).is_some() {
                self.after_one();
            }
            self.after_one();
        }
    }
}
