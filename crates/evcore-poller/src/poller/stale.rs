//! Completes the events of a wait, and drops the stale ones: events of something that is not
//! registered any more.
//!
//! A stale event that comes with others is dropped. One that comes alone would end every wait to
//! come. Then the backend gets a new set, which holds the present registrations and nothing else.

use super::Poller;
use crate::{
    error::{Error, Result},
    events::Events,
};

impl Poller {
    /// Deals with a wait that stale events alone have ended: they would end the next one, too.
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

    /// Completes all events except the first `from`, and drops the stale ones. Returns how many it
    /// has dropped.
    pub(super) fn complete(&mut self, events: &mut Events, from: usize) -> usize {
        if self.registry.are_plain(events) {
            return 0;
        }
        let before = events.len();
        events.retain_from(from, |event| self.registry.complete(event));
        before - events.len()
    }

    /// Gives the backend a new set that holds the present registrations and nothing else. Returns
    /// false if it could not: without a descriptor for it, the wait ends early, and the next one
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
