//! The loop itself: what is left when the queue does nothing.

use std::hint::black_box;

use super::queue::Queue;

/// Reads the script and forgets it.
#[derive(Debug)]
pub(super) struct Nothing;

impl Queue for Nothing {
    fn arm(&mut self, id: u32, deadline: u64) {
        black_box((id, deadline));
    }

    fn disarm(&mut self, id: u32) {
        black_box(id);
    }

    fn next_deadline(&mut self) -> Option<u64> {
        None
    }

    fn pop_expired(&mut self, now: u64) -> Option<u32> {
        black_box(now);
        None
    }
}
