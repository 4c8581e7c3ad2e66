//! A short path for the usual wait: nothing is queued, and one edge is reported.

use rustix::io::Errno;

use super::{Before, IoUring};
use crate::{events::Events, interest::Mode};

impl IoUring {
    /// Waits without limit if there is no request to submit and no completion to take. Returns
    /// whether there is something to report. If not, the caller continues the wait.
    pub(super) fn wait_at_rest(&mut self, events: &mut Events) -> Result<bool, Errno> {
        let is_at_rest = events.is_empty()
            && self.is_submitted
            && self.cancellations_pending == 0
            && !self.table.has_changes()
            && self.ring.first().is_none();
        if !is_at_rest {
            return Ok(false);
        }
        let before = Before {
            had_completions: self.ring.has_more(),
        };
        self.table.begin_wait();
        self.ring.wait_for_one()?;
        if self.take_first_hint(events) && self.ring.is_drained() {
            return Ok(true);
        }
        let was_woken = self.gather(events, before);
        Ok(!events.is_empty() || was_woken)
    }

    /// Takes the first completion if it is [just a hint](Self::take_hint) and leaves room for
    /// another event. Returns whether it was taken. `events` must be empty.
    #[inline]
    fn take_first_hint(&mut self, events: &mut Events) -> bool {
        let Some((name, found)) = self.ring.first_with_more() else {
            return false;
        };
        let Some(row) = self.table.row_of(name) else {
            return false;
        };
        let ready = row.readiness(found);
        let is_hint = row.mode == Mode::Edge && !ready.is_priority() && !ready.is_empty();
        if !is_hint || events.remaining() <= 1 {
            return false;
        }
        row.position = 0;
        events.push(row.key, ready);
        self.ring.drop_first();
        true
    }
}
