//! What a wait brought, delivered from the front.

use std::{mem, time::Duration};

use evcore_poller::{Error, Event, Events, Poller};

use crate::Result;

/// The events of the last wait, and how far they are delivered.
#[derive(Debug)]
pub(crate) struct Batch {
    events: Events,
    /// Beyond all of them, while the batch is withheld.
    next: usize,
    /// What `next` was when the batch was withheld.
    withheld: usize,
    /// A signal ended the wait.
    interrupted: bool,
}

impl Batch {
    pub(crate) fn with_capacity(events: usize) -> Self {
        Self {
            events: Events::with_capacity(events),
            next: 0,
            withheld: 0,
            interrupted: false,
        }
    }

    /// Waits, and holds what that brought, in place of what it held. A signal brings nothing.
    pub(crate) fn wait(&mut self, poller: &mut Poller, timeout: Option<Duration>) -> Result<()> {
        self.next = 0;
        let waited = poller.wait(&mut self.events, timeout);
        self.interrupted = matches!(waited, Err(Error::Interrupted));
        match waited {
            Ok(_) | Err(Error::Interrupted) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The next event that is not yet delivered.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Event> {
        let event = self.events.get(self.next)?;
        self.next += 1;
        Some(event)
    }

    /// From here on there is no next event, until they are given back.
    pub(crate) fn withhold(&mut self) {
        self.withheld = mem::replace(&mut self.next, usize::MAX);
    }

    /// Gives back what was withheld.
    pub(crate) fn give_back(&mut self) {
        self.next = self.withheld;
    }

    /// Whether the wait brought an event of this key.
    pub(crate) fn has(&self, key: u64) -> bool {
        self.events.iter().any(|event| event.key == key)
    }

    /// Whether there may be more ready than the wait brought. (A wake-up may have taken a place.)
    pub(crate) fn is_full(&self) -> bool {
        self.events.remaining() <= usize::from(self.events.was_woken())
    }

    /// How many events the wait brought.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing ended the wait but its timeout, if it had one.
    pub(crate) fn is_nothing(&self) -> bool {
        self.events.is_empty() && !self.was_woken() && !self.interrupted
    }

    /// Whether a waker ended the wait.
    pub(crate) fn was_woken(&self) -> bool {
        self.events.was_woken()
    }
}
