//! A worker's server: its event loop and its connections.

use std::time::Duration;

use evcore::{
    Accepted, Acceptor, EventLoop, Interest, Listener, Mode, Ready, Step, Token, TokenMap,
    Transport, clock::Clock,
};

use crate::{
    access_log::AccessLog,
    connection::{Connection, Cx, Disposition},
    counts::Counts,
    files::Files,
    flight_log::{SlowTurnLog, log_records},
    log::log,
    metrics::MetricsCollector,
    options::Options,
    shared::Shared,
    timers::{FLUSH, SWEEP},
};

/// A worker's loop and its connections, over sockets or over those of a simulator.
#[derive(Debug)]
pub struct Server<L: Acceptor<Stream: Transport> = Listener> {
    /// The event loop.
    pub ev: EventLoop<L>,
    connections: TokenMap<Connection<L::Stream>>,
    shared: Shared,
    options: Options,
    metrics: MetricsCollector,
    /// `None` without an access log.
    flush: Option<Background>,
    /// `None` without files.
    sweep: Option<Background>,
    exhausted: Overload,
    full: Overload,
    short: Overload,
    slow_turns: SlowTurnLog,
}

/// The log of one kind of overload.
#[derive(Debug)]
struct Overload {
    /// The loop's count of it when it was last looked at.
    count: u64,
    /// When it was last logged, in Unix seconds.
    logged_at: i64,
}

/// A timer of the server itself: it flushes the access log when there are few lines, or closes files
/// that are no longer used.
#[derive(Debug)]
struct Background {
    token: Token,
    is_armed: bool,
}

/// The maximum delay of a line of the access log.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// How long a file stays open that is not used, and the interval of looking for such files.
const SWEEP_AFTER: Duration = Duration::from_secs(10);

impl<L: Acceptor<Stream: Transport>> Server<L> {
    /// Creates the server of the worker with this index.
    pub fn new(ev: EventLoop<L>, index: usize, mut counts: Counts, options: Options) -> Self {
        let earlier = counts.begin(index, ev.clock());
        Self {
            connections: TokenMap::new(),
            shared: Shared::new(&options, index, counts),
            metrics: MetricsCollector::new(earlier),
            flush: None,
            sweep: None,
            exhausted: Overload::NONE,
            full: Overload::NONE,
            short: Overload::NONE,
            slow_turns: SlowTurnLog::default(),
            ev,
            options,
        }
    }

    /// Adds an access log.
    pub fn with_access_log(mut self, log: AccessLog) -> evcore::Result<Self> {
        // The end of the worker flushes the log in any case.
        self.flush = Some(Background::new(&mut self.ev)?);
        self.shared.log = Some(log);
        Ok(self)
    }

    /// Adds the files of `--root`.
    pub fn with_files(mut self, files: Files) -> evcore::Result<Self> {
        self.sweep = Some(Background::new(&mut self.ev)?);
        self.shared.files = Some(Box::new(files));
        Ok(self)
    }

    /// Reopens the access log, if there is one.
    pub fn reopen_log(&mut self) {
        if let Some(log) = &mut self.shared.log {
            log.reopen();
        }
    }

    /// Runs one turn of the loop: waits, and handles its steps. Returns false when the worker has
    /// stopped, as [`EventLoop::next_turn`] does.
    ///
    /// # Errors
    ///
    /// The error of [`EventLoop::next_turn`], which names the call that failed. An `io::Error` would not.
    pub fn turn(&mut self, stop: Option<Duration>) -> evcore::Result<bool> {
        self.shared.stopping |= stop.is_some();
        if !self.next_turn(stop)? {
            // What happened in the last second of the worker is counted too.
            self.metrics.read_next();
            self.publish();
            return Ok(false);
        }
        while let Some(step) = self.ev.next_step() {
            self.handle(step);
        }
        self.log_overload();
        self.log_listener_errors();
        self.arm_flush();
        self.arm_sweep();
        self.publish();
        Ok(true)
    }

    /// How long a graceful shutdown lasts at most.
    pub fn shutdown_timeout(&self) -> Duration {
        self.options.shutdown_timeout
    }

    /// Begins a turn, and returns false when the server has stopped. With a watchdog it waits in halves,
    /// so that the report of the turn before does not wait for the next event.
    fn next_turn(&mut self, stop: Option<Duration>) -> evcore::Result<bool> {
        if let Some(timeout) = stop {
            self.ev.shutdown(timeout);
        }
        if self.options.watchdog.is_none() {
            return self.ev.wait();
        }
        let timeout = self.ev.prepare()?.timeout;
        self.slow_turns.report(&mut self.ev);
        self.ev.wait_at_most(timeout)
    }

    /// Handles one step.
    pub fn handle(&mut self, step: Step<L::Stream>) {
        match step {
            Step::Ready(token, ready) => {
                self.dispatch(token, |connection, cx| connection.on_ready(ready, cx));
            }
            Step::Accepted(new) => self.on_accepted(new),
            Step::Expired(token, _) if Background::is(&self.flush, token) => self.flush_now(),
            Step::Expired(token, _) if Background::is(&self.sweep, token) => {
                self.close_unused_files();
            }
            Step::Expired(token, timer) => {
                self.dispatch(token, |connection, cx| connection.on_timer(timer, cx));
            }
            // A signal, for which the caller looks before every turn, or a file.
            Step::Woken => self.take_disk_reads(),
            Step::ShuttingDown => {} // the loop evicts what is idle
            Step::Evict(token) => self.dispatch(token, Connection::on_evict),
        }
    }

    /// Publishes the metrics of this worker's loop on the scoreboard, at the end of a turn.
    pub fn publish(&mut self) {
        let counts = &mut self.shared.counts;
        if self.metrics.collect(&mut self.ev, counts.metrics()) {
            counts.publish();
        } else {
            counts.publish_turn();
        }
    }

    /// Arms the flush timer if lines of the access log are buffered.
    fn arm_flush(&mut self) {
        let (Some(log), Some(flush)) = (&self.shared.log, &mut self.flush) else {
            return;
        };
        if log.has_buffered() && !flush.is_armed {
            flush.is_armed = self.ev.arm(flush.token, FLUSH, FLUSH_AFTER);
        }
    }

    /// Arms the sweep timer if files are open that no connection may be sending.
    fn arm_sweep(&mut self) {
        let (Some(files), Some(sweep)) = (&self.shared.files, &mut self.sweep) else {
            return;
        };
        if files.has_cached() && !sweep.is_armed {
            sweep.is_armed = self.ev.arm(sweep.token, SWEEP, SWEEP_AFTER);
        }
    }

    fn close_unused_files(&mut self) {
        if let (Some(files), Some(sweep)) = (&mut self.shared.files, &mut self.sweep) {
            files.close_unused(self.ev.clock(), SWEEP_AFTER);
            sweep.is_armed = false;
        }
    }

    fn flush_now(&mut self) {
        if let (Some(log), Some(flush)) = (&mut self.shared.log, &mut self.flush) {
            log.flush();
            flush.is_armed = false;
        }
    }

    /// Calls a handler of a connection, and closes the connection if the handler returns that.
    fn dispatch(
        &mut self,
        token: Token,
        call: impl FnOnce(&mut Connection<L::Stream>, &mut Cx<'_, L>) -> Disposition,
    ) {
        let Some(connection) = self.connections.get_mut(token) else {
            return;
        };
        let mut cx = Cx {
            ev: &mut self.ev,
            shared: &mut self.shared,
            token,
        };
        if call(connection, &mut cx) == Disposition::Close {
            self.close(token);
        }
        if self.shared.bodies.has_waiting() {
            self.admit_bodies();
        }
    }

    /// Admits request bodies that waited for memory.
    fn admit_bodies(&mut self) {
        while let Some(token) = self.shared.bodies.admit_next() {
            if let Some(connection) = self.connections.get_mut(token) {
                connection.on_body_admitted();
                self.ev.post(token, Ready::WRITABLE);
            }
        }
    }

    /// Continues the connections whose files were read from the disk, and those that waited for room
    /// to be read.
    fn take_disk_reads(&mut self) {
        let Some(files) = &mut self.shared.files else {
            return;
        };
        while let Some(token) = files.reads.next_done() {
            if let Some(connection) = self.connections.get_mut(token) {
                connection.on_disk_read();
                self.ev.post(token, Ready::WRITABLE);
            }
        }
        while let Some(token) = self.next_waiting_for_disk() {
            self.dispatch(token, Connection::retry_disk_read);
        }
    }

    fn next_waiting_for_disk(&mut self) -> Option<Token> {
        self.shared.files.as_mut()?.reads.next_waiting()
    }

    fn close(&mut self, token: Token) {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.release(token, &mut self.shared);
            self.connections.close(&mut self.ev, token);
        }
    }

    fn on_accepted(&mut self, new: Accepted<L::Stream>) {
        let open = self.connections.len();
        if !self.shared.bodies.headroom.allows_connection(open) {
            // It is closed. Further clients wait, or go to a worker that has memory.
            self.ev.listeners().pause();
            return self.shared.counts.connection_refused();
        }
        // Registered once, edge-triggered, for both sides.
        match self.ev.add(&new.stream, Interest::BOTH, Mode::Edge) {
            Ok(token) => {
                let mut cx = Cx {
                    ev: &mut self.ev,
                    shared: &mut self.shared,
                    token,
                };
                let peer = new.peer.tcp().map(|peer| peer.ip());
                let connection = Connection::new(new.stream, peer, &mut cx);
                self.connections.insert(token, connection);
            }
            Err(error) => {
                self.shared.counts.connection_refused();
                log(format_args!(
                    "httpd: cannot watch the connection from {}: {error}",
                    new.peer
                ));
            }
        }
    }

    /// Starts a graceful shutdown: closes listeners and idle connections, and gives the others until
    /// the shutdown timeout.
    pub fn stop(&mut self) {
        if !std::mem::replace(&mut self.shared.stopping, true) {
            self.ev.shutdown(self.options.shutdown_timeout);
        }
    }

    /// Logs every listener error. A failed listener is suspended for half a second, so there are few.
    fn log_listener_errors(&mut self) {
        while let Some(error) = self.ev.listeners().take_error() {
            log(format_args!(
                "{} [alert] {}: {error}",
                self.ev.clock().error_log_time(),
                std::process::id()
            ));
        }
    }

    /// Logs that this turn ran out of descriptors or memory or reached the connection limit, each at
    /// most once a second.
    fn log_overload(&mut self) {
        let (clock, stats) = (self.ev.clock(), self.ev.stats());
        if self.exhausted.is_news(stats.accept_pauses, clock) {
            // Clients are worth more than files that are kept for later.
            if let Some(files) = &mut self.shared.files {
                files.close_cached();
            }
            let status = self.ev.stats();
            let exhausted = status.last_exhausted.map(|it| it.to_string());
            log(format_args!(
                "{} [crit] {}: {}; {} connections are open, {} of them idle; new clients wait, or \
                 idle ones are closed for them",
                clock.error_log_time(),
                std::process::id(),
                exhausted.unwrap_or_default(),
                status.active,
                status.idle
            ));
        }
        if self
            .short
            .is_news(self.shared.bodies.headroom.refused, clock)
        {
            log(format_args!(
                "{} [crit] {}: out of memory with {} open connections; some are closed",
                clock.error_log_time(),
                std::process::id(),
                self.ev.stats().active
            ));
        }
        if self.full.is_news(stats.full, clock) {
            log(format_args!(
                "{} [alert] {}: {} connections are not enough; new clients wait",
                clock.error_log_time(),
                std::process::id(),
                self.options.connections
            ));
        }
    }
}

impl Background {
    /// Creates a timer that does not keep a worker from stopping.
    fn new<L: Acceptor>(ev: &mut EventLoop<L>) -> evcore::Result<Self> {
        let token = ev.add_unwatched()?;
        ev.timers().set_background(token);
        Ok(Self {
            token,
            is_armed: false,
        })
    }

    fn is(timer: &Option<Self>, token: Token) -> bool {
        timer.as_ref().is_some_and(|timer| timer.token == token)
    }
}

/// After a panic: what led to it.
impl<L: Acceptor<Stream: Transport>> Drop for Server<L> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            log_records("the worker panics", &mut self.ev);
        }
    }
}

impl Overload {
    const NONE: Self = Self {
        count: 0,
        logged_at: i64::MIN,
    };

    /// Whether the count has grown, and the last log line is a second old.
    fn is_news(&mut self, count: u64, clock: &Clock) -> bool {
        if count == self.count {
            return false;
        }
        self.count = count;
        let now = clock.unix_seconds();
        let is_news = now > self.logged_at;
        if is_news {
            self.logged_at = now;
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use evcore::{InstrumentOptions, balancer::WorkerId, clock::ManualTimeSource};

    use super::*;
    use crate::{
        headroom::Headroom,
        request::{Parsed, Version, parse},
        scoreboard::WorkerStats,
    };

    #[test]
    fn a_file_is_closed_10_to_20_seconds_after_its_last_use() {
        const HEAD: &[u8] = b"GET /files/Cargo.toml HTTP/1.1\r\nHost: t\r\n\r\n";
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let ev = EventLoop::builder().clock(clock).build();
        let options = Options {
            root: Some(".".into()),
            ..Options::default()
        };
        let files = Files::open(&options).expect("a directory").expect("a root");
        let scoreboard = WorkerStats::scoreboard(1).expect("a page");
        let counts = Counts::new(scoreboard, WorkerId::from_slot(0));
        let server = Server::new(ev.expect("a poller"), 0, counts, options);
        let mut server = server.with_files(files).expect("a token");
        let Parsed::Complete(request, _) = parse(HEAD) else {
            panic!("it is a request");
        };
        let files = |server: &mut Server| server.shared.files.take().expect("a root");
        let turn = |server: &mut Server, ms, serves| {
            time.advance(Duration::from_millis(ms));
            server.ev.handle().wake();
            server.turn(None).expect("a turn");
            let mut files = files(server);
            if serves {
                let (ends, clock) = ((Version::Http11, true), server.ev.clock());
                let answer = files.answer(&request, HEAD, ends, clock, &mut Vec::new());
                assert!(answer.is_ok());
            }
            let has_cached = files.has_cached();
            server.shared.files = Some(files);
            has_cached
        };
        assert!(!turn(&mut server, 0, false));
        assert!(turn(&mut server, 0, true));
        assert!(turn(&mut server, 5_000, true));
        assert!(turn(&mut server, 9_999, false));
        assert!(!turn(&mut server, 10_001, false));
        assert!(turn(&mut server, 0, true));
        assert!(turn(&mut server, 9_000, false));
        assert!(!turn(&mut server, 11_002, false));
    }

    #[test]
    fn a_worker_that_stops_publishes_its_last_second() {
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let ev = EventLoop::builder()
            .clock(clock)
            .instruments(InstrumentOptions::new().histograms(true))
            .build();
        let scoreboard = WorkerStats::scoreboard(1).expect("a page");
        let slot = WorkerId::from_slot(0);
        let counts = Counts::new(scoreboard.clone(), slot);
        let mut server = Server::new(ev.expect("a poller"), 0, counts, Options::default());
        for _ in 0..3 {
            server.ev.handle().wake();
            assert!(server.turn(None).expect("a turn"));
            time.advance(Duration::from_millis(7));
        }
        while server.turn(Some(Duration::ZERO)).expect("a turn") {}
        // The first turn is read at once. The wait after a turn ends it.
        let turn = scoreboard.read(slot).totals.turn;
        assert!(turn.sum_ns >= 2 * 6_900_000, "{turn:?}");
    }

    #[test]
    fn a_worker_without_memory_closes_one_client_and_pauses() {
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let listener = Listener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().clone();
        let ev = EventLoop::builder().clock(clock).listener(listener).build();
        let scoreboard = WorkerStats::scoreboard(1).expect("a page");
        let counts = Counts::new(scoreboard, WorkerId::from_slot(0));
        let mut server = Server::new(ev.expect("a poller"), 0, counts, Options::default());
        server.shared.bodies.headroom = Headroom::without_any();
        let _clients = [(); 3].map(|()| TcpStream::connect(&address).expect("it listens"));
        let mut turn = |ms| {
            time.advance(Duration::from_millis(ms));
            server.ev.handle().wake();
            server.turn(None).expect("a turn");
            server.ev.stats().accepted
        };
        assert_eq!([0, 0, 499].map(&mut turn), [1; 3]);
        assert_eq!([1, 0, 499].map(&mut turn), [2; 3]);
        assert_eq!(server.shared.bodies.headroom.refused, 2);
        assert_eq!(server.ev.stats().active, 0);
    }
}
