//! `hierarchical_hash_wheel_timer`: its wheel with cancelling.
//!
//! A timer that is cancelled leaves an empty entry in its slot until the wheel comes there, so
//! re-arming is quick and takes memory.

use std::rc::Rc;
use std::time::Duration;

use hierarchical_hash_wheel_timer::IdOnlyTimerEntry;
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::QuadWheelWithOverflow;

use super::queue::Queue;

type Entry = IdOnlyTimerEntry<u32>;

/// The wheel, and its time, which it does not expose.
pub(super) struct HashWheel {
    wheel: QuadWheelWithOverflow<Entry>,
    armed: Vec<bool>,
    len: usize,
    now: u64,
    /// What the last tick brought.
    expired: Vec<Rc<Entry>>,
}

impl HashWheel {
    pub(super) fn new(ids: usize) -> HashWheel {
        HashWheel {
            wheel: QuadWheelWithOverflow::new(),
            armed: vec![false; ids],
            len: 0,
            now: 0,
            expired: Vec::new(),
        }
    }

    /// Ticks until something expires, or `now` has come.
    fn tick_to(&mut self, now: u64) {
        while self.now < now && self.expired.is_empty() {
            match self.wheel.can_skip() {
                Skip::Empty => self.now = now,
                Skip::Millis(ms) => {
                    let ms = u64::from(ms).min(now - self.now);
                    self.wheel.skip(u32::try_from(ms).unwrap_or(u32::MAX));
                    self.now += ms;
                }
                Skip::None => {
                    self.expired = self.wheel.tick();
                    self.now += 1;
                }
            }
        }
    }
}

impl Queue for HashWheel {
    fn arm(&mut self, id: u32, deadline: u64) {
        if self.armed[id as usize] {
            self.disarm(id);
        }
        let delay = Duration::from_millis(deadline - self.now);
        let entry = Rc::new(Entry::new(id, delay));
        let armed = self.wheel.insert_ref_with_delay(entry, delay);
        armed.expect("the deadline is to come");
        self.armed[id as usize] = true;
        self.len += 1;
    }

    fn disarm(&mut self, id: u32) {
        self.wheel.cancel(&id).expect("it is armed");
        self.armed[id as usize] = false;
        self.len -= 1;
    }

    fn next_deadline(&mut self) -> Option<u64> {
        let skip = match self.wheel.can_skip() {
            Skip::Millis(ms) => u64::from(ms),
            Skip::Empty | Skip::None => 0,
        };
        (self.len > 0).then_some(self.now + skip + 1)
    }

    fn pop_expired(&mut self, now: u64) -> Option<u32> {
        if self.expired.is_empty() {
            self.tick_to(now);
        }
        let id = self.expired.pop()?.id;
        self.armed[id as usize] = false;
        self.len -= 1;
        Some(id)
    }

    fn takes_past(&self) -> bool {
        false
    }
}
