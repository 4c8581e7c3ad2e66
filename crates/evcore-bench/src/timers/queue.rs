//! The operations that a queue must have to be measured.

use std::hint::black_box;

use evcore_timer::TimerQueue;

use super::script::{Step, TIMEOUT_MS};
use crate::run::cpu_ns;

/// The operations of a queue in Rust. The loops around them are compiled for each queue.
pub(super) trait Queue {
    /// True if its time can be set to each millisecond at no cost.
    const KEEPS_TIME: bool = true;

    fn arm(&mut self, id: u32, deadline: u64);

    fn disarm(&mut self, id: u32);

    fn next_deadline(&mut self) -> Option<u64>;

    fn pop_expired(&mut self, now: u64) -> Option<u32>;
}

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

/// A queue as the measurement uses it. Each call runs a whole script, or a simulated server's work
/// of one millisecond.
pub(crate) trait PeerQueue {
    fn arm(&mut self, steps: &[Step]);

    fn replace(&mut self, steps: &[Step]);

    /// Expires all timers, at the deadlines that the queue reports. Returns how many fired.
    fn expire(&mut self) -> usize;

    /// Arms the timers of these steps at the time `_now`, and expires all. Returns the nanoseconds
    /// of each call, or an empty list if the time cannot be set.
    fn time_calls(&mut self, _now: u64, _steps: &[Step]) -> Vec<u64> {
        Vec::new()
    }

    /// Takes the timers that are due at this time, and arms them again. Returns false if the time
    /// cannot be set.
    fn rearm_due(&mut self, now: u64, deadline: u64) -> bool;

    /// Serves a turn with one event for each step. Returns false if the time cannot be set.
    ///
    /// A turn arms the step's timer, disarms it if the connection `closes`, reads the next
    /// deadline, and arms again the timers that are due.
    fn turns(&mut self, steps: &[Step], closes: bool) -> bool;
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

    fn time_calls(&mut self, now: u64, steps: &[Step]) -> Vec<u64> {
        let mut calls = Vec::new();
        if now > 0 {
            if !Q::KEEPS_TIME {
                return calls;
            }
            assert_eq!(self.pop_expired(now), None, "nothing is armed yet");
        }
        let mut last = cpu_ns();
        let mut after_one = || {
            calls.push(cpu_ns() - last);
            // The cost of adding to the list does not count.
            last = cpu_ns();
        };
        for step in steps {
            Queue::arm(self, step.id, step.deadline);
            after_one();
        }
        // `pop_expired` may return `None` although timers are due, so that no call takes too long.
        while let Some(deadline) = self.next_deadline() {
            after_one();
            while self.pop_expired(deadline.max(now)).is_some() {
                after_one();
            }
            after_one();
        }
        calls
    }

    fn rearm_due(&mut self, now: u64, deadline: u64) -> bool {
        if !Q::KEEPS_TIME {
            return false;
        }
        while let Some(id) = self.pop_expired(now) {
            Queue::arm(self, id, deadline);
        }
        true
    }
    fn turns(&mut self, steps: &[Step], closes: bool) -> bool {
        Q::KEEPS_TIME
            && steps.iter().all(|step| {
                Queue::arm(self, step.id, step.deadline);
                if closes {
                    self.disarm(step.id);
                }
                black_box(self.next_deadline());
                self.rearm_due(step.deadline - TIMEOUT_MS, step.deadline)
            })
    }
}
