//! The listeners of a worker: whether the poller watches them, and which of them rest.
//!
//! One that fails rests for a while: it may well stay readable, and must neither make the loop spin
//! nor keep the others from their turns. That pause is not the one for want of descriptors, which
//! ends when one is closed: no listener is mended by that.
//!
//! Nearly always none rests, and then a turn looks at none of them.

use std::mem;

use evcore_accept::{Accept, Backoff, Error as AcceptError};
use evcore_poller::{Interest, Mode, Poller};

use crate::{Listen, Result, naming::listener_key};

/// How long one that has failed rests: as long as a pause for want of descriptors.
const REST_MS: u64 = 500;
const _: () = assert!(Backoff::PAUSE.as_millis() == REST_MS as u128);

/// All listeners of one worker, by their numbers.
#[derive(Debug)]
pub(crate) struct Listeners<L> {
    all: Vec<Kept<L>>,
    // Invariant: where it is false, none is registered with the poller.
    registered: bool,
    /// When the next of those that rest does so no longer.
    // Invariant: the least of their times; `None` where none rests.
    wake_at_ms: Option<u64>,
    /// Since they were registered one has come to rest, or does so no longer.
    changed: bool,
}

/// A listener, and what has become of it.
#[derive(Debug)]
struct Kept<L> {
    listener: L,
    registered: bool,
    /// It rests until then.
    wakes_at_ms: Option<u64>,
}

impl<L: Listen> Listeners<L> {
    pub(crate) fn new(listeners: Vec<L>) -> Self {
        let kept = listeners.into_iter().map(|listener| Kept {
            listener,
            registered: false,
            wakes_at_ms: None,
        });
        Self {
            all: kept.collect(),
            registered: false,
            wake_at_ms: None,
            changed: false,
        }
    }

    /// Registers those that do not rest; an error leaves none registered. To be called where none
    /// is.
    pub(crate) fn register(&mut self, exclusive: bool, poller: &mut Poller) -> Result<()> {
        self.registered = true;
        self.changed = false;
        for (kept, id) in self.all.iter_mut().zip(0..) {
            if kept.rests() {
                continue;
            }
            if let Err(error) = kept.register(listener_key(id), exclusive, poller) {
                let _ = self.deregister(poller);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes every one out, and tells the first refusal; even then none is registered.
    pub(crate) fn deregister(&mut self, poller: &mut Poller) -> Result<()> {
        self.registered = false;
        let mut first = Ok(());
        for (kept, id) in self.all.iter_mut().zip(0..) {
            if mem::take(&mut kept.registered) {
                first = first.and(poller.remove(listener_key(id)));
            }
        }
        Ok(first?)
    }

    /// Closes them all.
    pub(crate) fn close(&mut self, poller: &mut Poller) -> Result<()> {
        let deregistered = self.deregister(poller);
        self.all.clear();
        self.wake_at_ms = None;
        deregistered
    }

    pub(crate) fn accept(&self, id: u32) -> Result<Accept<L::Stream>, AcceptError> {
        self.all[id as usize].listener.accept()
    }

    /// Lets one rest that has failed: from now on it is not to be accepted from.
    pub(crate) fn rest(&mut self, id: u32, now_ms: u64) {
        let wakes_at_ms = now_ms.saturating_add(REST_MS);
        self.all[id as usize].wakes_at_ms = Some(wakes_at_ms);
        self.rests_have_changed();
    }

    /// Ends the rest of those for whom it is time to.
    #[inline]
    pub(crate) fn wake(&mut self, now_ms: u64) {
        if self.wake_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            for kept in &mut self.all {
                kept.wakes_at_ms = kept.wakes_at_ms.filter(|at_ms| now_ms < *at_ms);
            }
            self.rests_have_changed();
        }
    }

    /// When the next of those that rest does so no longer.
    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        self.wake_at_ms
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether this worker listens, by those that do not rest.
    pub(crate) fn are_registered(&self) -> bool {
        self.registered
    }

    /// Whether there is any that does not rest.
    #[inline]
    pub(crate) fn any_accepts(&self) -> bool {
        if self.wake_at_ms.is_none() {
            return !self.all.is_empty();
        }
        self.all.iter().any(|kept| !kept.rests())
    }

    /// Whether this one exists, and does not rest.
    pub(crate) fn accepts(&self, id: u32) -> bool {
        self.all.get(id as usize).is_some_and(|kept| !kept.rests())
    }

    /// Of listeners that are registered: whether others should be.
    pub(crate) fn have_changed(&self) -> bool {
        self.changed
    }

    fn rests_have_changed(&mut self) {
        self.wake_at_ms = self.all.iter().filter_map(|kept| kept.wakes_at_ms).min();
        self.changed = true;
    }
}

impl<L> Kept<L> {
    fn rests(&self) -> bool {
        self.wakes_at_ms.is_some()
    }
}

impl<L: Listen> Kept<L> {
    fn register(&mut self, key: u64, exclusive: bool, poller: &mut Poller) -> Result<()> {
        if exclusive {
            poller.add_exclusive(&self.listener, key, Interest::READ, Mode::Level)?;
        } else {
            poller.add(&self.listener, key, Interest::READ, Mode::Level)?;
        }
        self.registered = true;
        Ok(())
    }
}
