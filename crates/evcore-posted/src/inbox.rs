//! Values from other threads, for a loop that sleeps until something happens.
//!
//! The receiver is woken by a call, not by a descriptor or a condition of its own: the loop waits
//! in one place only, and that place knows how to be woken.
//!
//! Deliberately absent: waiting for a value or for a place, since a loop must do neither; closing
//! by the last sender, since an inbox can always make another.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use crate::mailbox::Mailbox;
use crate::send_error::SendError;

/// The receiving end of a queue that any number of threads send to.
///
/// Values of one sender arrive in the order they were sent. None is lost and none comes twice.
///
/// **When it wakes.** `wake` is called once when values come to wait where none did: by the send of
/// the first, or by a [`Drain`] that leaves some. While values wait, further sends call nothing.
/// The call is made without a lock, on the thread of that sender or of the receiver.
/// It must be kept for the receiver's next wait if it is not waiting just then (as
/// `evcore-poller`'s `Waker` and [`Thread::unpark`](std::thread::Thread::unpark) do), and must not
/// panic. The receiver drains after each wake-up, before it waits again; it may find nothing.
///
/// **What it costs.** A send takes one short lock, a drain one at its beginning and one at its end
/// if it leaves values. There are two buffers, each of which grows to the most values that ever
/// waited;
/// they do not shrink, and nothing is allocated once they have grown.
///
/// **Not from a signal handler**: a send takes a lock and may allocate. Let the handler set an
/// atomic flag and wake the loop.
///
/// Dropped, it drops the values that wait, and hands back all that are sent later.
///
/// # Examples
///
/// A thread pool hands its results to a thread that handles at most 64 of them at a time:
///
/// ```
/// use evcore_posted::Inbox;
/// use std::thread;
///
/// let this = thread::current();
/// let mut inbox = Inbox::bounded(1_000, move || this.unpark());
/// for worker in 0..4 {
///     let results = inbox.sender();
///     thread::spawn(move || results.send(worker * worker));
/// }
///
/// let mut sum = 0;
/// let mut missing = 4;
/// while missing > 0 {
///     thread::park(); // an event loop's wait
///     for result in inbox.drain().take(64) {
///         sum += result;
///         missing -= 1;
///     }
/// }
/// assert_eq!(sum, 14);
/// ```
pub struct Inbox<T> {
    mailbox: Arc<Shared<T>>,
    // Invariant: empty, unless a drain lives or was forgotten.
    batch: VecDeque<T>,
}

type Shared<T> = Mailbox<T, Box<dyn Fn() + Send + Sync>>;

impl<T> Inbox<T> {
    /// Creates an inbox that holds at most `limit` values; a [`send`](Sender::send) beyond that
    /// hands its value back.
    ///
    /// A value counts until a drain has yielded it. `wake` ends the receiver's wait, as described
    /// [above](Inbox#when-it-wakes). Allocates no room for values yet: `limit` is a bound, not a
    /// reservation.
    ///
    /// # Panics
    ///
    /// If `limit` is 0.
    #[must_use]
    pub fn bounded(limit: usize, wake: impl Fn() + Send + Sync + 'static) -> Self {
        assert!(limit > 0, "an inbox must hold at least one value");
        Self {
            mailbox: Arc::new(Mailbox::new(limit, Box::new(wake))),
            batch: VecDeque::new(),
        }
    }

    /// Takes all values that wait, in one short lock, and yields them one after another.
    ///
    /// What is sent meanwhile is left for the next drain, so that this one ends. What is not taken
    /// out of the iterator waits on, and wakes the receiver again: `drain().take(64)` is a budget.
    pub fn drain(&mut self) -> Drain<'_, T> {
        self.mailbox.take(&mut self.batch);
        Drain { inbox: self }
    }

    /// Makes a sender, for this thread or another.
    #[must_use]
    pub fn sender(&self) -> Sender<T> {
        Sender {
            mailbox: Arc::clone(&self.mailbox),
        }
    }

    /// The number of values that wait. Takes the lock.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batch.len() + self.mailbox.queue.lock().waiting.len()
    }

    /// Whether no value waits. Takes the lock.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        // A value's `drop` may send: it must not meet the lock.
        drop(self.mailbox.close());
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("len", &self.len())
            .field("limit", &self.mailbox.limit)
            .finish_non_exhaustive()
    }
}

/// A sending end of an [`Inbox`]. Cheap to clone, fit for any thread.
///
/// # Examples
///
/// ```
/// use evcore_posted::{Inbox, SendError};
///
/// let mut inbox = Inbox::bounded(2, || println!("come and see"));
/// let (one, two) = (inbox.sender(), inbox.sender());
/// assert_eq!(one.send(1), Ok(())); // wakes
/// assert_eq!(two.send(2), Ok(())); // does not: a wake-up is under way
/// assert_eq!(one.send(3), Err(SendError::Full(3)));
/// assert!(inbox.drain().eq([1, 2]));
/// ```
pub struct Sender<T> {
    mailbox: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Sends a value, and wakes the receiver if it is the first to wait. Never waits for a place.
    ///
    /// O(1), but for the growth of the queue when more values wait than ever did.
    /// Not to be called from a signal handler.
    ///
    /// # Errors
    ///
    /// [`SendError`] hands the value back: the inbox is full, or gone.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.mailbox.send(value)
    }

    /// Whether the inbox is gone, so that there is no use in making values for it. Takes the lock.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.mailbox.queue.lock().closed
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            mailbox: Arc::clone(&self.mailbox),
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// The values that waited when [`Inbox::drain`] was called, the oldest first.
///
/// Dropped early, also by a panic, it puts the rest back in its place and wakes the receiver.
/// Forgotten (`mem::forget`), it wakes nobody, and the next drain yields the rest.
///
/// # Examples
///
/// ```
/// use evcore_posted::Inbox;
///
/// let mut inbox = Inbox::bounded(10, || {});
/// (0..5).for_each(|n| inbox.sender().send(n).expect("the inbox lives"));
/// assert!(inbox.drain().take(2).eq([0, 1]));
/// assert_eq!(inbox.drain().len(), 3);
/// assert!(inbox.drain().eq([2, 3, 4]));
/// ```
#[must_use = "values come out by iterating"]
pub struct Drain<'a, T> {
    inbox: &'a mut Inbox<T>,
}

impl<T> Iterator for Drain<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.inbox.mailbox.next(&mut self.inbox.batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.inbox.batch.len();
        (left, Some(left))
    }
}

impl<T> ExactSizeIterator for Drain<'_, T> {}

impl<T> FusedIterator for Drain<'_, T> {}

impl<T> Drop for Drain<'_, T> {
    fn drop(&mut self) {
        self.inbox.mailbox.put_back(&mut self.inbox.batch);
    }
}

impl<T> fmt::Debug for Drain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
