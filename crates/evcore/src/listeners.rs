//! The listeners of a worker: which of them are registered, and which are suspended.
//!
//! A listener that fails, in the poller or when accepting, is suspended for a while, because it may
//! stay readable and make the loop spin. Unlike the pause for lack of descriptors, a suspension
//! does not end when a descriptor is closed.

use std::{collections::VecDeque, mem, ops::Range, time::Duration};

use evcore_balancer::Plan;
use evcore_clock::Clock;
use evcore_net::{Accept, Backoff};
use evcore_poller::{Interest, Mode, Poller};

use crate::{
    acceptor::Acceptor,
    error::{Error, ListenerError, Result},
    keys::listener_key,
    stats::Stats,
    time::now,
};

/// After this many lost connections in a row the listener counts as failed, because a sandbox that
/// forbids accepting would make the loop spin. A backlog usually holds fewer connections (on Linux
/// by default 4,096), so clients that leave do not cause this.
const ABORTED_MAX: u32 = 8_192;

#[derive(Debug)]
pub(crate) struct Listeners<L> {
    all: Vec<Entry<L>>,
    // Invariant: true if any is registered with the poller.
    registered: bool,
    // Invariant: the earliest end of a suspension; `None` without one.
    resumes_at: Option<Duration>,
    /// True if, since the last [`register`](Self::register), a suspension has begun or ended, or
    /// the kernel may have dropped a registration.
    changed: bool,
    // Invariant: at most one for each listener, the latest.
    errors: VecDeque<ListenerError>,
}

#[derive(Debug)]
struct Entry<L> {
    listener: L,
    registered: bool,
    /// True if the kernel may have dropped the registration.
    doubted: bool,
    /// Connections lost in a row, before they were accepted.
    aborted: u32,
    suspension: Backoff,
}

impl<L: Acceptor> Listeners<L> {
    pub(crate) fn new(listeners: Vec<L>) -> Self {
        let entries = listeners.into_iter().map(|listener| Entry {
            listener,
            registered: false,
            doubted: false,
            aborted: 0,
            suspension: Backoff::new(),
        });
        Self {
            all: entries.collect(),
            registered: false,
            resumes_at: None,
            changed: false,
            errors: VecDeque::new(),
        }
    }

    /// Registers the listeners that are not suspended, and deregisters the others. A listener that
    /// the poller refuses is suspended. A doubted registration is renewed.
    pub(crate) fn register(
        &mut self,
        plan: &Plan,
        poller: &mut Poller,
        clock: &Clock,
        stats: &mut Stats,
    ) {
        for id in self.ids() {
            let updated = self.entry(id).update(listener_key(id), plan, poller);
            self.suspend_if_failed(id, updated, clock, stats);
        }
        self.registered = self.all.iter().any(|entry| entry.registered);
        self.changed = false;
    }

    /// Deregisters all listeners. A listener that the poller refuses to remove is suspended.
    pub(crate) fn deregister(&mut self, poller: &mut Poller, clock: &Clock, stats: &mut Stats) {
        self.registered = false;
        for id in self.ids() {
            let removed = self.entry(id).deregister(listener_key(id), poller);
            self.suspend_if_failed(id, removed, clock, stats);
        }
    }

    /// Closes all listeners, even if the poller refuses to remove one, and returns the first
    /// refusal.
    pub(crate) fn close(&mut self, poller: &mut Poller) -> Result<()> {
        self.registered = false;
        let mut first = Ok(());
        for id in self.ids() {
            first = first.and(self.entry(id).deregister(listener_key(id), poller));
        }
        self.all.clear();
        self.resumes_at = None;
        first
    }

    pub(crate) fn accept(&mut self, id: u32) -> Result<Accept<L::Stream>> {
        let entry = self.entry(id);
        let accepted = entry.listener.accept()?;
        if !matches!(accepted, Accept::Aborted) {
            entry.aborted = 0;
            return Ok(accepted);
        }
        entry.aborted += 1;
        if entry.aborted < ABORTED_MAX {
            return Ok(Accept::Aborted);
        }
        let connections = mem::take(&mut entry.aborted);
        Err(Error::Aborted { connections })
    }

    /// Suspends a listener that has failed, and keeps its error for the application.
    pub(crate) fn suspend(&mut self, id: u32, source: Error, clock: &Clock, stats: &mut Stats) {
        let listener = id as usize;
        self.all[listener].suspension.pause(now(clock));
        self.suspensions_have_changed();
        stats.listener_errors += 1;
        self.errors.retain(|error| error.listener != listener);
        self.errors.push_back(ListenerError { listener, source });
    }

    #[inline]
    pub(crate) fn resume(&mut self, now: Duration) {
        if self.resumes_at.is_some_and(|resumes_at| resumes_at <= now) {
            for entry in &mut self.all {
                entry.suspension.expire(now);
            }
            self.suspensions_have_changed();
        }
    }

    #[inline]
    pub(crate) fn resumes_at(&self) -> Option<Duration> {
        self.resumes_at
    }

    /// Makes the next `register` renew this listener's registration, which the kernel may have
    /// dropped.
    pub(crate) fn doubt(&mut self, id: u32) {
        self.entry(id).doubted = true;
        self.changed = true;
    }

    pub(crate) fn take_error(&mut self) -> Option<ListenerError> {
        self.errors.pop_front()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns whether this worker listens.
    #[inline]
    pub(crate) fn are_registered(&self) -> bool {
        self.registered
    }

    #[inline]
    pub(crate) fn any_accepts(&self) -> bool {
        if self.resumes_at.is_none() {
            return !self.all.is_empty();
        }
        self.all.iter().any(|entry| !entry.is_suspended())
    }

    pub(crate) fn accepts(&self, id: u32) -> bool {
        let entry = self.all.get(id as usize);
        entry.is_some_and(|entry| !entry.is_suspended())
    }

    /// Returns whether [`register`](Self::register) has anything to do for a worker that listens
    /// already.
    pub(crate) fn have_changed(&self) -> bool {
        self.changed
    }

    fn suspend_if_failed(&mut self, id: u32, result: Result<()>, clock: &Clock, stats: &mut Stats) {
        if let Err(error) = result {
            self.suspend(id, error, clock, stats);
        }
    }

    fn suspensions_have_changed(&mut self) {
        let suspensions = self.all.iter().map(|entry| &entry.suspension);
        self.resumes_at = suspensions.filter_map(Backoff::resumes_at).min();
        self.changed = true;
    }

    fn ids(&self) -> Range<u32> {
        let count = self.all.len();
        0..u32::try_from(count).expect("there are fewer descriptors than that")
    }

    fn entry(&mut self, id: u32) -> &mut Entry<L> {
        &mut self.all[id as usize]
    }
}

impl<L> Entry<L> {
    fn is_suspended(&self) -> bool {
        self.suspension.resumes_at().is_some()
    }
}

impl<L: Acceptor> Entry<L> {
    /// Registers the listener, or deregisters it if it is suspended. Renews a doubted registration.
    fn update(&mut self, key: u64, plan: &Plan, poller: &mut Poller) -> Result<()> {
        if self.is_suspended() || self.doubted {
            self.deregister(key, poller)?;
        }
        if self.is_suspended() || self.registered {
            return Ok(());
        }
        let mode = match (plan.exclusive, plan.edge_triggered) {
            (true, true) => Mode::ExclusiveEdge,
            (true, false) => Mode::Exclusive,
            (false, _) => Mode::Level,
        };
        poller.add(&self.listener, key, Interest::READ, mode)?;
        self.registered = true;
        Ok(())
    }

    /// Deregisters the listener. Afterwards it does not count as registered, even if the poller
    /// refuses to remove it.
    fn deregister(&mut self, key: u64, poller: &mut Poller) -> Result<()> {
        self.doubted = false;
        if mem::take(&mut self.registered) {
            poller.remove(key)?;
        }
        Ok(())
    }
}
