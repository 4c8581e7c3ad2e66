//! What a worker serves: the loop, and the table of connections.

use std::{io, time::Duration};

use evcore::{
    Accepted, Acceptor, Connections, EventLoop, Interest, Listener, Mode, Ready, Stats, Step,
    Timer, Token, Transport,
};

use crate::{
    access_log::AccessLog,
    connection::{Connection, Fate, Visit},
    counts::Counts,
    figures::Keeper,
    log::log,
    options::Options,
    site::Site,
};

/// A worker's loop and its connections; over sockets, or over those of a simulator.
#[derive(Debug)]
pub struct Server<L: Acceptor<Stream: Transport> = Listener> {
    pub ev: EventLoop<L>,
    connections: Connections<Connection<L::Stream>>,
    site: Site,
    options: Options,
    figures: Keeper,
    /// For the access log; `None`: there is none.
    flush: Option<Flush>,
    /// When it was last logged that descriptors, or places, had run out: Unix seconds.
    logged_descriptors: i64,
    logged_full: i64,
}

/// The timer by which the access log is flushed when there is little to be logged.
#[derive(Debug)]
struct Flush {
    token: Token,
    is_armed: bool,
}

/// How old a line of the access log becomes before it is written.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

impl<L: Acceptor<Stream: Transport>> Server<L> {
    /// Over a loop, as the worker of this index.
    pub fn new(ev: EventLoop<L>, index: usize, counts: Counts, options: Options) -> Self {
        let mut server = Self {
            connections: Connections::new(),
            site: Site::new(&options, index, counts),
            figures: Keeper::new(index),
            flush: None,
            logged_descriptors: i64::MIN,
            logged_full: i64::MIN,
            ev,
            options,
        };
        server.publish();
        server
    }

    /// With a log of what is answered.
    pub fn with_access_log(mut self, log: AccessLog) -> evcore::Result<Self> {
        let token = self.ev.add_unwatched()?;
        // Who stops flushes in any case.
        self.ev.set_background(token);
        self.flush = Some(Flush {
            token,
            is_armed: false,
        });
        self.site.log = Some(log);
        Ok(self)
    }

    /// Opens the access log again, if there is one.
    pub fn reopen_log(&mut self) {
        if let Some(log) = &mut self.site.log {
            log.reopen();
        }
    }

    /// Waits, and takes the steps of one turn.
    pub fn turn(&mut self) -> io::Result<()> {
        let before = *self.ev.stats();
        self.ev.wait()?;
        while let Some(step) = self.ev.next_step() {
            self.take(step);
        }
        self.log_shortages(&before);
        self.log_listener_errors();
        self.flush_soon();
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
            Step::Expired(token, _) if self.is_flush(token) => self.flush_now(),
            Step::Expired(token, timer) => {
                self.visit(token, |connection, visit| connection.expired(timer, visit));
            }
            // A signal, which is looked at before every turn.
            Step::Woken => {}
            Step::Evict(token) => self.visit(token, Connection::closing),
        }
    }

    /// Shows to all what this worker is doing.
    pub fn publish(&mut self) {
        let figures = self.figures.figures(&self.ev);
        self.site.counts.publish_with(figures);
    }

    /// Sees to it that no line of the access log waits for long.
    fn flush_soon(&mut self) {
        let (Some(log), Some(flush)) = (&self.site.log, &mut self.flush) else {
            return;
        };
        if log.is_waiting() && !flush.is_armed {
            flush.is_armed = self.ev.arm(flush.token, Timer::WRITE, FLUSH_AFTER);
        }
    }

    fn is_flush(&self, token: Token) -> bool {
        let flush = self.flush.as_ref();
        flush.is_some_and(|flush| flush.token == token)
    }

    fn flush_now(&mut self) {
        if let (Some(log), Some(flush)) = (&mut self.site.log, &mut self.flush) {
            log.flush();
            flush.is_armed = false;
        }
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
        self.admit_bodies();
    }

    /// Bodies that wait for room have it as soon as there is some.
    fn admit_bodies(&mut self) {
        while let Some(token) = self.site.bodies.admit_next() {
            if let Some(connection) = self.connections.get_mut(token) {
                connection.admitted();
                self.ev.post(token, Ready::WRITABLE);
            }
        }
    }

    fn end(&mut self, token: Token) {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.end(token, &mut self.site);
            self.connections.close(&mut self.ev, token);
        }
    }

    fn welcome(&mut self, new: Accepted<L::Stream>) {
        // One registration for life: both sides, told of changes only.
        match self.ev.add(&new.stream, Interest::BOTH, Mode::Edge) {
            Ok(token) => {
                let mut visit = Visit {
                    ev: &mut self.ev,
                    site: &mut self.site,
                    token,
                };
                let peer = new.peer.tcp().map(|peer| peer.ip());
                let connection = Connection::new(new.stream, peer, &mut visit);
                self.connections.insert(token, connection);
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

    /// As they come: a listener fails at most twice a second, since it is suspended meanwhile.
    fn log_listener_errors(&mut self) {
        while let Some(error) = self.ev.take_listener_error() {
            log(format_args!(
                "{} [alert] {}: {error}",
                self.ev.clock().error_log_time(),
                std::process::id()
            ));
        }
    }

    /// Logs what has run out in this turn: each at most once a second, since this happens when there
    /// is too much of everything.
    fn log_shortages(&mut self, before: &Stats) {
        let (clock, stats) = (self.ev.clock(), self.ev.stats());
        let now = clock.unix_seconds();
        if stats.accept_pauses > before.accept_pauses && now > self.logged_descriptors {
            self.logged_descriptors = now;
            log(format_args!(
                "{} [crit] {}: out of descriptors: {} connections are served, others wait",
                clock.error_log_time(),
                std::process::id(),
                self.ev.active()
            ));
        }
        if stats.full > before.full && now > self.logged_full {
            self.logged_full = now;
            log(format_args!(
                "{} [alert] {}: {} connections are not enough: others wait",
                clock.error_log_time(),
                std::process::id(),
                self.options.connections
            ));
        }
    }
}
