//! One worker: the loop, and the table of connections.

use std::io;

use evcore::{
    Accepted, Budgets, Error, EventLoop, Interest, Listener, Mode, Side, Step, Stream, Table,
    Token,
    balancer::{AcceptMutex, Board, Policy, this_process},
    timer::{NeverEarly, TimerHeap, TimerTree},
};
use evcore_prefork::{Stop, Worker};

use crate::{
    connection::{Connection, Fate, Visit},
    counts::Counts,
    log::log,
    options::{Options, Timers},
    site::Site,
};

/// What workers share: made before they are forked.
#[derive(Debug)]
pub struct Shared {
    pub listeners: Vec<Listener>,
    pub board: Board,
    pub mutex: AcceptMutex,
    pub options: Options,
}

/// A worker.
#[derive(Debug)]
pub struct Server {
    ev: EventLoop,
    connections: Table<Connection<Stream>>,
    site: Site,
    worker: Worker,
    options: Options,
    /// Names the timer that ends an orderly stop. Its index is behind those of the connections.
    stop_timer: Token,
    last_complaint: i64,
}

impl Server {
    /// A worker's loop over the listeners it shares; to be made in the worker's process.
    pub fn new(worker: Worker, shared: Shared) -> Result<Self, Box<dyn std::error::Error>> {
        let Shared {
            listeners,
            board,
            mutex,
            options,
        } = shared;
        let mut builder = EventLoop::builder()
            .connections(options.connections)
            .policy(options.policy)
            .budgets(Budgets {
                accepts: options.multi_accept,
                ..Budgets::default()
            });
        for listener in listeners {
            builder = builder.listener(listener);
        }
        if matches!(options.policy, Policy::Mutex { .. }) {
            builder = builder.lock(mutex.handle(this_process()));
        }
        builder = match options.timers {
            // Over a wheel: what the loop does by itself.
            Timers::Wheel => builder,
            Timers::Tree => builder.timers(NeverEarly::new(TimerTree::new())),
            Timers::Heap => builder.timers(NeverEarly::new(TimerHeap::new())),
        };
        if let Some(kind) = options.poller {
            builder = builder.poller(kind);
        }
        if let Some(resolution) = options.timer_resolution {
            builder = builder.timer_resolution(resolution);
        }
        let ev = builder.build()?;
        worker.wake_fd(ev.handle())?;
        Ok(Self {
            connections: Table::with_capacity(options.connections),
            site: Site::new(&options, worker.index(), Counts::new(board, worker.index())),
            stop_timer: Token::new(options.connections, std::num::NonZeroU32::MIN),
            last_complaint: i64::MIN,
            ev,
            worker,
            options,
        })
    }

    /// Serves until a signal says stop.
    pub fn run(mut self) -> io::Result<()> {
        self.site.counts.publish(self.ev.clock().monotonic_ms());
        while !self.is_done() {
            match self.ev.wait() {
                // Of a listener, which then pauses: no reason to leave those who are served.
                Err(error @ Error::Accept(_)) => log(format_args!("httpd: {error}")),
                waited => waited?,
            }
            let pauses = self.ev.stats().accept_pauses;
            while let Some(step) = self.ev.next_step() {
                self.take(step);
            }
            if self.ev.stats().accept_pauses > pauses {
                self.complain();
            }
            self.site.counts.publish(self.ev.clock().monotonic_ms());
        }
        Ok(())
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Ready(token, ready) => {
                self.visit(token, |connection, visit| connection.ready(ready, visit));
            }
            Step::Accepted(new) => self.welcome(new),
            // Who is still here has had the time that was given: the process's end closes it.
            Step::Expired(token, _) if token == self.stop_timer => {
                self.connections.retain(|_, _| false);
            }
            Step::Expired(token, side) => {
                self.visit(token, |connection, visit| connection.expired(side, visit));
            }
            Step::Woken if self.worker.stop() == Some(Stop::Graceful) => self.stop(),
            Step::Woken => {}
        }
    }

    /// Calls on a connection, and ends it if that is what comes of it.
    fn visit(
        &mut self,
        token: Token,
        call: impl FnOnce(&mut Connection<Stream>, &mut Visit<'_>) -> Fate,
    ) {
        let Some(connection) = self.connections.get_mut(token) else {
            return;
        };
        let mut visit = Visit {
            ev: &mut self.ev,
            site: &mut self.site,
            token,
        };
        if call(connection, &mut visit) == Fate::Ends {
            self.end(token);
        }
    }

    fn end(&mut self, token: Token) {
        if let Some(connection) = self.connections.remove(token) {
            self.ev.close_fd(token, connection.end(&mut self.site));
        }
    }

    fn welcome(&mut self, new: Accepted) {
        // The loop accepts no more than there are places for.
        let Some(place) = self.connections.vacant_entry() else {
            return self.site.counts.connection_refused();
        };
        let token = place.token();
        // One registration for life: both sides, told of changes only.
        match self.ev.add(token, &new.stream, Interest::BOTH, Mode::Edge) {
            Ok(()) => {
                let mut visit = Visit {
                    ev: &mut self.ev,
                    site: &mut self.site,
                    token,
                };
                place.insert(Connection::new(new.stream, &mut visit));
            }
            Err(error) => {
                self.site.counts.connection_refused();
                log(format_args!(
                    "httpd: cannot watch the connection from {}: {error}",
                    new.peer
                ));
            }
        }
    }

    /// An orderly stop: no new clients, no idle ones, the others for as long as they may take.
    fn stop(&mut self) {
        if std::mem::replace(&mut self.site.stopping, true) {
            return;
        }
        if let Err(error) = self.ev.close_listeners() {
            log(format_args!("httpd: {error}"));
        }
        if self.ev.begin(self.stop_timer).is_ok() {
            self.ev
                .arm(self.stop_timer, Side::Read, self.options.shutdown_timeout);
        }
        let tokens: Vec<_> = self.connections.tokens().collect();
        for token in tokens {
            self.visit(token, Connection::worker_stops);
        }
    }

    fn is_done(&self) -> bool {
        match self.worker.stop() {
            Some(Stop::Fast) => true,
            Some(Stop::Graceful) => self.site.stopping && self.connections.is_empty(),
            None => false,
        }
    }

    /// At most once a second, since this happens when there is too much of everything.
    fn complain(&mut self) {
        let clock = self.ev.clock();
        if clock.unix_seconds() > self.last_complaint {
            self.last_complaint = clock.unix_seconds();
            log(format_args!(
                "{} [crit] {}: out of descriptors: {} connections are served, others wait",
                clock.error_log_time(),
                std::process::id(),
                self.ev.active()
            ));
        }
    }
}
