//! The parts of a worker's loop, for a program that makes the loop itself.

use std::{fmt, time::Duration};

use evcore::{
    Listener,
    balancer::{Member, WorkerGroup, WorkerId},
};

use crate::event::OnEvent;
use crate::stop_reports::StopReports;

/// The parts of a worker's loop, which [`Server::run_parts`](crate::Server::run_parts) passes to
/// the worker.
///
/// The program builds its loop from them, calls [`ready`](Self::ready) before its first turn, and
/// checks before each turn whether it has to [stop](Self::stop_within). A signal wakes the loop
/// only after the program has passed the loop's descriptor to
/// [`wake_fd`](evcore_prefork::Worker::wake_fd).
pub struct Parts {
    /// The worker as its supervisor sees it.
    pub supervised: evcore_prefork::Worker,
    /// The listeners of this worker.
    pub listeners: Vec<Listener>,
    pub(crate) group: WorkerGroup,
    pub(crate) stop_timeout: Duration,
    pub(crate) on_ready: Option<Box<dyn FnOnce()>>,
    /// `None` if a supervisor reports the stops.
    pub(crate) stop_reports: Option<StopReports>,
}

impl Parts {
    /// Makes a worker that has no supervisor report the stops of the server.
    pub(crate) fn reports_stops(mut self, on_event: OnEvent) -> Self {
        self.stop_reports = Some(StopReports::new(on_event));
        self
    }

    /// Returns the worker's place in the group of the server. Only one loop at a time may use it.
    #[must_use]
    pub fn member(&self) -> Member {
        let slot = self.supervised.slot();
        self.group.join(WorkerId::from_slot(slot))
    }

    /// Reports that the worker serves. Further calls have no effect.
    pub fn ready(&mut self) {
        if let Some(on_ready) = self.on_ready.take() {
            self.supervised.ready();
            on_ready();
        }
    }

    /// The time within which the worker has to stop; `None` if no stop was requested.
    #[must_use]
    pub fn stop_within(&self) -> Option<Duration> {
        let timeout = self.supervised.stop_within(self.stop_timeout)?;
        if let Some(reports) = &self.stop_reports {
            reports.report(self.supervised.stop());
        }
        Some(timeout)
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("supervised", &self.supervised)
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}
