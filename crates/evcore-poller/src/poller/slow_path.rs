//! What a wait does before and after the backend's, beyond the usual: refusals to report, a deadline to
//! keep across signals, a wake behind a full buffer.

use std::time::{Duration, Instant};

use super::Poller;
use crate::{Error, Events, Result};

impl Poller {
    #[cold]
    pub(super) fn report_refused(&mut self, events: &mut Events) {
        let count = events.remaining().min(self.refused.len());
        for key in self.refused.drain(..count) {
            if let Some(ready) = self.registry.refusal(key) {
                events.push(key, ready);
            }
        }
    }

    /// A wait that has refusals to report, and therefore returns at once.
    ///
    /// Refusals and ready descriptors take turns in coming first. Otherwise, if each wait had as many
    /// refusals as `events` has room, nothing else would ever be reported.
    #[cold]
    fn wait_beside_refusals(&mut self, events: &mut Events) {
        let ready_first = self.ready_first;
        self.ready_first = !ready_first;
        if ready_first {
            self.add_ready(events);
            self.report_refused(events);
        } else {
            self.report_refused(events);
            self.add_ready(events);
        }
    }

    /// Adds what is ready now, if there is room.
    fn add_ready(&mut self, events: &mut Events) {
        let before = events.len();
        if events.remaining() > 0 {
            // An error here would lose the refusals. If it lasts, the next wait returns it.
            let _ = (*self.backend).wait(events.into(), Some(Duration::ZERO));
        }
        self.check_wake(events);
        self.complete(events, before);
    }

    /// Whether there is anything to do before a wait, or to refuse.
    #[inline]
    pub(super) fn must_prepare(&self, events: &Events, timeout: Option<Duration>) -> bool {
        let needs_deadline = timeout.is_some() && !self.returns_on_signal;
        self.registry.needs_attention()
            || needs_deadline
            || events.capacity() == 0
            || self.fork_guard.is_in_child()
    }

    #[inline(never)] // so that the usual wait saves no registers for it
    pub(super) fn prepare_and_wait(
        &mut self,
        events: &mut Events,
        timeout: Option<Duration>,
    ) -> Result<usize> {
        self.fork_guard.check()?;
        if events.capacity() == 0 {
            return Err(Error::NoRoom);
        }
        self.apply_changes();
        if !self.refused.is_empty() {
            self.wait_beside_refusals(events);
            return Ok(events.len());
        }
        self.registry.end_attention();
        let deadline = match timeout {
            Some(timeout) if !self.returns_on_signal => deadline_in(timeout),
            _ => None,
        };
        let waited = (*self.backend).wait(events.into(), timeout);
        self.finish(waited, events, timeout, deadline)
    }

    /// Whether there is anything to do after a successful wait.
    #[inline]
    pub(super) fn must_finish(&self, events: &Events) -> bool {
        events.remaining() == 0 || self.must_complete(events)
    }

    /// Completes the events of a wait, and goes on if it was interrupted, unless a signal ends it.
    #[inline(never)] // so that the usual wait saves no registers for it
    pub(super) fn finish(
        &mut self,
        mut waited: Result<()>,
        events: &mut Events,
        timeout: Option<Duration>,
        deadline: Option<Instant>,
    ) -> Result<usize> {
        loop {
            match waited.and_then(|()| self.check(events)) {
                Err(Error::Interrupted) if !self.returns_on_signal => {}
                result => return result.map(|()| events.len()),
            }
            let left = deadline.map_or(timeout, |deadline| {
                Some(deadline.saturating_duration_since(Instant::now()))
            });
            waited = (*self.backend).wait(events.into(), left);
        }
    }

    fn check(&mut self, events: &mut Events) -> Result<()> {
        self.check_wake(events);
        let stale = self.complete(events, 0);
        if stale == 0 || !events.is_empty() || events.was_woken() {
            return Ok(());
        }
        self.skip_stale(events)
    }

    /// Records a pending wake if `events` are full: the kernel reports ready descriptors in turn, and
    /// may not have reached the waker.
    fn check_wake(&self, events: &mut Events) {
        if events.remaining() == 0 && !events.was_woken() && self.waker.take_pending() {
            events.set_woken();
        }
    }
}

/// When a wait of this timeout ends. `None` if it returns at once, or after the end of time.
fn deadline_in(timeout: Duration) -> Option<Instant> {
    if timeout.is_zero() {
        return None;
    }
    Instant::now().checked_add(timeout)
}
