//! What a wait brings back.

use crate::Ready;

/// One descriptor's readiness, under the key it was registered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The key that was given to [`Poller::add`](crate::Poller::add), all 64 bits.
    pub key: u64,
    /// What the descriptor is ready for.
    pub ready: Ready,
}

/// The buffer that [`Poller::wait`](crate::Poller::wait) fills: made once, used for ever.
///
/// ```
/// use evcore_poller::Events;
///
/// let events = Events::with_capacity(512);
/// assert_eq!(events.capacity(), 512);
/// assert!(events.is_empty() && !events.woken());
/// ```
#[derive(Debug)]
pub struct Events {
    // Invariant: at most `capacity` entries, so that it is never reallocated.
    list: Vec<Event>,
    capacity: usize,
    woken: bool,
    /// The union of all readiness in `list`: tells at once whether anything exceptional came.
    seen: Ready,
}

impl Events {
    /// A buffer for at most `capacity` events a wait (16 bytes each, allocated now).
    ///
    /// What does not fit is reported by the next wait. A wait refuses a capacity of zero.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            list: Vec::with_capacity(capacity),
            capacity,
            woken: false,
            seen: Ready::NONE,
        }
    }

    /// Adds an event. For backends.
    ///
    /// # Panics
    ///
    /// Where there is no [`room`](Self::room): a backend reports no more than it was asked for.
    #[inline]
    pub fn push(&mut self, key: u64, ready: Ready) {
        assert!(
            self.list.len() < self.capacity,
            "a backend reported more events than asked for"
        );
        self.seen |= ready;
        self.list.push(Event { key, ready });
    }

    /// Notes that a [`Waker`](crate::Waker) ended the wait. For backends.
    pub fn set_woken(&mut self) {
        self.woken = true;
    }

    /// Empties the buffer.
    pub fn clear(&mut self) {
        self.list.clear();
        self.woken = false;
        self.seen = Ready::NONE;
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Event> {
        self.list.iter_mut()
    }

    /// Whether a [`Waker`](crate::Waker) ended the wait.
    #[must_use]
    pub fn woken(&self) -> bool {
        self.woken
    }

    /// The union of all readiness in the buffer.
    #[must_use]
    pub fn seen(&self) -> Ready {
        self.seen
    }

    /// How many more events fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.capacity - self.list.len()
    }

    /// How many events fit in all.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no events (a wake-up is not an event: ask [`woken`](Self::woken)).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The event at `position`, in the order of arrival.
    #[must_use]
    #[inline]
    pub fn at(&self, position: usize) -> Option<Event> {
        self.list.get(position).copied()
    }

    /// The events in the order of arrival.
    pub fn iter(&self) -> std::slice::Iter<'_, Event> {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a Events {
    type Item = &'a Event;
    type IntoIter = std::slice::Iter<'a, Event>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
