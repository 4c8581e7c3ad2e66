//! What the senders and the receiver of an inbox share: a queue, its lock, and when to wake.
//!
//! One rule: whoever makes the queue non-empty wakes the receiver, after letting go of the lock.
//! That is the sender of the first value, or the receiver when it puts back what it has not
//! handled.
//! So whenever a value waits, a wake-up has been made since the queue was last taken, or the thread
//! that put the first value there is about to make it.
//! Inside the lock the wake-up would only send the receiver against the lock.
//!
//! The receiver takes the whole queue and leaves an empty one of its own in its place: the lock is
//! held for the swap of two pointers, and neither side allocates once both have grown.
//!
//! Nothing here names another part of the crate but `send_error.rs` and `sync.rs`:
//! `tests/loom_inbox.rs` includes these files, runs them over loom's lock, and puts the steps
//! together wrongly to show what each is there for. That is why the fields are open.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::Ordering::Relaxed;

use crate::send_error::SendError;
use crate::sync::{AtomicUsize, Mutex};

/// A queue of values that wait for a receiver, and the way to wake it.
#[derive(Debug)]
pub(crate) struct Mailbox<T, W> {
    pub(crate) queue: Mutex<Queue<T>>,

    /// How many values the receiver has taken out of the queue and not yet handled.
    ///
    /// Set under the lock, but counted down without it. A sender, which reads it under the lock,
    /// may therefore find more than there are, never fewer: relaxed is enough.
    pub(crate) in_hand: AtomicUsize,

    // Invariant: no more values than this are in the queue and in hand together.
    pub(crate) limit: usize,

    pub(crate) wake: W,
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    pub(crate) waiting: VecDeque<T>,
    // Invariant: nothing waits once it is set.
    pub(crate) closed: bool,
}

impl<T, W: Fn()> Mailbox<T, W> {
    pub(crate) fn new(limit: usize, wake: W) -> Self {
        Self {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                closed: false,
            }),
            in_hand: AtomicUsize::new(0),
            limit,
            wake,
        }
    }

    /// Queues a value behind all others, and wakes if it is the first.
    pub(crate) fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.push(value)? {
            (self.wake)();
        }
        Ok(())
    }

    /// Queues a value, and says whether it is the first.
    pub(crate) fn push(&self, value: T) -> Result<bool, SendError<T>> {
        let mut queue = self.queue.lock();
        if queue.closed {
            return Err(SendError::Closed(value));
        }
        if queue.waiting.len() + self.in_hand.load(Relaxed) >= self.limit {
            return Err(SendError::Full(value));
        }
        queue.waiting.push_back(value);
        Ok(queue.waiting.len() == 1)
    }

    /// Takes all that waits, behind what `batch` holds.
    pub(crate) fn take(&self, batch: &mut VecDeque<T>) {
        let mut queue = self.queue.lock();
        if batch.is_empty() {
            mem::swap(batch, &mut queue.waiting);
        } else {
            batch.append(&mut queue.waiting);
        }
        self.in_hand.store(batch.len(), Relaxed);
    }

    /// The next value of a batch that was taken. Its place is free from now on.
    #[inline]
    pub(crate) fn next(&self, batch: &mut VecDeque<T>) -> Option<T> {
        let value = batch.pop_front()?;
        self.in_hand.store(batch.len(), Relaxed);
        Some(value)
    }

    /// Puts the rest of a batch back in front of what has come since, and wakes if nothing has.
    ///
    /// Costs O(values that have come since), each of which pays for this once.
    pub(crate) fn put_back(&self, rest: &mut VecDeque<T>) {
        if !rest.is_empty() && self.push_front(rest) {
            (self.wake)();
        }
    }

    /// Puts `rest` in front of what waits, and says whether nothing did.
    pub(crate) fn push_front(&self, rest: &mut VecDeque<T>) -> bool {
        let mut queue = self.queue.lock();
        let first = queue.waiting.is_empty();
        rest.append(&mut queue.waiting);
        mem::swap(rest, &mut queue.waiting);
        self.in_hand.store(0, Relaxed);
        first
    }

    /// Refuses all values from now on, and gives out those that wait, to be dropped without the
    /// lock.
    pub(crate) fn close(&self) -> VecDeque<T> {
        let mut queue = self.queue.lock();
        queue.closed = true;
        mem::take(&mut queue.waiting)
    }
}
