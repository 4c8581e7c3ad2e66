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

    /// Expires all, and notes the time of each call; returns false if it has no calls of its own.
    fn time_expiry(&mut self, _calls: &mut Calls) -> bool {
        false
    }

    /// Arms all after the time has passed them, expires them, and notes the time of each call;
    /// returns false if it cannot.
    fn time_past_deadlines(&mut self, _steps: &[Step], _calls: &mut Calls) -> bool {
        false
    }

    /// Takes what is due whenever a millisecond begins, and arms it again; returns false if it cannot.
    fn serve(&mut self, _steps: &[Step]) -> bool {
        false
    }
}

/// The least time of each call over several runs of the same calls.
///
/// A stall of the machine hits another call in each run, so what is left is the call's own.
#[derive(Default)]
pub(crate) struct Calls {
    least_ns: Vec<u64>,
    /// The index of the run's next call.
    next: usize,
    last_ns: u64,
}

impl Calls {
    pub(super) fn longest_ns(&self) -> u64 {
        self.least_ns.iter().copied().max().unwrap_or(0)
    }

    pub(super) fn begin_run(&mut self) {
        self.next = 0;
        self.last_ns = cpu_ns();
    }

    fn after_a_call(&mut self) {
        self.note(cpu_ns() - self.last_ns);
        // What the list itself takes is not a call's.
        self.last_ns = cpu_ns();
    }

    pub(super) fn note(&mut self, took_ns: u64) {
        match self.least_ns.get_mut(self.next) {
            Some(least_ns) => *least_ns = took_ns.min(*least_ns),
            None => self.least_ns.push(took_ns),
        }
        self.next += 1;
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

    fn time_expiry(&mut self, calls: &mut Calls) -> bool {
        calls.begin_run();
        time_calls(self, calls, |deadline| deadline);
        true
    }

    fn time_past_deadlines(&mut self, steps: &[Step], calls: &mut Calls) -> bool {
        if !(Q::KEEPS_TIME && Q::TAKES_PAST) {
            return false;
        }
        assert_eq!(self.pop_expired(END_MS), None, "nothing is armed yet");
        calls.begin_run();
        for step in steps {
            Queue::arm(self, step.id, step.deadline);
            calls.after_a_call();
        }
        time_calls(self, calls, |_| END_MS);
        true
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

/// Expires all at the times that `now` makes of the deadlines, and notes the time of each call.
///
/// A queue may pause where one call would take too long.
fn time_calls<Q: Queue>(queue: &mut Q, calls: &mut Calls, now: impl Fn(u64) -> u64) {
    while let Some(deadline) = queue.next_deadline() {
        calls.after_a_call();
        while queue.pop_expired(now(deadline)).is_some() {
            calls.after_a_call();
        }
        calls.after_a_call();
    }
}
