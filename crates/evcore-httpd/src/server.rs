//! The HTTP server of one worker: its connections, and the state that they share.

use std::{mem, time::Duration};

use evcore::{
    Accepted, Acceptor, Connections, EventLoop, Listener, Ready, Step, Token, Transport,
    clock::Clock,
};
use evcore_recording::Outside;
use evcore_serve::{Arrival, Worker};

use crate::{
    access_log::AccessLog,
    connection::{Abort, Connection},
    counts::Counts,
    files::{DiskRead, Files},
    log::log,
    metrics::MetricsCollector,
    options::Options,
    session::{Disposition, Session},
    shared::Shared,
    timers::{FLUSH, SWEEP},
};

/// The connections of a worker's loop, over sockets or over the streams of a simulator.
#[derive(Debug)]
pub struct Server<L: Acceptor<Stream: Transport> = Listener> {
    connections: Connections<Connection, L::Stream>,
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
    /// The number of handed-over connections that the counters already include.
    handed_over: u64,
}

#[derive(Debug)]
struct Overload {
    /// The loop's count of this overload at the last check.
    count: u64,
    /// The monotonic time from which it may be logged again, in milliseconds.
    log_from_ms: u64,
}

/// A timer of the server itself. One such timer writes the buffered lines of the access log, and
/// another one closes files that are no longer used.
#[derive(Debug)]
struct Background {
    token: Token,
    is_armed: bool,
}

/// The maximum delay of a line of the access log.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// The least time for which an unused file stays open, and the interval of the search for such
/// files.
const SWEEP_AFTER: Duration = Duration::from_secs(10);

impl<L: Acceptor<Stream: Transport>> Server<L> {
    /// Creates the server of the worker with this index. Its loop has this clock.
    pub fn new(clock: &Clock, index: usize, counts: Counts, options: Options) -> Self {
        Self::over(Outside::Direct, clock, index, counts, options)
    }

    /// Creates a server as [`new`](Self::new) does. Its input from outside its loop comes through
    /// `outside`, and may be recorded or replayed.
    pub fn over(
        outside: Outside,
        clock: &Clock,
        index: usize,
        mut counts: Counts,
        options: Options,
    ) -> Self {
        let earlier = counts.begin(index, clock);
        Self {
            connections: Connections::new(),
            shared: Shared::new(&options, index, counts, outside),
            metrics: MetricsCollector::new(earlier),
            flush: None,
            sweep: None,
            exhausted: Overload::NONE,
            full: Overload::NONE,
            short: Overload::NONE,
            handed_over: 0,
            options,
        }
    }

    /// Adds an access log.
    pub fn with_access_log(
        mut self,
        ev: &mut EventLoop<L>,
        log: AccessLog,
    ) -> evcore::Result<Self> {
        // A stop does not wait for this timer, because the end of the worker flushes the log, too.
        self.flush = Some(Background::new(ev)?);
        self.shared.log = Some(log);
        Ok(self)
    }

    /// Adds the files of `--root`.
    pub fn with_files(mut self, ev: &mut EventLoop<L>, mut files: Files) -> evcore::Result<Self> {
        files.outside = self.shared.outside.clone();
        self.sweep = Some(Background::new(ev)?);
        self.shared.files = Some(Box::new(files));
        Ok(self)
    }

    /// Reopens the access log, if there is one.
    pub fn reopen_log(&mut self) {
        if let Some(log) = &mut self.shared.log {
            log.reopen();
        }
    }

    /// Returns whether slow turns are logged.
    pub fn has_watchdog(&self) -> bool {
        self.options.watchdog.is_some()
    }

    /// Handles the steps (events) of a turn, which is an iteration of the loop.
    pub fn on_turn(&mut self, ev: &mut EventLoop<L>) {
        while let Some(step) = ev.next_step() {
            self.handle(ev, step);
        }
        self.end_turn(ev);
    }

    /// Does the work that follows the steps of a turn.
    pub fn end_turn(&mut self, ev: &mut EventLoop<L>) {
        self.log_overload(ev);
        self.arm_flush(ev);
        self.arm_sweep(ev);
        self.publish(ev);
    }

    /// Publishes the counts of the last second of a worker that ends.
    pub fn on_end(&mut self, ev: &mut EventLoop<L>) {
        self.metrics.read_next();
        self.publish(ev);
    }

    /// Handles one step.
    pub fn handle(&mut self, ev: &mut EventLoop<L>, step: Step<L::Stream>) {
        match step {
            Step::Ready(token, ready) => {
                self.dispatch(ev, token, ready, |session| session.on_ready(ready));
            }
            Step::Accepted(new) => self.on_accepted(ev, new),
            Step::Expired(token, _) if Background::is(&self.flush, token) => self.flush_now(),
            Step::Expired(token, _) if Background::is(&self.sweep, token) => {
                self.close_unused_files(ev);
            }
            Step::Expired(token, timer) => {
                self.dispatch(ev, token, Ready::NONE, |session| session.on_timer(timer));
            }
            // The cause is a signal, which the caller checks before every turn, or a thread that
            // has read from the disk.
            Step::Woken => self.take_disk_reads(ev),
            Step::ShuttingDown => {} // the loop evicts the idle connections
            Step::Evict(token) => {
                self.dispatch(ev, token, Ready::NONE, |session| session.on_evict());
            }
        }
    }

    /// Publishes the metrics of this worker's loop on the scoreboard, at the end of a turn.
    pub fn publish(&mut self, ev: &mut EventLoop<L>) {
        let counts = &mut self.shared.counts;
        if self.metrics.collect(ev, counts.metrics()) {
            counts.publish();
        } else {
            counts.publish_turn();
        }
    }

    /// Arms the flush timer if lines of the access log are buffered.
    fn arm_flush(&mut self, ev: &mut EventLoop<L>) {
        let (Some(log), Some(flush)) = (&self.shared.log, &mut self.flush) else {
            return;
        };
        let is_buffered = || log.has_buffered().then_some(());
        if !flush.is_armed && self.shared.outside.news("log", is_buffered).is_some() {
            flush.is_armed = ev.arm(flush.token, FLUSH, FLUSH_AFTER);
        }
    }

    fn arm_sweep(&mut self, ev: &mut EventLoop<L>) {
        let (Some(files), Some(sweep)) = (&self.shared.files, &mut self.sweep) else {
            return;
        };
        if files.has_cached() && !sweep.is_armed {
            sweep.is_armed = ev.arm(sweep.token, SWEEP, SWEEP_AFTER);
        }
    }

    fn close_unused_files(&mut self, ev: &EventLoop<L>) {
        if let (Some(files), Some(sweep)) = (&mut self.shared.files, &mut self.sweep) {
            files.close_unused(ev.clock(), SWEEP_AFTER);
            sweep.is_armed = false;
        }
    }

    fn flush_now(&mut self) {
        if let (Some(log), Some(flush)) = (&mut self.shared.log, &mut self.flush) {
            log.flush();
            flush.is_armed = false;
        }
    }

    /// Makes a step of a connection whose stream has this readiness. Closes the connection if
    /// `step` returns [`Disposition::Close`].
    fn dispatch(
        &mut self,
        ev: &mut EventLoop<L>,
        token: Token,
        ready: Ready,
        step: impl FnOnce(&mut Session<'_, L>) -> Disposition,
    ) {
        let Some((stream, connection)) = self.connections.ready(token, ready) else {
            return;
        };
        let mut session = Session {
            stream,
            connection,
            ev,
            shared: &mut self.shared,
        };
        if step(&mut session) == Disposition::Close {
            self.close(ev, token);
        }
        if self.shared.bodies.has_waiting() {
            self.admit_bodies(ev);
        }
    }

    fn admit_bodies(&mut self, ev: &mut EventLoop<L>) {
        while let Some(token) = self.shared.bodies.admit_next() {
            if let Some((_, connection)) = self.connections.get_mut(token) {
                connection.handle_body_room();
                ev.post(token, Ready::NONE);
            }
        }
    }

    /// Continues the connections whose files were read from the disk, and those that waited for
    /// room in the queue of reads.
    fn take_disk_reads(&mut self, ev: &mut EventLoop<L>) {
        let Some(files) = &mut self.shared.files else {
            return;
        };
        while let Some(token) = files.reads.next_done() {
            if let Some((_, connection)) = self.connections.get_mut(token) {
                connection.handle_disk_read(DiskRead::Done);
                ev.post(token, Ready::NONE);
            }
        }
        while let Some(token) = self.next_waiting_for_disk() {
            self.dispatch(ev, token, Ready::NONE, |session| session.on_disk_room());
        }
    }

    fn next_waiting_for_disk(&mut self) -> Option<Token> {
        self.shared.files.as_mut()?.reads.next_waiting()
    }

    fn close(&mut self, ev: &mut EventLoop<L>, token: Token) {
        if let Some((_, connection)) = self.connections.get_mut(token) {
            connection.release(token, &mut self.shared);
            self.connections.close(ev, token);
        }
    }

    fn on_accepted(&mut self, ev: &mut EventLoop<L>, new: Accepted<L::Stream>) {
        let open = self.connections.len();
        if !self.shared.bodies.headroom.allows_connection(open) {
            // The new connection is closed. Further clients wait, or go to a worker that has
            // memory.
            ev.listeners().pause();
            return self.shared.counts.connection_refused();
        }
        let peer = new.peer.tcp().map(|peer| peer.ip());
        self.shared.counts.sample_accept(&new.stream);
        let connection = Connection::new(peer, &self.shared);
        match self.connections.add(ev, new.stream, connection) {
            Ok(token) => self.dispatch(ev, token, Ready::NONE, |session| {
                session.on_accepted();
                Disposition::Keep
            }),
            Err(error) => {
                self.shared.counts.connection_refused();
                log(format_args!(
                    "httpd: cannot watch the connection from {}: {error}",
                    new.peer
                ));
            }
        }
    }

    /// Handles a shutdown of the loop: each response is now the last of its connection.
    pub fn on_stop(&mut self) {
        self.shared.stopping = true;
    }

    /// Logs if descriptors or memory ran out in this turn, or if the connection limit was reached.
    /// Each of these is logged at most once a second.
    fn log_overload(&mut self, ev: &EventLoop<L>) {
        let (clock, stats) = (ev.clock(), ev.stats());
        if self.exhausted.should_log(stats.accept_pauses, clock) {
            // The cached files are closed, because clients need the descriptors more.
            if let Some(files) = &mut self.shared.files {
                files.close_cached();
            }
            let status = ev.stats();
            let exhausted = status.last_exhausted.map(|resource| resource.to_string());
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
            .should_log(self.shared.bodies.headroom.refused, clock)
        {
            log(format_args!(
                "{} [crit] {}: out of memory with {} open connections; some are closed. Raise the limit of \
                 memory, or lower --connections",
                clock.error_log_time(),
                std::process::id(),
                ev.stats().active
            ));
        }
        if self.full.should_log(stats.full, clock) {
            log(format_args!(
                "{} [alert] {}: {} connections are not enough; new clients wait, or idle \
                 ones are closed for them. Raise --connections",
                clock.error_log_time(),
                std::process::id(),
                self.options.connections
            ));
        }
    }
}

impl Server {
    /// Hands over the connections that can move, and takes in those that have arrived.
    pub fn move_connections(&mut self, worker: &mut Worker) {
        let shared = &mut self.shared;
        worker.hand_over(&mut self.connections, |token, connection| {
            connection.leave(token, shared)
        });
        while let Some(arrival) = worker.next_arrival() {
            self.on_arrival(&mut worker.ev, arrival);
        }
        let handed_over = worker.moves().handed_over;
        let news = handed_over - mem::replace(&mut self.handed_over, handed_over);
        if news > 0 {
            self.shared.counts.connections_handed_over(news);
        }
    }

    fn on_arrival(&mut self, ev: &mut EventLoop, arrival: Arrival) {
        if arrival.is_back {
            self.shared.counts.connection_taken_back();
        } else {
            self.shared.counts.connection_arrived();
        }
        let stream = arrival.stream.get_ref();
        // The state may lack the client's address: a worker that died leaves no state, and an
        // earlier start of the service may not have shown clients. In both cases, a worker that
        // shows clients uses the peer's address from the kernel. Behind a load balancer, that is
        // the balancer's address.
        let shows_clients = self.shared.shows_clients();
        let peer = || stream.peer_addr().ok()?.tcp().map(|peer| peer.ip());
        let peer = || shows_clients.then(peer).flatten();
        let connection = Connection::arrived(&arrival.state, peer, &mut self.shared);
        let is_known = connection.is_ok();
        let connection = connection.unwrap_or_else(|Abort| Connection::new(None, &self.shared));
        let token = self.connections.insert(arrival.stream, connection);
        self.dispatch(ev, token, Ready::NONE, |session| match is_known {
            true => session.on_arrived(),
            false => Disposition::Close,
        });
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

impl Overload {
    const NONE: Self = Self {
        count: 0,
        log_from_ms: 0,
    };

    /// Returns whether the count has grown and the last log line is at least a second old.
    fn should_log(&mut self, count: u64, clock: &Clock) -> bool {
        if count == self.count {
            return false;
        }
        self.count = count;
        let now_ms = clock.monotonic_ms();
        let should_log = self.log_from_ms <= now_ms;
        if should_log {
            self.log_from_ms = now_ms + 1_000;
        }
        should_log
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpStream, time::Duration};

    use evcore::{Builder, InstrumentOptions, balancer::WorkerId, clock::ManualTimeSource};

    use super::*;
    use crate::{
        headroom::Headroom,
        request::{Parsed, parse},
        scoreboard::{Scoreboard, WorkerStats},
        version::Version,
    };

    fn server(builder: Builder, options: Options) -> (EventLoop, Server, Scoreboard) {
        let ev = builder.build().expect("a poller");
        let scoreboard = WorkerStats::scoreboard(1).expect("a page");
        let counts = Counts::new(scoreboard.clone(), WorkerId::from_slot(0));
        let server = Server::new(ev.clock(), 0, counts, options);
        (ev, server, scoreboard)
    }

    fn turn(ev: &mut EventLoop, server: &mut Server) {
        ev.handle().wake();
        assert!(ev.wait().expect("a turn"));
        server.on_turn(ev);
    }

    #[test]
    fn a_file_is_closed_10_to_20_seconds_after_its_last_use() {
        const HEAD: &[u8] = b"GET /files/Cargo.toml HTTP/1.1\r\nHost: t\r\n\r\n";
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let options = Options {
            root: Some(".".into()),
            ..Options::default()
        };
        let files = Files::open(&options).expect("a directory").expect("a root");
        let (mut ev, server, _) = server(EventLoop::builder().clock(clock), options);
        let mut server = server.with_files(&mut ev, files).expect("a token");
        let Parsed::Complete(request, _) = parse(HEAD) else {
            panic!("it is a request");
        };
        let files = |server: &mut Server| server.shared.files.take().expect("a root");
        let mut turn = |server: &mut Server, ms, serves| {
            time.advance(Duration::from_millis(ms));
            super::tests::turn(&mut ev, server);
            let mut files = files(server);
            if serves {
                let (end, clock) = ((Version::Http11, true), ev.clock());
                let answer = files.answer(&request, HEAD, end, clock, &mut Vec::new());
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
        let builder = EventLoop::builder()
            .clock(clock)
            .instruments(InstrumentOptions::new().histograms(true));
        let (mut ev, mut server, scoreboard) = server(builder, Options::default());
        for _ in 0..3 {
            turn(&mut ev, &mut server);
            time.advance(Duration::from_millis(7));
        }
        ev.shutdown(Duration::ZERO);
        assert!(!ev.wait().expect("it is over"));
        server.on_end(&mut ev);
        // The histogram is read at once after the first turn. The next wait ends a turn.
        let turn = scoreboard.read(WorkerId::from_slot(0)).totals.times[1];
        assert!(turn.sum_ns >= 2 * 6_900_000, "{turn:?}");
    }

    #[test]
    fn a_worker_without_memory_closes_one_client_and_pauses() {
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let listener = Listener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().clone();
        let builder = EventLoop::builder().clock(clock).listener(listener);
        let (mut ev, mut server, _) = server(builder, Options::default());
        server.shared.bodies.headroom = Headroom::without_any();
        let _clients = [(); 3].map(|()| TcpStream::connect(&address).expect("it listens"));
        let mut turn = |ms| {
            time.advance(Duration::from_millis(ms));
            turn(&mut ev, &mut server);
            ev.stats().accepted
        };
        assert_eq!([0, 0, 499].map(&mut turn), [1; 3]);
        assert_eq!([1, 0, 499].map(&mut turn), [2; 3]);
        assert_eq!(server.shared.bodies.headroom.refused, 2);
        assert_eq!(ev.stats().active, 0);
    }

    #[test]
    fn an_overload_is_logged_once_a_second_whatever_the_wall_clock_shows() {
        let time = ManualTimeSource::at(1_764_000_000);
        let mut clock = Clock::with_source(time.clone());
        let mut overload = Overload::NONE;
        assert!(!overload.should_log(0, &clock), "there was no overload");
        assert!(overload.should_log(1, &clock));
        assert!(!overload.should_log(2, &clock), "a second has not passed");
        time.jump_wall(-3_600);
        time.advance(Duration::from_secs(1));
        clock.update();
        assert!(overload.should_log(3, &clock));
        assert!(
            !overload.should_log(3, &clock),
            "there was no further overload"
        );
    }
}
