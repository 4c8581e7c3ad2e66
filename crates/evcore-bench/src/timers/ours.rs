//! The queues of `evcore-timer`.

use evcore_timer::TimerQueue;

use super::queue::Queue;

/// Any of them, by their one trait.
#[derive(Debug)]
pub(super) struct Ours<Q>(pub(super) Q);

impl<Q: TimerQueue> Queue for Ours<Q> {
    fn arm(&mut self, id: u32, deadline: u64) {
        self.0.arm(id, deadline);
    }

    fn disarm(&mut self, id: u32) {
        self.0.disarm(id);
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.0.next_deadline()
    }

    fn pop_expired(&mut self, now: u64) -> Option<u32> {
        self.0.pop_expired(now).map(|(id, _)| id)
    }
}
