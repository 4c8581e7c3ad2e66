//! The buffer into which a wait puts its events. epoll writes directly into it, and each entry
//! becomes an [`Event`] when it is read.

use std::{fmt, iter::FusedIterator, slice};

#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::refill::Refill;
use crate::{entry::Entry, event::Event, ready::Ready};

/// The highest capacity: epoll refuses a list of 2^31 bytes, and an event takes up to 16 bytes.
const MAX_CAPACITY: usize = (1 << 27) - 1;

/// The buffer that [`Poller::wait`](crate::Poller::wait) fills. Make one and use it for every wait.
///
/// ```
/// use evcore_poller::Events;
///
/// let events = Events::bounded(512);
/// assert_eq!(events.capacity(), 512);
/// assert!(events.is_empty() && !events.was_woken());
/// ```
pub struct Events {
    // Invariant: the vector is never reallocated, so its capacity is the buffer's capacity.
    entries: Vec<Entry>,
    // Invariant: it contains the flags of all `entries`, and `Seen::FULL` exactly if there is no
    // room.
    seen: Seen,
    raw: bool,
}

impl Events {
    /// Makes a buffer for at most `capacity` events per wait. A capacity of 0 counts as 1, and one
    /// of 2^27 or more as 2^27 - 1. Later waits report the events that do not fit.
    ///
    /// Allocates now: 12 bytes per event on x86-64, at most 16 elsewhere.
    #[must_use]
    pub fn bounded(capacity: usize) -> Self {
        Self {
            entries: Vec::with_capacity(capacity.clamp(1, MAX_CAPACITY)),
            seen: Seen::NOTHING,
            raw: false,
        }
    }

    /// Makes a buffer as [`bounded`](Self::bounded) does, for a program that has its own clock, and
    /// whose keys contain a generation by which it recognises events of a removed registration. A
    /// wait returns what the kernel returns.
    ///
    /// - A signal ends the wait with [`Error::Interrupted`](crate::Error::Interrupted), and no
    ///   clock is read to continue it. (On `io_uring` a clock is read before a wait that may block
    ///   until a timeout. If a signal comes together with a wake-up that reports nothing, the
    ///   signal does not always end the wait. A [`Waker`](crate::Waker) that the signal's handler
    ///   uses always ends it.)
    /// - Stale events of a key that was [removed before a
    ///   close](crate::Poller::remove_before_close) may follow other events in the buffer. If a
    ///   wait has only stale events, they are dropped, and the wait mostly fails with
    ///   `Error::Interrupted`. If too few descriptors are left to register everything anew, the
    ///   wait succeeds with 0 events instead.
    ///
    /// ```
    /// use evcore_poller::{Error, Events, Poller};
    /// use std::time::Duration;
    ///
    /// let (mut poller, mut events) = (Poller::new()?, Events::raw(64));
    /// match poller.wait(&mut events, Some(Duration::from_millis(1))) {
    ///     Ok(count) => assert_eq!(count, 0),
    ///     Err(Error::Interrupted) => {} // look at what the signal's handler did
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn raw(capacity: usize) -> Self {
        Self {
            raw: true,
            ..Self::bounded(capacity)
        }
    }

    /// Adds an event. Panics if there is no room.
    #[inline]
    pub(crate) fn push(&mut self, key: u64, ready: Ready) {
        assert!(
            self.remaining() > 0,
            "a backend reported more events than there is room for"
        );
        self.seen.0 |= u32::from(ready.bits());
        self.entries.push(Entry::new(key, ready));
        self.note_if_full();
    }

    #[inline]
    fn note_if_full(&mut self) {
        if self.remaining() == 0 {
            self.seen.0 |= Seen::FULL;
        }
    }

    /// Adds readiness to the event at `position` if the event has this key. Returns whether it has.
    #[cfg(target_os = "linux")]
    #[inline]
    pub(crate) fn add_ready(&mut self, position: usize, key: u64, ready: Ready) -> bool {
        match self.entries.get_mut(position) {
            Some(entry) if entry.key() == key => {
                self.seen.0 |= u32::from(ready.bits());
                *entry = Entry::new(key, entry.ready() | ready);
                true
            }
            _ => false,
        }
    }

    /// Returns the entries, into which a kernel may write without reallocating them. Afterwards
    /// call [`note_added`](Self::note_added) or [`note_refilled`](Self::note_refilled).
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[inline]
    pub(crate) fn entries_mut(&mut self) -> &mut Vec<Entry> {
        &mut self.entries
    }

    /// Updates `seen` for the entries that a kernel has added. Returns the union of all keys.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[inline]
    pub(crate) fn note_added(&mut self) -> u64 {
        let union = Entry::union(&self.entries);
        self.seen.0 |= union.flags();
        self.note_if_full();
        union.key()
    }

    /// Updates `seen` for the entries with which a kernel has replaced all earlier ones. `is_wake`
    /// recognises the waker's key in a union of keys.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[inline(always)] // into the wait, because most waits have one event
    pub(crate) fn note_refilled(&mut self, is_wake: impl Fn(u64) -> bool) -> Refill {
        let [entry] = self.entries[..] else {
            return self.note_many(is_wake);
        };
        let (key, flags) = (entry.key(), entry.flags());
        self.seen.0 = flags;
        if self.entries.capacity() == 1 {
            return self.full_or_woken();
        }
        Refill::One { key, flags }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[inline]
    fn note_many(&mut self, is_wake: impl Fn(u64) -> bool) -> Refill {
        let union = Entry::union(&self.entries);
        self.seen.0 = union.flags();
        if self.remaining() == 0 || is_wake(union.key()) {
            return self.full_or_woken();
        }
        Refill::Some(self.entries.len())
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[cold]
    fn full_or_woken(&mut self) -> Refill {
        self.note_if_full();
        Refill::FullOrWoken
    }

    #[inline]
    pub(crate) fn is_raw(&self) -> bool {
        self.raw
    }

    #[inline]
    pub(crate) fn set_woken(&mut self) {
        self.seen.0 |= Seen::WAKE;
    }

    #[inline]
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = u64> {
        self.entries.iter().map(|entry| entry.key())
    }

    /// Empties the buffer, and forgets a wake.
    #[inline]
    pub fn clear(&mut self) {
        self.entries.clear();
        self.seen = Seen::NOTHING;
    }

    /// Returns whether an event may have any of these flags.
    #[inline]
    pub(crate) fn has_any(&self, flags: u32) -> bool {
        self.seen.0 & flags != 0
    }

    /// Keeps the first `from` events, and of the others each for which `keep` returns true. `keep`
    /// may change the event.
    pub(crate) fn retain_from(&mut self, from: usize, mut keep: impl FnMut(&mut Event) -> bool) {
        let mut kept = from;
        for position in from..self.entries.len() {
            let mut event = event(self.entries[position]);
            if keep(&mut event) {
                self.entries[kept] = Entry::new(event.key, event.ready);
                kept += 1;
            }
        }
        if kept < self.entries.len() {
            self.entries.truncate(kept);
            self.seen.0 &= !Seen::FULL;
        }
    }

    /// Returns whether a [`Waker`](crate::Waker) woke the poller in the last wait.
    #[must_use]
    #[inline]
    pub fn was_woken(&self) -> bool {
        self.seen.0 & Seen::WAKE != 0
    }

    /// Returns whether there is no room for another event. If so, more descriptors may be ready.
    #[must_use]
    #[inline]
    pub fn is_full(&self) -> bool {
        self.seen.0 & Seen::FULL != 0
    }

    #[inline]
    pub(crate) fn remaining(&self) -> usize {
        self.entries.capacity() - self.entries.len()
    }

    /// Returns how many events fit in total.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Returns the number of events.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no events (a wake is not an event: see
    /// [`was_woken`](Self::was_woken)).
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the event at `position`, in the order of arrival; `None` if there are fewer events.
    #[must_use]
    #[inline]
    pub fn get(&self, position: usize) -> Option<Event> {
        self.entries.get(position).copied().map(event)
    }

    /// Iterates over the events in the order of arrival, by value.
    #[must_use]
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.entries.iter())
    }
}

#[inline]
fn event(entry: Entry) -> Event {
    Event {
        key: entry.key(),
        ready: entry.ready(),
    }
}

/// The result of a wait in one word: the flags of all events, whether a waker was used, and whether
/// there is no room. Flags that [`Ready`] does not have are ignored.
#[derive(Clone, Copy)]
struct Seen(u32);

impl Seen {
    const NOTHING: Self = Self(0);
    /// The bit of a wake. No event has it as a flag, because epoll uses it only in registrations.
    const WAKE: u32 = 1 << 31;
    /// The bit of a full buffer. As with `WAKE`, no event has it as a flag.
    const FULL: u32 = 1 << 30;
}

impl<'a> IntoIterator for &'a Events {
    type Item = Event;
    type IntoIter = Iter<'a>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<_> = self.iter().collect();
        f.debug_struct("Events")
            .field("list", &list)
            .field("capacity", &self.capacity())
            .field("woken", &self.was_woken())
            .finish_non_exhaustive()
    }
}

/// The events of a buffer, in the order of arrival: see [`Events::iter`].
///
/// ```
/// use evcore_poller::{EventSink, Events, Ready};
///
/// let mut events = Events::bounded(2);
/// let mut sink = EventSink::from(&mut events); // what a wait gives its backend
/// sink.push(7, Ready::READABLE);
/// sink.push(8, Ready::WRITABLE);
/// let mut iter = events.iter();
/// assert_eq!(iter.len(), 2);
/// assert_eq!(iter.next().map(|event| event.key), Some(7));
/// assert_eq!(iter.next().map(|event| event.key), Some(8));
/// assert_eq!(iter.next(), None);
/// ```
#[derive(Clone)]
pub struct Iter<'a>(slice::Iter<'a, Entry>);

impl Iterator for Iter<'_> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        self.0.next().copied().map(event)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl FusedIterator for Iter<'_> {}

/// Prints the remaining events.
impl fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_event_takes_12_or_16_bytes_as_documented() {
        let documented = if cfg!(target_arch = "x86_64") { 12 } else { 16 };
        assert_eq!(size_of::<Entry>(), documented);
    }

    proptest! {
        #[test]
        fn retain_from_keeps_events_for_which_keep_is_true(
            keys in prop::collection::vec(0..9u64, 0..20),
            from in 0..20usize,
        ) {
            let mut events = Events::bounded(20);
            for key in &keys {
                events.push(*key, Ready::READABLE);
            }
            let from = from.min(keys.len());
            events.retain_from(from, |event| {
                event.ready |= Ready::WRITABLE;
                event.key % 2 == 0
            });
            let (before, after) = keys.split_at(from);
            let after = after.iter().filter(|key| *key % 2 == 0);
            let expected: Vec<u64> = before.iter().chain(after).copied().collect();
            let left: Vec<u64> = events.iter().map(|event| event.key).collect();
            prop_assert_eq!(left, expected);
            for (place, event) in events.iter().enumerate() {
                prop_assert_eq!(event.ready.is_writable(), place >= from, "{:?}", event);
            }
        }
    }
}
