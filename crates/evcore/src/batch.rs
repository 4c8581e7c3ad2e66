//! The events of a wait, delivered from the front.

use std::{mem, time::Duration};

use evcore_poller::{Error, Event, Events, Poller};

use crate::error::Result;

#[derive(Debug)]
pub(crate) struct Batch {
    events: Events,
    /// The position of the next event to deliver; `usize::MAX` while the batch is withheld, which
    /// means that it looks empty.
    next: usize,
    /// The value that `next` gets when the batch is given back; `None` if it is not withheld.
    withheld: Option<usize>,
    /// True if the poller reported `Interrupted`, until [`is_nothing`](Self::is_nothing) clears it.
    // Invariant: false if there are events.
    was_interrupted: bool,
}

impl Batch {
    pub(crate) fn with_capacity(events: usize) -> Self {
        Self {
            // A signal ends a raw wait without events, so the program reacts to the signal at once,
            // and no clock is read to resume the wait. The loop recognises stale events by their
            // generation.
            events: Events::raw(events),
            next: 0,
            withheld: None,
            was_interrupted: false,
        }
    }

    /// Waits, replaces the events by those of the wait, and returns their number: 0 if a signal
    /// ended the wait.
    #[inline]
    pub(crate) fn wait(&mut self, poller: &mut Poller, timeout: Option<Duration>) -> Result<usize> {
        self.next = 0;
        match poller.wait(&mut self.events, timeout) {
            Ok(count) => Ok(count),
            Err(error) => self.on_error(error),
        }
    }

    #[cold]
    fn on_error(&mut self, error: Error) -> Result<usize> {
        if !matches!(error, Error::Interrupted) {
            return Err(error.into());
        }
        self.was_interrupted = true;
        Ok(0)
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Option<Event> {
        let event = self.events.get(self.next)?;
        self.next += 1;
        Some(event)
    }

    /// Makes the batch look empty until it is given back.
    pub(crate) fn withhold(&mut self) {
        self.withheld = Some(self.next);
        self.next = usize::MAX;
    }

    pub(crate) fn give_back(&mut self) {
        if let Some(next) = self.withheld.take() {
            self.next = next;
        }
    }

    pub(crate) fn has(&self, is_wanted: impl Fn(u64) -> bool) -> bool {
        self.events.iter().any(|event| is_wanted(event.key))
    }

    /// Returns whether more may be ready than the wait reported. A wake-up may have taken the place
    /// of an event.
    pub(crate) fn is_full(&self) -> bool {
        self.events.len() + usize::from(self.events.was_woken()) >= self.events.capacity()
    }

    /// Returns whether the batch is full or a waker ended the wait, by one test.
    #[inline]
    pub(crate) fn is_full_or_woken(&self) -> bool {
        self.events.is_full() | self.events.was_woken()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns whether only the timeout can have ended the wait. Call it once for each wait without
    /// events.
    pub(crate) fn is_nothing(&mut self) -> bool {
        !mem::take(&mut self.was_interrupted) && !self.was_woken()
    }

    pub(crate) fn was_woken(&self) -> bool {
        self.events.was_woken()
    }
}
