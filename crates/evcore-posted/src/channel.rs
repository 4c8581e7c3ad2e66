//! The state that the senders and the receiver of an inbox share: a queue, its lock, and the rule
//! that decides when the receiver is woken.
//!
//! The rule: the side that makes the queue non-empty wakes the receiver, after releasing the lock.
//! This side is the sender of the first value, or the receiver when it puts back values that it has
//! not handled. So if the queue is non-empty, the receiver has been woken since it last took the
//! queue, or the thread that queued the first value is about to wake it. A wake-up inside the lock
//! would only make the receiver block on that lock.
//!
//! The receiver takes the whole queue and leaves its own empty one in its place. To take, it holds
//! the lock only for that swap, unless an earlier drain was leaked (`mem::forget`). Neither side
//! allocates once both buffers have grown.
//!
//! If the inbox is full, a sender may wait for a place. It sets a flag and then looks for a place
//! once more. The receiver frees places, and looks at the flag when its drain ends. A fence on both
//! sides makes sure that at least one side sees the change of the other side. So a drain takes no
//! further lock while no sender waits.
//!
//! Of the crate, this file uses only `send_error.rs` and `sync.rs`, because `tests/loom_inbox.rs`
//! includes all three. That test runs them over loom's lock, and replaces single steps by wrong
//! ones to show what each step is for. Therefore the fields are `pub(crate)`.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Instant;

use crate::send_error::SendError;
use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, fence};

#[derive(Debug)]
pub(crate) struct Channel<T, W> {
    pub(crate) queue: Mutex<Queue<T>>,

    /// Number of values that the receiver has taken out of the queue and not yet yielded.
    ///
    /// Set under the lock, and counted down without it. A sender reads it under the lock, so the
    /// number may be too high but not too low, and `Relaxed` is enough.
    pub(crate) in_hand: AtomicUsize,

    // Invariant: the queue and the values in hand are together no more than this.
    pub(crate) limit: usize,

    pub(crate) room: Condvar,

    /// True if a sender may be waiting for a place. Written under the lock.
    pub(crate) has_waiting: AtomicBool,

    pub(crate) wake: W,
}

#[derive(Debug)]
pub(crate) struct Queue<T> {
    pub(crate) waiting: VecDeque<T>,
    // Invariant: once it is set, `waiting` is empty.
    pub(crate) closed: bool,
}

impl<T, W: Fn()> Channel<T, W> {
    pub(crate) fn new(limit: usize, wake: W) -> Self {
        Self {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                closed: false,
            }),
            in_hand: AtomicUsize::new(0),
            limit,
            room: Condvar::new(),
            has_waiting: AtomicBool::new(false),
            wake,
        }
    }

    /// Queues a value at the back, and wakes the receiver if the queue was empty.
    pub(crate) fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.push(value)? {
            (self.wake)();
        }
        Ok(())
    }

    /// Queues a value at the back, and returns whether the queue was empty.
    pub(crate) fn push(&self, value: T) -> Result<bool, SendError<T>> {
        self.push_locked(&mut self.queue.lock(), value)
    }

    /// Like [`send`](Self::send), but waits for a place until the deadline. Without a deadline it
    /// waits until there is a place.
    pub(crate) fn send_until(
        &self,
        value: T,
        deadline: Option<Instant>,
    ) -> Result<(), SendError<T>> {
        if self.push_until(value, deadline)? {
            (self.wake)();
        }
        Ok(())
    }

    pub(crate) fn push_until(
        &self,
        value: T,
        deadline: Option<Instant>,
    ) -> Result<bool, SendError<T>> {
        let mut queue = self.queue.lock();
        let mut has_time = true;
        while has_time && self.must_wait(&queue) {
            (queue, has_time) = self.room.wait(queue, deadline);
        }
        self.push_locked(&mut queue, value)
    }

    pub(crate) fn push_locked(&self, queue: &mut Queue<T>, value: T) -> Result<bool, SendError<T>> {
        if queue.closed {
            return Err(SendError::Closed(value));
        }
        if self.is_full(queue) {
            return Err(SendError::Full(value));
        }
        queue.waiting.push_back(value);
        Ok(queue.waiting.len() == 1)
    }

    pub(crate) fn is_full(&self, queue: &Queue<T>) -> bool {
        queue.waiting.len() + self.in_hand.load(Relaxed) >= self.limit
    }

    /// Returns whether the channel is full and open. If so, the receiver notifies `room` when it
    /// has freed places.
    pub(crate) fn must_wait(&self, queue: &Queue<T>) -> bool {
        if queue.closed || !self.is_full(queue) {
            return false;
        }
        self.has_waiting.store(true, Relaxed);
        // The fence is needed because the receiver frees places without the lock: see
        // `notify_room`.
        fence(SeqCst);
        self.is_full(queue)
    }

    pub(crate) fn notify_room(&self) {
        fence(SeqCst);
        if self.has_waiting.load(Relaxed) {
            // The lock makes sure that a sender which has set the flag is waiting.
            let queue = self.queue.lock();
            self.has_waiting.store(false, Relaxed);
            drop(queue);
            self.room.notify_all();
        }
    }

    /// Moves the whole queue behind the values that `batch` still holds.
    pub(crate) fn take(&self, batch: &mut VecDeque<T>) {
        let mut queue = self.queue.lock();
        if batch.is_empty() {
            mem::swap(batch, &mut queue.waiting);
        } else {
            batch.append(&mut queue.waiting);
        }
        self.in_hand.store(batch.len(), Relaxed);
    }

    #[inline]
    pub(crate) fn next(&self, batch: &mut VecDeque<T>) -> Option<T> {
        let value = batch.pop_front()?;
        self.in_hand.store(batch.len(), Relaxed);
        Some(value)
    }

    /// Puts the rest of a batch back in front of the queue, and wakes the receiver if the queue was
    /// empty. Then notifies the senders that wait for a place.
    ///
    /// Costs O(values sent since the batch was taken). Each value is moved at most once.
    pub(crate) fn put_back(&self, rest: &mut VecDeque<T>) {
        if !rest.is_empty() && self.push_front(rest) {
            (self.wake)();
        }
        self.notify_room();
    }

    /// Puts `rest` in front of the queue, and returns whether the queue was empty.
    pub(crate) fn push_front(&self, rest: &mut VecDeque<T>) -> bool {
        let mut queue = self.queue.lock();
        let was_empty = queue.waiting.is_empty();
        rest.append(&mut queue.waiting);
        mem::swap(rest, &mut queue.waiting);
        self.in_hand.store(0, Relaxed);
        was_empty
    }

    /// Refuses all further values, also those of senders that wait for a place. Returns the queued
    /// ones, which the caller drops without the lock.
    pub(crate) fn close(&self) -> VecDeque<T> {
        let mut queue = self.queue.lock();
        queue.closed = true;
        let dropped = mem::take(&mut queue.waiting);
        drop(queue);
        self.room.notify_all();
        dropped
    }
}
