//! The queues in Rust that do not belong to this project.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hierarchical_hash_wheel_timer::IdOnlyTimerEntry;
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::QuadWheelWithOverflow;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, advance};
use tokio_util::time::{DelayQueue, delay_queue::Key};

use super::queue::Queue;
use super::script::TIMEOUT_MS;

/// The measuring loop itself: it reads the script and does nothing.
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

/// The baseline: the standard library's ordered set, of deadlines with their ids, and a table with
/// the deadline of each id.
pub(super) struct BTree {
    order: BTreeSet<(u64, u32)>,
    /// The deadline of each id; 0 if its timer is not armed, because no deadline of the script is
    /// 0.
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
        let old = mem::replace(&mut self.deadlines[id as usize], deadline);
        if old != 0 {
            self.order.remove(&(old, id));
        }
        self.order.insert((deadline, id));
    }

    fn disarm(&mut self, id: u32) {
        let old = mem::take(&mut self.deadlines[id as usize]);
        self.order.remove(&(old, id));
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.order.first().map(|(deadline, _)| *deadline)
    }

    fn pop_expired(&mut self, now: u64) -> Option<u32> {
        let first = self.order.first();
        first.filter(|(deadline, _)| *deadline <= now)?;
        let (_, id) = self.order.pop_first()?;
        self.deadlines[id as usize] = 0;
        Some(id)
    }
}

/// tokio-util's `DelayQueue`, its keys, and the runtime that it needs. The clock of this runtime
/// stands still.
///
/// It takes deadlines as instants, so arming reads no clock. While timers expire, it goes from one
/// deadline to the next by itself, with a `Sleep` for each, which is a part of its cost. The
/// queue's time advances only in an iteration of the runtime's loop. A simulated minute of serving
/// would need such an iteration for each millisecond. So this queue is left out of serving.
pub(super) struct Delayed {
    queue: DelayQueue<u32>,
    keys: Vec<Option<Key>>,
    start: Instant,
    runtime: Runtime,
}

impl Delayed {
    pub(super) fn new(ids: usize) -> Delayed {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without I/O needs nothing of the system");
        let entered = runtime.enter();
        let (queue, start) = (DelayQueue::with_capacity(ids), Instant::now());
        drop(entered);
        Delayed {
            queue,
            keys: vec![None; ids],
            start,
            runtime,
        }
    }
}

impl Queue for Delayed {
    const KEEPS_TIME: bool = false;

    fn arm(&mut self, id: u32, deadline: u64) {
        let when = self.start + Duration::from_millis(deadline);
        match self.keys[id as usize] {
            Some(key) => self.queue.reset_at(&key, when),
            None => {
                let _entered = self.runtime.enter();
                self.keys[id as usize] = Some(self.queue.insert_at(id, when));
            }
        }
    }

    fn disarm(&mut self, id: u32) {
        if let Some(key) = self.keys[id as usize].take() {
            self.queue.try_remove(&key);
        }
    }

    /// Advances the clock to a time at which all timers are due.
    fn next_deadline(&mut self) -> Option<u64> {
        if self.queue.is_empty() {
            return None;
        }
        self.runtime.block_on(async {
            let end = self.start + Duration::from_millis(2 * TIMEOUT_MS);
            advance(end.saturating_duration_since(Instant::now())).await;
        });
        Some(0)
    }

    fn pop_expired(&mut self, _now: u64) -> Option<u32> {
        let _entered = self.runtime.enter();
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut context) else {
            return None;
        };
        let id = expired.into_inner();
        self.keys[id as usize] = None;
        Some(id)
    }
}

type Entry = IdOnlyTimerEntry<u32>;

/// The wheel of `hierarchical_hash_wheel_timer` that can cancel timers, and the present time of
/// this wheel, which the crate does not expose.
///
/// A cancelled timer leaves an empty entry in its slot until the wheel reaches it, so re-arming is
/// quick and takes memory. A deadline in the past becomes the next tick.
pub(super) struct HashWheel {
    wheel: QuadWheelWithOverflow<Entry>,
    armed: Vec<bool>,
    now: u64,
    expired: Vec<Rc<Entry>>,
}

impl HashWheel {
    pub(super) fn new(ids: usize) -> HashWheel {
        HashWheel {
            wheel: QuadWheelWithOverflow::new(),
            armed: vec![false; ids],
            now: 0,
            expired: Vec::new(),
        }
    }
}

impl Queue for HashWheel {
    fn arm(&mut self, id: u32, deadline: u64) {
        if self.armed[id as usize] {
            self.disarm(id);
        }
        let ms = deadline.saturating_sub(self.now).max(1);
        let delay = Duration::from_millis(ms);
        let entry = Rc::new(Entry::new(id, delay));
        let armed = self.wheel.insert_ref_with_delay(entry, delay);
        armed.expect("the deadline is to come");
        self.armed[id as usize] = true;
    }

    fn disarm(&mut self, id: u32) {
        self.wheel.cancel(&id).expect("it is armed");
        self.armed[id as usize] = false;
    }

    fn next_deadline(&mut self) -> Option<u64> {
        match self.wheel.can_skip() {
            Skip::Empty => None,
            Skip::Millis(ms) => Some(self.now + u64::from(ms) + 1),
            Skip::None => Some(self.now + 1),
        }
    }

    /// Ticks until a timer expires, or until `now`.
    fn pop_expired(&mut self, now: u64) -> Option<u32> {
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
        let id = self.expired.pop()?.id;
        self.armed[id as usize] = false;
        Some(id)
    }
}
