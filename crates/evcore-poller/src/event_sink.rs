//! The buffer into which a wait puts its events, for the backend that fills it.

use std::fmt;

use crate::{events::Events, ready::Ready};

/// The buffer to which a [`Backend`](crate::Backend) adds the events of a wait.
///
/// ```
/// use evcore_poller::{EventSink, Events, Ready};
///
/// let mut events = Events::bounded(2);
/// let mut sink = EventSink::from(&mut events);
/// sink.push(7, Ready::READABLE);
/// sink.set_woken();
/// assert_eq!(sink.remaining(), 1);
/// assert!(events.len() == 1 && events.was_woken());
/// ```
//
// The sink holds one reference and is passed by value, so a backend writes to the events as
// directly as their owner.
pub struct EventSink<'a> {
    events: &'a mut Events,
}

impl EventSink<'_> {
    /// Adds an event.
    ///
    /// # Panics
    ///
    /// If there is no room [remaining](Self::remaining).
    #[inline]
    pub fn push(&mut self, key: u64, ready: Ready) {
        self.events.push(key, ready);
    }

    /// Records that a [`Waker`](crate::Waker) ended the wait.
    #[inline]
    pub fn set_woken(&mut self) {
        self.events.set_woken();
    }

    /// Returns the number of further events that fit.
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> usize {
        self.events.remaining()
    }
}

/// Methods for this crate's own backends.
impl<'a> EventSink<'a> {
    /// Returns the buffer, for the `select` backend, which illumos and Solaris do not have.
    #[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
    #[inline]
    pub(crate) fn events(&self) -> &Events {
        self.events
    }

    /// Returns the buffer: for epoll, so that the kernel can write into it, and for `io_uring`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[inline]
    pub(crate) fn into_events(self) -> &'a mut Events {
        self.events
    }
}

impl<'a> From<&'a mut Events> for EventSink<'a> {
    #[inline]
    fn from(events: &'a mut Events) -> Self {
        Self { events }
    }
}

impl fmt::Debug for EventSink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventSink").field(&self.events).finish()
    }
}
