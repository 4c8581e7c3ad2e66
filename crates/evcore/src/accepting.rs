//! The listeners' side of a turn: when to listen, and taking clients in.
//!
//! Listeners are level-triggered, so nothing is lost where a client is left in the backlog: who
//! waits there is reported again, to this worker or to another.

use std::{mem, time::Duration};

use evcore_accept::{Accept, Backoff, Reserve, Shortage};
use evcore_balancer::{Balancer, Load, Lock, Plan};
use evcore_poller::{Interest, Mode, Poller};
use evcore_posted::PostedQueue;

use crate::{Accepted, Error, Listen, Result, Stats, naming::listener_key};

/// The listeners of one worker, and all that decides whether they are watched.
#[derive(Debug)]
pub(crate) struct Accepting<L> {
    listeners: Vec<L>,
    balancer: Balancer,
    lock: Option<Box<dyn Lock>>,
    // Invariant: only from a plan to the end of that turn's accepts.
    holds_lock: bool,
    // Invariant: all listeners are registered with the poller, or none is. (That the lock is held
    // is another fact: it is given back every turn, and the registrations stay.)
    listening: bool,
    /// Listeners that may have clients waiting, in the order of their turns.
    // Invariant: empty while not listening.
    queue: PostedQueue,
    backoff: Backoff,
    reserve: Reserve,
    /// What accepting met and a step could not tell: the next wait does.
    failure: Option<Error>,
}

impl<L: Listen> Accepting<L> {
    pub(crate) fn new(listeners: Vec<L>, balancer: Balancer, lock: Option<Box<dyn Lock>>) -> Self {
        let mut reserve = Reserve::none();
        if L::TAKES_DESCRIPTORS && !listeners.is_empty() {
            reserve.hold();
        }
        Self {
            listeners,
            balancer,
            lock,
            holds_lock: false,
            listening: false,
            queue: PostedQueue::new(),
            backoff: Backoff::new(),
            reserve,
            failure: None,
        }
    }

    /// What the balancer says of this turn; the lock may be held from here on.
    pub(crate) fn plan(&mut self, now_ms: u64, load: Load) -> Plan {
        self.backoff.expire(now_ms);
        // Without listeners, or out of descriptors, there is no place to put a client either.
        let load = if self.listeners.is_empty() || self.backoff.is_paused(now_ms) {
            full(load)
        } else {
            load
        };
        let lock = &mut self.lock;
        let plan = self.balancer.plan(now_ms, load, || {
            lock.as_mut().is_some_and(|lock| lock.try_lock())
        });
        self.holds_lock = plan.holds_lock;
        plan
    }

    /// Registers the listeners, or takes them out, where the plan differs from what is.
    ///
    /// Where the poller refuses, this worker is left without the lock and not listening, and pauses:
    /// so the error is met once, and those who are served go on being served.
    pub(crate) fn follow(&mut self, plan: &Plan, now_ms: u64, poller: &mut Poller) -> Result<()> {
        let followed = match (self.listening, plan.listening) {
            (false, true) => self.listen(poller),
            (true, false) => self.stop_listening(poller),
            (true, true) | (false, false) => Ok(()),
        };
        if followed.is_err() {
            self.release_lock();
            self.backoff.pause(now_ms);
        }
        followed
    }

    /// How long until a pause is over; `None`: there is none.
    pub(crate) fn resumes_in(&self, now_ms: u64) -> Option<Duration> {
        let resumes_ms = self.backoff.resumes_at()?;
        Some(Duration::from_millis(resumes_ms.saturating_sub(now_ms)))
    }

    /// Notes that a listener may have clients. `false`: it has been closed.
    pub(crate) fn note(&mut self, listener: u32) -> bool {
        let known = self.listening && (listener as usize) < self.listeners.len();
        if known {
            self.queue.post(listener);
        }
        known
    }

    /// The next client, from one listener after the other, so that none keeps the others from theirs.
    ///
    /// `None`: nobody waits, or `left` is used up. Who is then still queued comes first next time.
    pub(crate) fn next(
        &mut self,
        left: &mut usize,
        now_ms: u64,
        stats: &mut Stats,
    ) -> Option<Accepted<L::Stream>> {
        while *left > 0 {
            let id = self.queue.pop()?;
            let listener = id as usize;
            match self.listeners[listener].accept() {
                Ok(Accept::Connection(stream, peer)) => {
                    *left -= 1;
                    stats.accepted += 1;
                    self.queue.post(id);
                    return Some(Accepted {
                        stream,
                        peer,
                        listener,
                    });
                }
                Ok(Accept::Aborted) => {
                    *left -= 1;
                    self.queue.post(id);
                }
                Ok(Accept::Drained) => self.refill_reserve(),
                Ok(Accept::OutOfDescriptors(shortage)) => {
                    self.run_out(listener, shortage, now_ms, stats);
                    return None;
                }
                Err(error) => {
                    self.failure = Some(error.into());
                    // It may well stay readable, and must not make the loop spin.
                    self.backoff.pause(now_ms);
                    return None;
                }
            }
        }
        None
    }

    /// Forgets who may be waiting: who really is will be reported again.
    pub(crate) fn leave_to_kernel(&mut self) {
        self.queue.clear();
    }

    /// Whether clients were left over, or may have been.
    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Tells what accepting met in the turn before.
    pub(crate) fn report_failure(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Whether this turn holds the accept lock.
    pub(crate) fn holds_lock(&self) -> bool {
        self.holds_lock
    }

    /// Gives the accept lock back, if this turn holds it.
    pub(crate) fn release_lock(&mut self) {
        if !mem::take(&mut self.holds_lock) {
            return;
        }
        if let Some(lock) = &mut self.lock {
            lock.unlock();
        }
    }

    /// A descriptor is free again: a pause for want of one is over.
    pub(crate) fn descriptor_closed(&mut self) {
        self.backoff.descriptor_closed();
    }

    /// Closes the listeners for good.
    pub(crate) fn close(&mut self, poller: &mut Poller) -> Result<()> {
        let stopped = self.stop_listening(poller);
        self.listeners.clear();
        self.reserve = Reserve::none();
        self.release_lock();
        stopped
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.listening
    }

    /// There is nothing left to accept with: all listeners pause, and one client learns of it.
    fn run_out(&mut self, listener: usize, shortage: Shortage, now_ms: u64, stats: &mut Stats) {
        // Memory is not set aside.
        let reserve_helps = shortage != Shortage::Memory && self.reserve.is_held();
        if reserve_helps && self.backoff.turns_away(now_ms) {
            let listener = &self.listeners[listener];
            let has_come = || matches!(listener.accept(), Ok(Accept::Connection(..)));
            stats.turned_away += u64::from(self.reserve.lend(has_come) == Some(true));
        }
        stats.accept_pauses += 1;
        self.backoff.pause(now_ms);
    }

    /// Sets a descriptor aside again, if another has taken the one that was: not before everybody
    /// who waits has one.
    fn refill_reserve(&mut self) {
        if L::TAKES_DESCRIPTORS {
            self.reserve.hold();
        }
    }

    fn listen(&mut self, poller: &mut Poller) -> Result<()> {
        for (listener, id) in self.listeners.iter().zip(0..) {
            let added = poller.add(listener, listener_key(id), Interest::READ, Mode::Level);
            if let Err(error) = added {
                // All or none: the next attempt begins at the first.
                for id in 0..id {
                    let _ = poller.remove(listener_key(id));
                }
                return Err(error.into());
            }
        }
        self.listening = true;
        Ok(())
    }

    /// Takes every listener out, and tells the first refusal; even then none is registered.
    fn stop_listening(&mut self, poller: &mut Poller) -> Result<()> {
        self.queue.clear();
        let mut stopped = Ok(());
        if mem::take(&mut self.listening) {
            for (_, id) in self.listeners.iter().zip(0..) {
                stopped = stopped.and(poller.remove(listener_key(id)));
            }
        }
        Ok(stopped?)
    }
}

/// The same worker with no place left.
fn full(load: Load) -> Load {
    Load {
        active: load.capacity,
        ..load
    }
}
