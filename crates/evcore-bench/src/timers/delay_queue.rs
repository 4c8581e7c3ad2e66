//! tokio-util's `DelayQueue`, polled by hand in a runtime whose clock stands still.
//!
//! It takes deadlines as instants, so arming asks for no time. While it expires, it goes from one
//! deadline to the next by itself, with a `Sleep` for each: that is part of what it is. Telling it
//! the time millisecond by millisecond would take a turn of the runtime each, which is not: so it
//! does not serve.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, advance};
use tokio_util::time::{DelayQueue, delay_queue::Key};

use super::operations::TIMEOUT_MS;
use super::queue::Queue;

/// The queue, its keys, and the runtime that it cannot do without.
#[derive(Debug)]
pub(super) struct Delayed {
    queue: DelayQueue<u32>,
    keys: Vec<Option<Key>>,
    start: Instant,
    /// Whether the clock has been moved to where all is due.
    over: bool,
    runtime: Runtime,
}

impl Delayed {
    pub(super) fn new(ids: usize) -> Delayed {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O needs nothing of the system");
        let entered = runtime.enter();
        let (queue, start) = (DelayQueue::with_capacity(ids), Instant::now());
        drop(entered);
        Delayed {
            queue,
            keys: vec![None; ids],
            start,
            over: false,
            runtime,
        }
    }
}

impl Queue for Delayed {
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

    fn next_deadline(&mut self) -> Option<u64> {
        if !self.over {
            self.over = true;
            let end = Duration::from_millis(2 * TIMEOUT_MS);
            self.runtime.block_on(advance(end));
        }
        (!self.queue.is_empty()).then_some(0)
    }

    fn pop_expired(&mut self, _now: u64) -> Option<u32> {
        let _entered = self.runtime.enter();
        let mut context = Context::from_waker(Waker::noop());
        match self.queue.poll_expired(&mut context) {
            Poll::Ready(Some(expired)) => {
                let id = expired.into_inner();
                self.keys[id as usize] = None;
                Some(id)
            }
            Poll::Ready(None) | Poll::Pending => None,
        }
    }

    fn keeps_time(&self) -> bool {
        false
    }
}
