//! Completes the events of a wait (see `Registry::complete`), and drops stale ones, whose
//! registration is gone.
//!
//! A stale event that comes with others is dropped. If a wait has only stale events, they would end
//! every later wait, too. So the backend gets a new set (on epoll, a new epoll descriptor) with
//! only the present registrations.

use super::Poller;
use crate::{
    error::{Error, Result},
    events::Events,
};

impl Poller {
    /// Handles a wait that only stale events have ended. The error [`Error::Interrupted`] makes the
    /// caller continue the wait, unless the buffer is raw.
    #[cold]
    pub(super) fn skip_stale(&mut self, events: &mut Events) -> Result<()> {
        if self.rebuild_set() {
            self.report_refused(events);
            if events.is_empty() {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }

    /// Completes all events except the first `from` ones, and drops the stale ones. Returns the
    /// number of dropped events.
    pub(super) fn complete(&mut self, events: &mut Events, from: usize) -> usize {
        if self.registry.are_plain(events) {
            return 0;
        }
        let before = events.len();
        events.retain_from(from, |event| self.registry.complete(event));
        before - events.len()
    }

    /// Gives the backend a new set with only the present registrations. Returns false if that
    /// fails, most likely because no descriptor is left. Then the wait ends early, and a later wait
    /// tries again.
    fn rebuild_set(&mut self) -> bool {
        if !self.backend.reset().unwrap_or(false) {
            return false;
        }
        for known in self.registry.begin_rebuild() {
            if self.backend.add(&known).is_err() {
                self.refuse(known.key);
            }
        }
        true
    }
}
