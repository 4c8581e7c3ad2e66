//! The events of a wait.

use std::num::NonZeroUsize;

use crate::Event;

/// The events of one or more waits: each wait appends.
///
/// ```
/// let events = polling::Events::new();
/// assert!(events.is_empty() && events.iter().next().is_none());
/// ```
#[derive(Debug)]
pub struct Events {
    list: Vec<Event>,
    /// The buffer of our poller. Its events have our keys, not the caller's.
    pub(crate) raw: evcore_poller::Events,
}

impl Events {
    /// Creates a buffer for 1,024 events per wait.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(NonZeroUsize::new(1024).expect("it is not zero"))
    }

    /// Creates a buffer for `capacity` events per wait. Further events remain for the next wait.
    #[must_use]
    pub fn with_capacity(capacity: NonZeroUsize) -> Self {
        Self {
            list: Vec::with_capacity(capacity.get()),
            raw: evcore_poller::Events::bounded(capacity.get()),
        }
    }

    /// The events in the order of the reports.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.list.iter().copied()
    }

    /// Removes all events.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The most events that one wait returns.
    #[must_use]
    pub fn capacity(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.raw.capacity()).expect("made from one that is not zero")
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.list.push(event);
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::new()
    }
}
