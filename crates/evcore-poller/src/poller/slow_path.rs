//! The slow path of a wait, before and after the backend's wait. It reports changes that the kernel
//! has refused, keeps a deadline across signals, and finds a wake that the kernel did not report
//! because events filled the buffer.

use std::time::{Duration, Instant};

use super::Poller;
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::sys;
use crate::{
    error::{Error, Result},
    events::Events,
};

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

    /// Makes a wait that has refusals to report, and therefore returns at once.
    ///
    /// Refusals and ready descriptors come first in alternate waits. Otherwise, if each wait had as
    /// many refusals as fit into `events`, nothing else would ever be reported.
    #[cold]
    fn wait_with_refusals(&mut self, events: &mut Events) {
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

    fn add_ready(&mut self, events: &mut Events) {
        let before = events.len();
        if events.remaining() > 0 {
            // Returning the error here would lose the refusals. If the error lasts, a later wait
            // returns it.
            let _ = (*self.backend).wait(events.into(), Some(Duration::ZERO));
        }
        self.check_wake(events);
        self.complete(events, before);
    }

    /// Returns whether there is anything to do before a wait, or a reason to refuse it.
    #[inline]
    pub(super) fn must_prepare(&self, events: &Events, timeout: Option<Duration>) -> bool {
        let needs_deadline = timeout.is_some() && !events.is_raw();
        self.registry.needs_attention() || needs_deadline || self.fork_guard.is_in_child()
    }

    #[inline(never)] // so that the usual wait saves no registers for it
    pub(super) fn prepare_and_wait(
        &mut self,
        events: &mut Events,
        timeout: Option<Duration>,
    ) -> Result<usize> {
        events.clear();
        self.fork_guard.check()?;
        self.apply_changes();
        if !self.refused.is_empty() {
            self.wait_with_refusals(events);
            return Ok(events.len());
        }
        self.registry.end_attention();
        let deadline = match timeout {
            Some(timeout) if !events.is_raw() => deadline_in(timeout),
            _ => None,
        };
        let waited = (*self.backend).wait(events.into(), timeout);
        self.finish(waited, events, timeout, deadline)
    }

    /// Ends a wait on epoll if its events cannot be returned as they are.
    ///
    /// No timeout is needed to continue it, because a wait that has a timeout and may be continued
    /// begins in [`prepare_and_wait`](Self::prepare_and_wait).
    #[inline(never)] // so that the usual wait saves no registers for it
    pub(super) fn finish_refill(&mut self, events: &mut Events) -> Result<usize> {
        let waited = self.backend.take_wake(events);
        self.finish(waited, events, None, None)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[cold]
    #[inline(never)]
    pub(super) fn finish_failed(
        &mut self,
        errno: rustix::io::Errno,
        events: &mut Events,
    ) -> Result<usize> {
        events.clear();
        let waited = Err(sys::epoll_failed(errno));
        self.finish(waited, events, None, None)
    }

    /// Waits on a backend that is called through `dyn Backend`.
    #[inline]
    pub(super) fn wait_boxed(
        &mut self,
        events: &mut Events,
        timeout: Option<Duration>,
    ) -> Result<usize> {
        events.clear();
        let waited = (*self.backend).wait(events.into(), timeout);
        if waited.is_ok() && events.remaining() > 0 && self.registry.are_plain(events) {
            return Ok(events.len());
        }
        self.finish(waited, events, None, None)
    }

    /// Completes the events of a wait. Continues an interrupted wait, unless the buffer is raw.
    #[inline(never)] // so that the usual wait saves no registers for it
    fn finish(
        &mut self,
        mut waited: Result<()>,
        events: &mut Events,
        timeout: Option<Duration>,
        deadline: Option<Instant>,
    ) -> Result<usize> {
        loop {
            match waited.and_then(|()| self.check(events)) {
                Err(Error::Interrupted) if !events.is_raw() => {}
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

    /// Records a pending wake if `events` are full, because the kernel reports ready descriptors in
    /// turn, and may not have reached the waker.
    fn check_wake(&self, events: &mut Events) {
        if events.remaining() == 0 && !events.was_woken() && self.waker.take_pending() {
            events.set_woken();
        }
    }
}

/// Returns the time at which a wait with this timeout ends; `None` if the wait returns at once, or
/// if the time is beyond the clock's range.
fn deadline_in(timeout: Duration) -> Option<Instant> {
    if timeout.is_zero() {
        return None;
    }
    Instant::now().checked_add(timeout)
}
