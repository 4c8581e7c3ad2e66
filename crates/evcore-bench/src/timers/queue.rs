//! What a queue must do to be measured.

use std::hint::black_box;
use std::time::Instant;

use super::script::{Step, TIMEOUT_MS};

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
}

/// A queue as the measurement sees it: a whole script a call.
pub(super) trait PeerQueue {
    /// Arms, or arms again.
    fn arm(&mut self, steps: &[Step]);

    /// Disarms, then arms.
    fn replace(&mut self, steps: &[Step]);

    /// Expires all, in the turns that the queue asks for; returns how many fired.
    fn expire(&mut self) -> usize;

    /// Expires all, and returns the nanoseconds of each call; none if calls cannot be told
    /// apart.
    fn expire_call_by_call(&mut self) -> Vec<u32> {
        Vec::new()
    }

    /// Takes what is due whenever a millisecond begins, and arms it again.
    ///
    /// Returns whether it can.
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

    fn expire_call_by_call(&mut self) -> Vec<u32> {
        let mut calls = Vec::new();
        while let Some(now) = self.next_deadline() {
            let mut more = true;
            while more {
                let start = Instant::now();
                more = self.pop_expired(now).is_some();
                let ns = start.elapsed().as_nanos();
                calls.push(u32::try_from(ns).unwrap_or(u32::MAX));
            }
        }
        calls
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
