//! A worker: its loop, and when it stops.

use std::fmt;
use std::time::Duration;

use evcore::EventLoop;
use evcore_prefork::WorkerIndex;

use crate::event::{Event, OnEvent};
use crate::shortages::Shortages;

/// A worker of a [`Server`](crate::Server), with a loop that has the server's listeners.
pub struct Worker {
    /// The loop, for everything but its waits: those are [`next_turn`](Self::next_turn).
    pub ev: EventLoop,
    supervised: evcore_prefork::Worker,
    stop_timeout: Duration,
    on_event: OnEvent,
    shortages: Shortages,
    /// `None` once the worker is ready.
    on_ready: Option<Box<dyn FnOnce()>>,
}

impl Worker {
    pub(crate) fn new(
        ev: EventLoop,
        supervised: evcore_prefork::Worker,
        stop_timeout: Duration,
        on_event: OnEvent,
    ) -> Self {
        Self {
            ev,
            supervised,
            stop_timeout,
            on_event,
            shortages: Shortages::default(),
            on_ready: Some(Box::new(|| {})),
        }
    }

    /// Calls this when the first turn begins.
    pub(crate) fn on_ready(mut self, hook: impl FnOnce() + 'static) -> Self {
        self.on_ready = Some(Box::new(hook));
        self
    }

    /// Begins the next turn: waits until there is something to do. Returns false when the worker
    /// has stopped; its function then returns.
    ///
    /// The first call reports that the worker is ready, so open what it needs before. A stop signal
    /// ends the wait. After QUIT, or a reload, the loop [shuts down](EventLoop::shutdown): its
    /// listeners are closed, idle connections are evicted, and the others have the
    /// [timeout](crate::Server::stop_timeout). After TERM it stops at once.
    ///
    /// # Errors
    ///
    /// The errors of [`EventLoop::wait`]: the loop cannot go on. Return the error, and the
    /// supervisor starts another worker.
    pub fn next_turn(&mut self) -> evcore::Result<bool> {
        self.begin_turn();
        self.ev.wait()
    }

    /// [`next_turn`](Self::next_turn) with a call between the end of the turn before and the wait.
    /// A [watchdog](evcore::InstrumentOptions::watchdog) reports there in time, and not only when
    /// the next event comes. Keep the call short: under a policy with a lock, the worker may hold the
    /// accept lock meanwhile.
    ///
    /// # Errors
    ///
    /// The errors of [`next_turn`](Self::next_turn).
    pub fn next_turn_with(&mut self, between: impl FnOnce(&mut EventLoop)) -> evcore::Result<bool> {
        self.begin_turn();
        let timeout = self.ev.prepare()?.timeout;
        between(&mut self.ev);
        self.ev.wait_at_most(timeout)
    }

    /// Reports to the log and to the supervisor, and shuts the loop down if a stop was requested.
    fn begin_turn(&mut self) {
        while let Some(error) = self.ev.listeners().take_error() {
            (self.on_event)(Event::Listener(self.index(), &error));
        }
        let (stats, now_ms) = (self.ev.stats(), self.ev.clock().monotonic_ms());
        for shortage in self.shortages.after_turn(&stats, now_ms) {
            (self.on_event)(Event::Shortage(self.index(), shortage));
        }
        if let Some(on_ready) = self.on_ready.take() {
            self.supervised.ready();
            on_ready();
        }
        if let Some(timeout) = self.supervised.stop_within(self.stop_timeout) {
            self.ev.shutdown(timeout);
        }
    }

    /// The worker's number, from 0. During a reload an old and a new worker have the same.
    #[must_use]
    pub fn index(&self) -> WorkerIndex {
        self.supervised.index()
    }

    /// The worker as its supervisor sees it: its slot, its process, the stop that was requested,
    /// and the [count](evcore_prefork::Worker::reopen_count) of USR1 signals.
    #[must_use]
    pub fn supervised(&self) -> &evcore_prefork::Worker {
        &self.supervised
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("ev", &self.ev)
            .field("supervised", &self.supervised)
            .field("stop_timeout", &self.stop_timeout)
            .finish_non_exhaustive()
    }
}
