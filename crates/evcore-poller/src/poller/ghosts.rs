//! What a wait has brought: completed, and rid of ghosts, which are reports of what is not
//! registered any more.
//!
//! A ghost is dropped where it comes with others. One that comes alone would end each wait to come,
//! so the backend then begins anew, with what is registered and nothing else.

use super::Poller;
use crate::{Error, Event, Events, Result};

impl Poller {
    /// Where ghosts alone ended the wait, they would end the next one too.
    #[cold]
    pub(super) fn end_haunting(&mut self, events: &mut Events) -> Result<()> {
        if self.lay_ghosts() {
            self.report_refused(events);
            if events.is_empty() {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }

    /// Completes all events but the first `from`, and drops those that are nobody's. Returns how
    /// many these were.
    #[inline]
    pub(super) fn complete(&mut self, events: &mut Events, from: usize) -> usize {
        // The usual batch needs nothing, and on epoll is mostly not even looked at.
        let suspects = self.registry.suspects(!self.filters_stale);
        let is_plain = |event: Event| self.registry.is_plain(event.key);
        if !events.has_exceptional() && events.iter().take(suspects).all(is_plain) {
            return 0;
        }
        self.complete_each(events, from)
    }

    #[inline(never)] // so that the usual batch saves no registers for it
    fn complete_each(&mut self, events: &mut Events, from: usize) -> usize {
        let before = events.len();
        events.retain_from(from, |event| self.registry.complete(event));
        before - events.len()
    }

    /// Gives the backend a new set, with what is registered in it and nothing else. Returns whether
    /// it could: where there is no descriptor for it, the wait ends early, and the next one tries.
    fn lay_ghosts(&mut self) -> bool {
        if !self.backend.begin_anew().unwrap_or(false) {
            return false;
        }
        for known in self.registry.begin_anew() {
            if self.backend.add(&known).is_err() {
                self.refuse(known.key);
            }
        }
        true
    }
}
