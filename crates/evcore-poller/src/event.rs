//! What a wait brings back.

use crate::Ready;

/// One descriptor's readiness, under the key it was registered with.
///
/// ```
/// use evcore_poller::{Events, Ready};
///
/// let mut events = Events::with_capacity(1);
/// events.push(7, Ready::READABLE); // as a backend does
/// for event in &events {
///     assert!(event.key == 7 && event.ready.is_readable());
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The key that was given to [`Poller::add`](crate::Poller::add), all 64 bits.
    pub key: u64,
    /// What the descriptor is ready for.
    pub ready: Ready,
    /// [`UNKNOWN`], or how many bytes can be read.
    available: u32,
}

/// In [`Event`]: the kernel did not say.
const UNKNOWN: u32 = u32::MAX;

impl Event {
    /// How many bytes can be read, where the kernel says so (kqueue): whoever has read that many
    /// needs no further read to learn that there is no more for now. (Of a listener: how many
    /// connections wait.)
    #[must_use]
    #[inline]
    pub fn available(&self) -> Option<u32> {
        (self.available != UNKNOWN).then_some(self.available)
    }
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
    /// All readiness that came: tells at once whether any of it was exceptional.
    // Invariant: the union of all readiness in `list`, at least.
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
        self.push_with_available(key, ready, None);
    }

    /// Adds an event, and how many bytes can be read, where that is known. For backends.
    ///
    /// # Panics
    ///
    /// As [`push`](Self::push).
    #[inline]
    pub fn push_with_available(&mut self, key: u64, ready: Ready, available: Option<u32>) {
        assert!(
            self.list.len() < self.capacity,
            "a backend reported more events than asked for"
        );
        self.seen |= ready;
        self.list.push(Event {
            key,
            ready,
            // The highest number means that there is none; one byte less is as good a hint.
            available: available.map_or(UNKNOWN, |bytes| bytes.min(UNKNOWN - 1)),
        });
    }

    /// Adds what a kernel's array holds, without a check for each.
    ///
    /// # Panics
    ///
    /// Where there is no [`room`](Self::room) for all.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[inline]
    pub(crate) fn extend(&mut self, events: impl ExactSizeIterator<Item = (u64, Ready)>) {
        assert!(
            events.len() <= self.room(),
            "a backend reported more events than asked for"
        );
        let mut seen = self.seen;
        self.list.extend(events.map(|(key, ready)| {
            seen |= ready;
            Event {
                key,
                ready,
                available: UNKNOWN,
            }
        }));
        self.seen = seen;
    }

    /// Drops the events of `key`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn drop_key(&mut self, key: u64) {
        self.list.retain(|event| event.key != key);
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

    /// Whether an error or a hang-up may be among the events.
    pub(crate) fn has_exceptional(&self) -> bool {
        self.seen.is_exceptional()
    }

    /// Leaves the first `from` events alone, and of the others only those that `keep` wants.
    pub(crate) fn retain_from(&mut self, from: usize, mut keep: impl FnMut(&mut Event) -> bool) {
        let mut place = 0;
        self.list.retain_mut(|event| {
            place += 1;
            place <= from || keep(event)
        });
    }

    /// Whether a [`Waker`](crate::Waker) ended the wait.
    #[must_use]
    #[inline]
    pub fn woken(&self) -> bool {
        self.woken
    }

    /// How many more events fit.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity - self.list.len()
    }

    /// How many events fit in all.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many events there are.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no events (a wake-up is not an event: ask [`woken`](Self::woken)).
    #[must_use]
    #[inline]
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
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Event> {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a Events {
    type Item = &'a Event;
    type IntoIter = std::slice::Iter<'a, Event>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_takes_as_much_as_the_documentation_says() {
        assert_eq!(size_of::<Event>(), 16);
    }

    #[test]
    fn what_can_be_read_is_told_where_it_is_known() {
        let mut events = Events::with_capacity(4);
        events.push(0, Ready::READABLE);
        for bytes in [0, 1, u32::MAX] {
            events.push_with_available(1, Ready::READABLE, Some(bytes));
        }
        let told: Vec<_> = events.iter().map(Event::available).collect();
        assert_eq!(told, [None, Some(0), Some(1), Some(u32::MAX - 1)]);
    }
}
