//! The queues in Rust that need little code.

use std::collections::BTreeSet;
use std::hint::black_box;

use evcore_timer::TimerQueue;

use super::queue::Queue;

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

/// The loop itself: reads the script and does nothing.
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

    fn pop_expired(&mut self, _: u64) -> Option<u32> {
        None
    }
}

/// The standard library's ordered map: the baseline. Deadlines in order, and a table with the
/// deadline of each id.
#[derive(Debug)]
pub(super) struct BTree {
    order: BTreeSet<(u64, u32)>,
    /// 0 for what is not armed: no deadline of the script is 0.
    deadlines: Vec<u64>,
}

impl BTree {
    pub(super) fn new(ids: usize) -> BTree {
        BTree {
            order: BTreeSet::new(),
            deadlines: vec![0; ids],
        }
    }
}

impl Queue for BTree {
    fn arm(&mut self, id: u32, deadline: u64) {
        let old = std::mem::replace(&mut self.deadlines[id as usize], deadline);
        if old != 0 {
            self.order.remove(&(old, id));
        }
        self.order.insert((deadline, id));
    }

    fn disarm(&mut self, id: u32) {
        let old = std::mem::take(&mut self.deadlines[id as usize]);
        self.order.remove(&(old, id));
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.order.first().map(|(deadline, _)| *deadline)
    }

    fn pop_expired(&mut self, now: u64) -> Option<u32> {
        self.order
            .first()
            .filter(|(deadline, _)| *deadline <= now)?;
        let (_, id) = self.order.pop_first()?;
        self.deadlines[id as usize] = 0;
        Some(id)
    }
}
