//! The listeners' part of a turn: when to listen, and taking clients in.

use std::time::Duration;

use evcore_accept::Accept;
use evcore_balancer::{Load, Plan};
use evcore_poller::{Interest, Mode};

use crate::{Accepted, EventLoop, Result, Step, event_loop::count, naming::listener_key};

impl EventLoop {
    /// What the balancer says of this turn.
    pub(crate) fn plan(&mut self) -> Plan {
        let now_ms = self.clock.monotonic_ms();
        // A worker out of descriptors is a full one: it has no place to put a client.
        let full = self.listeners.is_empty() || self.backoff.is_paused(now_ms);
        let active = if full { self.capacity } else { self.active };
        let load = Load {
            active,
            capacity: self.capacity,
        };
        let lock = &mut self.lock;
        self.balancer.plan(now_ms, load, || {
            lock.as_mut().is_some_and(|lock| lock.try_lock())
        })
    }

    /// Registers the listeners, or takes them out, where the plan differs from what is.
    pub(crate) fn follow(&mut self, plan: &Plan) -> Result<()> {
        self.holds_lock = plan.holds_lock;
        if plan.listening == self.listening {
            return Ok(());
        }
        if plan.listening {
            self.listen()
        } else {
            self.stop_listening()
        }
    }

    fn listen(&mut self) -> Result<()> {
        for (listener, id) in self.listeners.iter().zip(0..) {
            self.poller
                .add(listener, listener_key(id), Interest::READ, Mode::Level)?;
        }
        self.listening = true;
        Ok(())
    }

    fn stop_listening(&mut self) -> Result<()> {
        for id in 0..count(&self.listeners) {
            self.poller.remove(listener_key(id))?;
        }
        self.listening = false;
        Ok(())
    }

    /// Closes the listeners of this worker for good: the first step of an orderly end.
    ///
    /// Clients that wait in the backlog are left to the other workers that share it.
    ///
    /// # Errors
    ///
    /// The poller's; the listeners are closed all the same.
    pub fn close_listeners(&mut self) -> Result<()> {
        let stopped = if self.listening {
            self.stop_listening()
        } else {
            Ok(())
        };
        self.listening = false;
        self.accepts.clear();
        self.listeners.clear();
        stopped
    }

    /// A client of the listener at the head of the accept queue.
    pub(crate) fn next_accept(&mut self) -> Option<Step> {
        while let Some(id) = self.accepts.front() {
            if self.left.accepts == 0 || self.active >= self.capacity {
                // Level-triggered: who still waits is reported again.
                self.accepts.clear();
                return None;
            }
            let listener = id as usize;
            match self.listeners[listener].accept() {
                Ok(Accept::Connection(stream, peer)) => {
                    self.left.accepts -= 1;
                    self.stats.accepted += 1;
                    return Some(Step::Accepted(Accepted {
                        stream,
                        peer,
                        listener,
                    }));
                }
                Ok(Accept::Aborted) => self.left.accepts -= 1,
                Ok(Accept::Drained) => {
                    self.accepts.pop();
                }
                Ok(Accept::OutOfDescriptors(_)) => self.pause_accepting(),
                Err(error) => {
                    self.accepts.pop();
                    self.failure = Some(error.into());
                }
            }
        }
        None
    }

    /// Stops taking clients in until a descriptor is closed, or for a while.
    fn pause_accepting(&mut self) {
        self.backoff.pause(self.clock.monotonic_ms());
        self.stats.accept_pauses += 1;
        self.accepts.clear();
    }

    /// Gives the accept lock back, if this turn holds it.
    pub(crate) fn release_lock(&mut self) {
        if self.holds_lock {
            self.holds_lock = false;
            if let Some(lock) = &mut self.lock {
                lock.unlock();
            }
        }
    }

    /// How long the accept side lets the loop wait.
    pub(crate) fn accept_wait_limit(&self, plan: &Plan) -> Option<Duration> {
        let now_ms = self.clock.monotonic_ms();
        let paused = self
            .backoff
            .resumes_at()
            .filter(|_| self.backoff.is_paused(now_ms));
        let resume = paused.map(|at| at.saturating_sub(now_ms));
        let limit = [plan.wait_at_most_ms, resume].into_iter().flatten().min();
        limit.map(Duration::from_millis)
    }
}
