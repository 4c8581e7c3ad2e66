//! What a queue must do to be measured.

use std::hint::black_box;

use super::operations::{END_MS, Step, TIMEOUT_MS};
use crate::run::cpu_ns;

/// A queue in Rust, operation by operation; the loops around them are compiled for each.
pub(super) trait Queue {
    /// Arms, or arms again.
    fn arm(&mut self, id: u32, deadline: u64);

    /// Disarms a timer that is armed.
    fn disarm(&mut self, id: u32);

    /// When to call `pop_expired` next.
    fn next_deadline(&mut self) -> Option<u64>;

    /// Takes a timer that is due.
    fn pop_expired(&mut self, now: u64) -> Option<u32>;

    /// Whether its time can be set, millisecond by millisecond, at no cost.
    fn keeps_time(&self) -> bool {
        true
    }

    /// Whether it takes a deadline that is past.
    fn takes_past(&self) -> bool {
        true
    }
}

/// A queue as the measurement sees it: a whole script a call.
pub(super) trait PeerQueue {
    /// Arms, or arms again.
    fn arm(&mut self, steps: &[Step]);

    /// Disarms, then arms.
    fn replace(&mut self, steps: &[Step]);

    /// Expires all, in the turns that the queue asks for; returns how many fired.
    fn expire(&mut self) -> usize;

    /// Expires all, and returns the nanoseconds of the longest call; `None` if it has no calls of
    /// its own.
    fn longest_call(&mut self) -> Option<u64> {
        None
    }

    /// Arms all after the time has passed them, and expires them: the longest call of all.
    fn longest_call_for_past(&mut self, _steps: &[Step]) -> Option<u64> {
        None
    }

    /// Takes what is due whenever a millisecond begins, and arms it again.
    ///
    /// Returns whether it can.
    fn serve(&mut self, _steps: &[Step]) -> bool {
        false
    }
}

/// The longest time from one call to the next.
struct Longest {
    last: u64,
    longest: u64,
}

impl Longest {
    fn new() -> Longest {
        Longest {
            last: cpu_ns(),
            longest: 0,
        }
    }

    fn after_a_call(&mut self) {
        let now = cpu_ns();
        self.longest = self.longest.max(now - self.last);
        self.last = now;
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

    fn longest_call(&mut self) -> Option<u64> {
        let mut calls = Longest::new();
        while let Some(now) = self.next_deadline() {
            calls.after_a_call();
            let mut more = true;
            while more {
                more = self.pop_expired(now).is_some();
                calls.after_a_call();
            }
        }
        Some(calls.longest)
    }

    fn longest_call_for_past(&mut self, steps: &[Step]) -> Option<u64> {
        if !(self.keeps_time() && self.takes_past()) {
            return None;
        }
        assert_eq!(self.pop_expired(END_MS), None, "nothing is armed yet");
        let mut calls = Longest::new();
        for step in steps {
            Queue::arm(self, step.id, step.deadline);
            calls.after_a_call();
        }
        // A queue may pause where one call would take too long.
        while self.next_deadline().is_some() {
            calls.after_a_call();
            while self.pop_expired(END_MS).is_some() {
                calls.after_a_call();
            }
            calls.after_a_call();
        }
        Some(calls.longest)
    }

    fn serve(&mut self, steps: &[Step]) -> bool {
        if !self.keeps_time() {
            return false;
        }
        let mut last = 0;
        for step in steps {
            if step.deadline != last {
                last = step.deadline;
                while let Some(id) = self.pop_expired(last - TIMEOUT_MS) {
                    Queue::arm(self, id, last);
                }
            }
            Queue::arm(self, step.id, step.deadline);
        }
        true
    }
}
