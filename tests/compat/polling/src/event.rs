//! Interest and readiness, for which `polling` has one type.

use evcore_poller::{Interest, Ready};

/// The interest in a descriptor, or its readiness, under the caller's key.
///
/// ```
/// let event = polling::Event::readable(7).with_priority();
/// assert!(event.readable && event.is_priority() && !event.writable);
/// assert_eq!(event.with_no_extra(), polling::Event::readable(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The caller's name for the descriptor. It may be any number except `usize::MAX`, and need not
    /// be unique.
    pub key: usize,
    /// In a report, true if there are data, priority data or the end of the stream to read. In an
    /// interest, true to get reports of that.
    pub readable: bool,
    /// In a report, true if writing does not block. In an interest, true to get reports of that.
    pub writable: bool,
    extra: Extra,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extra {
    interrupt: bool,
    priority: bool,
    error: bool,
}

impl Event {
    /// Interest in reading, in writing, in both or in neither.
    #[must_use]
    pub const fn new(key: usize, readable: bool, writable: bool) -> Self {
        Self {
            key,
            readable,
            writable,
            extra: Extra {
                interrupt: false,
                priority: false,
                error: false,
            },
        }
    }

    /// Interest in both sides.
    #[must_use]
    pub const fn all(key: usize) -> Self {
        Self::new(key, true, true)
    }

    /// Interest in reading.
    #[must_use]
    pub const fn readable(key: usize) -> Self {
        Self::new(key, true, false)
    }

    /// Interest in writing.
    #[must_use]
    pub const fn writable(key: usize) -> Self {
        Self::new(key, false, true)
    }

    /// No interest, for now.
    #[must_use]
    pub const fn none(key: usize) -> Self {
        Self::new(key, false, false)
    }

    /// Sets the interest in hang-ups. They are reported in any case, as by epoll.
    pub fn set_interrupt(&mut self, active: bool) {
        self.extra.interrupt = active;
    }

    /// Adds the interest in hang-ups.
    #[must_use]
    pub fn with_interrupt(mut self) -> Self {
        self.set_interrupt(true);
        self
    }

    /// Sets the interest in priority data.
    pub fn set_priority(&mut self, active: bool) {
        self.extra.priority = active;
    }

    /// Adds the interest in priority data.
    #[must_use]
    pub fn with_priority(mut self) -> Self {
        self.set_priority(true);
        self
    }

    /// Returns whether the other side has hung up.
    #[must_use]
    pub fn is_interrupt(&self) -> bool {
        self.extra.interrupt
    }

    /// Returns whether priority data has arrived.
    #[must_use]
    pub fn is_priority(&self) -> bool {
        self.extra.priority
    }

    /// Returns whether a `connect` has failed: whether there is an error together with a hang-up.
    /// Never returns `None` here.
    #[must_use]
    pub fn is_connect_failed(&self) -> Option<bool> {
        Some(self.extra.error && self.extra.interrupt)
    }

    /// Returns whether the descriptor has an error. Never returns `None` here.
    #[must_use]
    pub fn is_err(&self) -> Option<bool> {
        Some(self.extra.error)
    }

    /// Clears everything except the key and the two sides.
    pub fn clear_extra(&mut self) {
        self.extra = Extra::default();
    }

    /// Keeps only the key and the two sides.
    #[must_use]
    pub fn with_no_extra(mut self) -> Self {
        self.clear_extra();
        self
    }

    pub(crate) fn interest(&self) -> Interest {
        let asked = [
            (self.readable, Interest::READ),
            (self.writable, Interest::WRITE),
            (self.extra.priority, Interest::PRIORITY),
        ];
        let asked = asked.into_iter().filter(|(is_asked, _)| *is_asked);
        asked.fold(Interest::NONE, |all, (_, one)| all | one)
    }

    pub(crate) fn reported(key: usize, ready: Ready) -> Self {
        Self {
            key,
            // A caller finds the end of the stream and priority data by reading.
            readable: ready.is_readable() || ready.is_read_closed() || ready.is_priority(),
            writable: ready.is_writable(),
            extra: Extra {
                interrupt: ready.is_write_closed(),
                priority: ready.is_priority(),
                error: ready.is_error(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interest_is_translated_for_our_poller() {
        assert_eq!(Event::none(0).interest(), Interest::NONE);
        assert_eq!(Event::all(0).interest(), Interest::BOTH);
        let event = Event::writable(0).with_priority().with_interrupt();
        assert_eq!(event.interest(), Interest::WRITE | Interest::PRIORITY);
    }

    #[test]
    fn readiness_is_translated_for_polling() {
        let reported = |ready| Event::reported(3, ready);
        assert_eq!(reported(Ready::READABLE), Event::readable(3));
        assert_eq!(reported(Ready::WRITABLE), Event::writable(3));
        assert_eq!(reported(Ready::READ_CLOSED), Event::readable(3));
        let failed = reported(Ready::WRITABLE | Ready::ERROR | Ready::WRITE_CLOSED);
        assert_eq!(failed.with_no_extra(), Event::writable(3));
        assert_eq!(failed.is_connect_failed(), Some(true));
        assert_eq!(reported(Ready::ERROR).is_connect_failed(), Some(false));
    }
}
