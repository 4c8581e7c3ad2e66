//! What a worker serves: the loop, and the table of connections.

use std::io;

use evcore::{
    Accepted, Error, EventLoop, Interest, Listen, Listener, Mode, Step, Table, Token, Wire,
};

use crate::{
    connection::{Connection, Fate, Visit},
    counts::Counts,
    log::log,
    options::Options,
    site::Site,
};

/// A worker's loop and its connections; over sockets, or over those of a simulator.
#[derive(Debug)]
pub struct Server<L: Listen<Stream: Wire> = Listener> {
    pub ev: EventLoop<L>,
    connections: Table<Connection<L::Stream>>,
    site: Site,
    options: Options,
    last_complaint: i64,
}

impl<L: Listen<Stream: Wire>> Server<L> {
    /// Over a loop, as the worker of this index.
    pub fn new(ev: EventLoop<L>, index: usize, counts: Counts, options: Options) -> Self {
        let mut server = Self {
            connections: Table::with_capacity(options.connections),
            site: Site::new(&options, index, counts),
            last_complaint: i64::MIN,
            ev,
            options,
        };
        server.publish();
        server
    }

    /// Waits, and takes the steps of one turn.
    pub fn turn(&mut self) -> io::Result<()> {
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
        self.publish();
        Ok(())
    }

    /// Does one thing that there is to do.
    pub fn take(&mut self, step: Step<L::Stream>) {
        match step {
            Step::Ready(token, ready) => {
                self.visit(token, |connection, visit| connection.ready(ready, visit));
            }
            Step::Accepted(new) => self.welcome(new),
            Step::Expired(token, side) => {
                self.visit(token, |connection, visit| connection.expired(side, visit));
            }
            // A signal, which is looked at before every turn.
            Step::Woken => {}
            Step::Closing(token) => self.visit(token, Connection::closing),
        }
    }

    /// Shows to all what this worker is doing.
    pub fn publish(&mut self) {
        self.site.counts.publish(self.ev.clock().monotonic_ms());
    }

    /// Calls on a connection, and ends it if that is what comes of it.
    fn visit(
        &mut self,
        token: Token,
        call: impl FnOnce(&mut Connection<L::Stream>, &mut Visit<'_, L>) -> Fate,
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

    fn welcome(&mut self, new: Accepted<L::Stream>) {
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
    pub fn stop(&mut self) {
        if !std::mem::replace(&mut self.site.stopping, true) {
            self.ev.shutdown(self.options.shutdown_timeout);
        }
    }

    /// Whether a stop has come to its end. Who is still here has had the time that was given: the
    /// process's end closes it.
    pub fn is_done(&self) -> bool {
        self.ev.is_done()
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
