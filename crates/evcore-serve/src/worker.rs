//! A worker: its loop, and its stop.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use evcore::{Connections, EventLoop, Step, Token};
use evcore_prefork::WorkerIndex;

use crate::arrival::Arrival;
use crate::awaited_headers::AwaitedHeaders;
use crate::event::{Event, OnEvent};
use crate::handover::{Handover, Moves};
use crate::leaving::Leaving;
use crate::proxy_protocol::ProxyProtocol;
use crate::shortages::Shortages;
use crate::stop_reports::StopReports;

/// A worker of a [`Server`](crate::Server), with a loop that has the server's listeners.
pub struct Worker {
    /// The loop. To wait, call [`next_turn`](Self::next_turn) and not a method of the loop.
    pub ev: EventLoop,
    supervised: evcore_prefork::Worker,
    stop_timeout: Duration,
    on_event: OnEvent,
    shortages: Shortages,
    /// `None` if connections do not move.
    handover: Option<Box<Handover>>,
    /// `None` if no load balancer sends headers.
    awaited_headers: Option<Box<AwaitedHeaders>>,
    /// `None` once the worker is ready.
    on_ready: Option<Box<dyn FnOnce()>>,
    /// `None` if a supervisor reports the stops.
    stop_reports: Option<StopReports>,
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
            handover: None,
            awaited_headers: None,
            on_ready: Some(Box::new(|| {})),
            stop_reports: None,
        }
    }

    /// Sets the hook that is called when the first turn begins.
    pub(crate) fn on_ready(mut self, hook: impl FnOnce() + 'static) -> Self {
        self.on_ready = Some(Box::new(hook));
        self
    }

    /// Makes this worker, which has no supervisor, report the stops of the server.
    pub(crate) fn reports_stops(mut self) -> Self {
        self.stop_reports = Some(StopReports::new(Arc::clone(&self.on_event)));
        self
    }

    pub(crate) fn handover(mut self, handover: Option<Handover>) -> Self {
        self.handover = handover.map(Box::new);
        self
    }

    pub(crate) fn proxy_protocol(mut self, senders: Option<ProxyProtocol>) -> Self {
        self.awaited_headers = senders.map(|senders| {
            let (on_event, index) = (Arc::clone(&self.on_event), self.index());
            let report = move |peer: &_, why: &_| on_event(Event::NoProxyHeader(index, peer, why));
            Box::new(AwaitedHeaders::new(senders, report))
        });
        self
    }

    /// Begins the next turn (iteration of the loop): waits until a step comes. Returns false when
    /// the worker has stopped; its function should then return.
    ///
    /// The first call reports that the worker is ready, so open everything that it needs before
    /// this call. A stop signal ends the wait. After a graceful stop (QUIT, or a reload), the loop
    /// [shuts down](EventLoop::shutdown): its listeners are closed, idle connections are evicted,
    /// and the others have the [timeout](crate::Server::stop_timeout). After a fast stop (TERM) the
    /// worker stops at once, or, if a service manager keeps its connections, after the turn in
    /// which its idle ones have left.
    ///
    /// With a [handover](crate::Server::handover), a worker that is replaced does not shut its loop
    /// down while its successor takes the connections.
    ///
    /// # Errors
    ///
    /// The errors of [`EventLoop::wait`], after which the loop cannot go on. Return the error, and
    /// the supervisor starts another worker.
    ///
    /// # Panics
    ///
    /// If the program has not taken an [arrival](Self::next_arrival) from another worker in the
    /// turn before.
    pub fn next_turn(&mut self) -> evcore::Result<bool> {
        self.begin_turn();
        self.supervised.waits();
        let goes_on = self.ev.wait();
        self.after_wait(goes_on)
    }

    /// Does the same as [`next_turn`](Self::next_turn), and calls `between` after the end of the
    /// last turn and before the wait. Read the reports of a
    /// [watchdog](evcore::InstrumentOptions::watchdog) in `between`, so that they do not wait for
    /// the next event. Keep the call short, because the worker may hold the accept lock meanwhile.
    ///
    /// # Errors
    ///
    /// The errors of [`next_turn`](Self::next_turn).
    pub fn next_turn_with(&mut self, between: impl FnOnce(&mut EventLoop)) -> evcore::Result<bool> {
        self.begin_turn();
        let timeout = self.ev.prepare()?.timeout;
        between(&mut self.ev);
        self.supervised.waits();
        let goes_on = self.ev.wait_at_most(timeout);
        self.after_wait(goes_on)
    }

    fn after_wait(&self, goes_on: evcore::Result<bool>) -> evcore::Result<bool> {
        // After the last turn the program cleans up for as long as the stop allows, so no hang
        // timeout limits this work.
        if !matches!(goes_on, Ok(false)) || self.supervised.stop().is_none() {
            self.supervised.works();
        }
        goes_on
    }

    /// Reports what the last turn has found, and shuts the loop down if a stop was requested.
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
        let (supervised, timeout) = (&self.supervised, self.stop_timeout);
        let stops_within = match &mut self.handover {
            Some(handover) => {
                let successor = || supervised.successor();
                handover.begin_turn(&mut self.ev, supervised.stop(), successor, timeout)
            }
            None => supervised.stop_within(timeout),
        };
        if let Some(timeout) = stops_within {
            if let Some(reports) = &self.stop_reports {
                reports.report(self.supervised.stop());
            }
            self.ev.shutdown(timeout);
        }
    }

    /// Returns the next step of this turn, as [`EventLoop::next_step`] does. With a
    /// [handover](crate::Server::handover) or the [PROXY protocol](crate::Server::proxy_protocol),
    /// call this method in place of the loop's, because it handles the steps that are not for the
    /// program.
    #[inline]
    pub fn next_step(&mut self) -> Option<Step> {
        while let Some(step) = self.ev.next_step() {
            match (&mut self.handover, &mut self.awaited_headers) {
                (Some(handover), _) if handover.owns(&step) => handover.handle(&mut self.ev, &step),
                (_, Some(headers)) => match headers.handle(step, &mut self.ev) {
                    None => {}
                    step => return step,
                },
                _ => return Some(step),
            }
        }
        None
    }

    /// Hands connections over to a successor that takes them, gives some to another worker that has
    /// fewer, or leaves them for the next start, if a [service
    /// manager](crate::Server::notify_service_manager) keeps them.
    ///
    /// Call this after the steps of each turn, for each map of connections. It does nothing while
    /// no connection may leave.
    ///
    /// A connection leaves if `state` returns bytes for it: all that was read and not handled, and
    /// all that is not sent. Its token ends, with its timers and posts, and its value is dropped.
    /// It stays if `state` returns `None`, for example because a response is under way; `state` is
    /// called again in a later turn.
    ///
    /// If the successor dies before it has taken a connection, its replacement gets the connection.
    /// If no worker takes it, the connection [arrives](Self::next_arrival) here again.
    ///
    /// Costs O(indices up to the highest that the map had) while connections
    /// [leave](Self::is_leaving), or are given to another worker.
    ///
    /// # Panics
    ///
    /// If a state has more than [`STATE_BYTES_MAX`](crate::STATE_BYTES_MAX) bytes.
    #[inline]
    pub fn hand_over<T>(
        &mut self,
        connections: &mut Connections<T>,
        mut state: impl FnMut(Token, &mut T) -> Option<Vec<u8>>,
    ) {
        if let Some(handover) = &mut self.handover {
            handover.hand_over(&mut self.ev, connections, |token, connections| {
                let (_, value) = connections.get_mut(token)?;
                let (state, partner) = (state(token, value)?, None);
                Some(Leaving { state, partner })
            });
        }
    }

    /// Hands sessions of two connections over, as [`hand_over`](Self::hand_over) does with single
    /// ones, for example the client and the upstream of a proxy. Both connections move, or neither
    /// does. They arrive as one [`Arrival`] with a [partner](Arrival::partner).
    ///
    /// `state` is called for each connection. If it returns the token of the partner and the bytes
    /// of the state, the session leaves. The connection for which `state` was called is then the
    /// stream of the arrival.
    ///
    /// # Panics
    ///
    /// If a state has more than [`STATE_BYTES_MAX`](crate::STATE_BYTES_MAX) bytes, or if the
    /// partner is not another connection of the map.
    #[inline]
    pub fn hand_over_pairs<T>(
        &mut self,
        connections: &mut Connections<T>,
        mut state: impl FnMut(Token, &mut Connections<T>) -> Option<(Token, Vec<u8>)>,
    ) {
        if let Some(handover) = &mut self.handover {
            handover.hand_over(&mut self.ev, connections, |token, connections| {
                let (partner, state) = state(token, connections)?;
                let partner = Some(partner);
                Some(Leaving { state, partner })
            });
        }
    }

    /// The next connection that has arrived from another worker, or has come back; `None` if there
    /// is no further one. Call this until it returns `None`, after the steps of each turn and after
    /// [`hand_over`](Self::hand_over).
    pub fn next_arrival(&mut self) -> Option<Arrival> {
        self.handover.as_mut()?.next_arrival(&mut self.ev)
    }

    /// Returns whether this worker stops, and its connections end here. Returns false while they
    /// [leave](Self::is_leaving) or may still leave; the program then serves as before the stop.
    ///
    /// If this returns true, announce in each response that it is the last one on its connection.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        let moves = |handover: &Handover| !handover.is_over();
        self.supervised.stop().is_some() && !self.handover.as_deref().is_some_and(moves)
    }

    /// Returns whether this worker's connections can move:
    /// [`Server::handover`](crate::Server::handover) was called, and the worker is a process with a
    /// supervisor. The program then has to call [`hand_over`](Self::hand_over) and
    /// [`next_arrival`](Self::next_arrival).
    #[must_use]
    pub fn hands_over(&self) -> bool {
        self.handover.is_some()
    }

    /// Returns whether this worker's connections leave: a successor takes them, or they wait for
    /// the [next start](crate::Server::notify_service_manager) of the service.
    ///
    /// Busy connections may stay until they are idle. Connections that cannot move end as usual, at
    /// the latest with the [timeout](crate::Server::stop_timeout).
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.handover.as_ref().is_some_and(|one| one.is_leaving())
    }

    /// The numbers of connections that have moved so far. A session of two connections counts as
    /// two.
    #[must_use]
    pub fn moves(&self) -> Moves {
        let moves = self.handover.as_ref().map(|one| one.moves());
        moves.unwrap_or_default()
    }

    /// The worker's number, from 0. During a reload an old and a new worker have the same number.
    #[must_use]
    pub fn index(&self) -> WorkerIndex {
        self.supervised.index()
    }

    /// The worker as its supervisor sees it, with its slot, its process, the stop that was
    /// requested, and the [count](evcore_prefork::Worker::reopen_count) of USR1 signals.
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
