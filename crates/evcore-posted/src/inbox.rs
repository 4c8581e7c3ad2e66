//! An inbox: a bounded queue of values from other threads, for an event loop that sleeps until
//! something happens.
//!
//! A loop waits in one place only. So the program passes a function that ends this wait, and an
//! inbox calls it to wake the receiver.
//!
//! A sender on another thread may wait for room. The receiver deliberately cannot wait for a value,
//! because a loop waits in one place only. Dropping the last sender deliberately does not close the
//! inbox, because an inbox can always create another sender.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::channel::Channel;
use crate::send_error::SendError;

/// The receiving end of a bounded queue that any number of threads send to.
///
/// Values of one sender arrive in the order in which they were sent. No value is lost, and none
/// arrives twice. Dropping the inbox drops the values in it; later sends hand their values back.
///
/// # When it wakes
///
/// A value that is sent during a drain waits for the next drain. `wake` is called when the first
/// value begins to wait for the next drain. The call comes from the send of that value, or from a
/// [`Drain`] that leaves values. Further sends do not call it. `wake` is called without a lock, on
/// the thread of that sender or on the receiver's, and must not panic. If the receiver is not
/// waiting at that moment, the wake-up must end its next wait, as `evcore-poller`'s `Waker` and
/// [`Thread::unpark`](std::thread::Thread::unpark) do. The receiver must drain after each wake-up,
/// before it waits again; the drain may find nothing.
///
/// # Cost
///
/// A send takes the lock for a short time. A drain takes the lock when it begins. It takes the lock
/// again at its end if it leaves values, or if a sender [waits for room](Sender::send_timeout).
/// There are two buffers. Each grows when more values are queued than ever before, and does not
/// shrink. Nothing is allocated once both have grown.
///
/// # Signal handlers
///
/// A send takes a lock and may allocate, so a signal handler must not send. Let the handler set an
/// atomic flag and wake the loop.
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
    channel: Arc<Shared<T>>,
    // Invariant: empty, unless a drain is in progress or was forgotten.
    batch: VecDeque<T>,
}

type Shared<T> = Channel<T, Box<dyn Fn() + Send + Sync>>;

impl<T> Inbox<T> {
    /// Creates an inbox that holds at most `limit` values; a [`send`](Sender::send) beyond that
    /// hands its value back.
    ///
    /// A value counts until a drain has yielded it. `wake` ends the receiver's wait: see
    /// [When it wakes](#when-it-wakes). `limit` is a bound and not a reservation: nothing is
    /// allocated for values yet.
    ///
    /// # Panics
    ///
    /// If `limit` is 0.
    #[must_use]
    pub fn bounded(limit: usize, wake: impl Fn() + Send + Sync + 'static) -> Self {
        assert!(limit > 0, "an inbox must hold at least one value");
        Self {
            channel: Arc::new(Channel::new(limit, Box::new(wake))),
            batch: VecDeque::new(),
        }
    }

    /// Takes all queued values under the lock, and yields them one after another without the lock.
    ///
    /// Values that are sent meanwhile are left for the next drain, so this one ends. Values that
    /// are not taken out of the iterator stay queued and wake the receiver again:
    /// `drain().take(64)` is a budget.
    pub fn drain(&mut self) -> Drain<'_, T> {
        self.channel.take(&mut self.batch);
        Drain { inbox: self }
    }

    /// Creates a sender, for this thread or another.
    #[must_use]
    pub fn sender(&self) -> Sender<T> {
        Sender {
            channel: Arc::clone(&self.channel),
        }
    }

    /// The number of queued values. Takes the lock.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batch.len() + self.channel.queue.lock().waiting.len()
    }

    /// Returns whether no value is queued. Takes the lock.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        // The values are dropped without the lock, because the `drop` of a value may send, which
        // takes the lock.
        drop(self.channel.close());
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("len", &self.len())
            .field("limit", &self.channel.limit)
            .finish_non_exhaustive()
    }
}

/// A sending end of an [`Inbox`]. Cheap to clone; any thread may use it.
///
/// # Examples
///
/// ```
/// use evcore_posted::{Inbox, SendError};
///
/// let mut inbox = Inbox::bounded(2, || println!("wake up"));
/// let (one, two) = (inbox.sender(), inbox.sender());
/// assert_eq!(one.send(1), Ok(())); // wakes the receiver
/// assert_eq!(two.send(2), Ok(())); // does not: it was woken already
/// assert_eq!(one.send(3), Err(SendError::Full(3)));
/// assert!(inbox.drain().eq([1, 2]));
/// ```
pub struct Sender<T> {
    channel: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Queues a value, and wakes the receiver if no other value waits for its next drain. Does not
    /// wait for room.
    ///
    /// O(1), except when the queue grows because more values are queued than ever before.
    /// Must not be called from a signal handler.
    ///
    /// # Errors
    ///
    /// [`SendError`] hands the value back if the inbox is full or closed.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.channel.send(value)
    }

    /// Queues a value like [`send`](Self::send), and waits for room for at most `timeout`.
    ///
    /// Senders that wait are notified when a [`Drain`] ends, and compete for the places that it has
    /// freed. With a timeout of zero the call does not wait, and with [`Duration::MAX`] it waits
    /// without limit.
    ///
    /// The call blocks its thread. Do not call it on the receiver's own thread, because then
    /// nothing would make room.
    ///
    /// # Errors
    ///
    /// [`SendError`] hands the value back: [`Full`](SendError::Full) if the timeout passes, and
    /// [`Closed`](SendError::Closed) if the inbox is closed before or during the wait.
    ///
    /// # Examples
    ///
    /// A producer that is faster than the loop slows down instead of losing values:
    ///
    /// ```
    /// use evcore_posted::Inbox;
    /// use std::{thread, time::Duration};
    ///
    /// let this = thread::current();
    /// let mut inbox = Inbox::bounded(2, move || this.unpark());
    /// let lines = inbox.sender();
    /// let producer = thread::spawn(move || {
    ///     (0..100).try_for_each(|line| lines.send_timeout(line, Duration::from_secs(60)))
    /// });
    ///
    /// let mut received = Vec::new();
    /// while received.len() < 100 {
    ///     thread::park(); // an event loop's wait
    ///     received.extend(inbox.drain());
    /// }
    /// assert!(received.into_iter().eq(0..100));
    /// assert_eq!(producer.join().unwrap(), Ok(()));
    /// ```
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendError<T>> {
        // A deadline beyond the range of the clock never comes, so it is left out.
        let deadline = Instant::now().checked_add(timeout);
        self.channel.send_until(value, deadline)
    }

    /// Returns whether the inbox was dropped, so that it takes no more values. Takes the lock.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.channel.queue.lock().closed
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            channel: Arc::clone(&self.channel),
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

/// The values that were queued when [`Inbox::drain`] was called, oldest first.
///
/// A drain that is dropped early, even by a panic, puts the rest back and wakes the receiver. A
/// drain that is forgotten (`mem::forget`) wakes neither the receiver nor a sender that waits for
/// room. The next drain then yields the rest.
///
/// # Examples
///
/// ```
/// use evcore_posted::Inbox;
///
/// let mut inbox = Inbox::bounded(10, || {});
/// (0..5).for_each(|n| inbox.sender().send(n).expect("there is room"));
/// assert!(inbox.drain().take(2).eq([0, 1]));
/// assert_eq!(inbox.drain().len(), 3);
/// assert!(inbox.drain().eq([2, 3, 4]));
/// ```
#[must_use = "a drain yields its values as an iterator"]
pub struct Drain<'a, T> {
    inbox: &'a mut Inbox<T>,
}

impl<T> Iterator for Drain<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.inbox.channel.next(&mut self.inbox.batch)
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
        self.inbox.channel.put_back(&mut self.inbox.batch);
    }
}

impl<T> fmt::Debug for Drain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
