//! These tests reload and upgrade servers, and kill workers and masters, while clients stay
//! connected. A client has to reconnect only if its worker or its worker's master was killed.
//!
//! Some clients are always busy, some are idle, and some are in the middle of a request head. They
//! compare each response with the request. After the reloads or upgrades, `ss` must list the same
//! client ports as at the beginning, and the server must have accepted no other client. In two
//! tests the clients belong to wrk and ab, and `ss` must list the same client ports after each
//! reload or upgrade. At the end of each test, each worker has as many descriptors of each kind as
//! the first workers had before the load.
//!
//!     SOAK_RELOADS=1000 SOAK_UPGRADES=100 SOAK_KILLS=1000 \
//!         cargo test --release -p evcore-tests --test soak moves -- --nocapture --test-threads 1
//!
//! The variables set the numbers of reloads, upgrades and kills. A test of several policies or
//! pollers does that number under each of them. `SOAK_POLICIES=mutex,off` chooses some policies, so
//! that a run can be split into parts.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    env, fs,
    io::{self, ErrorKind},
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::Receiver,
    },
    thread,
    time::{Duration, Instant},
};

use evcore_poller::BackendKind;
use evcore_tests::{
    Client, Scratch, Server, SetOnDrop, allow_many_descriptors, clients_of, eventually, httpd,
    is_permitted, process_state, signal_to, try_signal_to,
};
use rustix::process::Signal;

use super::{
    descriptors::{descriptors, settled},
    random,
    tools::{self, HttpReport},
};

const WORKERS: usize = 2;

/// Number of clients of each of the two threads that keep clients busy.
const BUSY: usize = 20;

pub(super) fn number(variable: &str, default: usize) -> usize {
    env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

fn policies() -> Vec<String> {
    let all = || "least-loaded,off,mutex,exclusive,reuseport".to_owned();
    let chosen = env::var("SOAK_POLICIES").unwrap_or_else(|_| all());
    chosen.split(',').map(str::to_owned).collect()
}

struct Site {
    server: Server,
    master: u32,
    pid_file: PathBuf,
    path: Option<PathBuf>,
    descriptors: BTreeMap<String, usize>,
    /// The descriptors of the first master.
    of_master: BTreeMap<String, usize>,
    _directory: Scratch,
}

impl Site {
    fn start(name: &str, options: &[&str], is_unix: bool) -> Self {
        allow_many_descriptors();
        let directory = Scratch::new(name);
        let (pid_file, path) = (directory.file("pid"), directory.file("socket"));
        let path = is_unix.then_some(path);
        let mut command = Command::new(httpd());
        let listen = match &path {
            Some(path) => format!("unix:{}", path.display()),
            None => "127.0.0.1:0".to_owned(),
        };
        command.args(["--listen", &listen, "--workers", &WORKERS.to_string()]);
        command.args(options).arg("--pid").arg(&pid_file);
        let server = Server::from_command(command, 1);
        let mut site = Self {
            master: server.pid(),
            server,
            pid_file,
            path,
            descriptors: BTreeMap::new(),
            of_master: BTreeMap::new(),
            _directory: directory,
        };
        eventually("all workers run", || site.workers().len() == WORKERS);
        drop(site.connect().get("/"));
        site.descriptors = settled(&site.workers());
        site.of_master = settled(&[site.master]);
        site
    }

    fn connect(&self) -> Client {
        match &self.path {
            Some(path) => Client::try_connect_unix(path).expect("it listens"),
            None => self.server.connect(),
        }
    }

    fn workers(&self) -> Vec<u32> {
        let master = self.master;
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children"));
        let children = children.unwrap_or_default();
        let pids = children.split_whitespace().map(str::parse);
        pids.filter_map(Result::ok).collect()
    }

    fn wait_for_new_workers(&self, old: &[u32]) {
        eventually("the old workers have gone", || {
            let workers = self.workers();
            workers.len() == WORKERS && !workers.iter().any(|worker| old.contains(worker))
        });
    }

    fn reload(&self) {
        let old = self.workers();
        signal_to(self.master, Signal::HUP);
        self.wait_for_new_workers(&old);
    }

    fn upgrade(&mut self) {
        let new = self.start_binary();
        signal_to(self.master, Signal::QUIT);
        self.go_on_with(new);
    }

    /// Returns the ports of the connected clients, from the list of `ss`. Returns `None` if `ss` is
    /// missing, and for a Unix socket.
    fn client_ports(&self) -> Option<BTreeSet<u16>> {
        if self.path.is_some() {
            return None;
        }
        let mut command = tools::installed("ss")?;
        command.args(["-tnH", "state", "established"]);
        command.args(["sport", "=", &format!(":{}", self.server.address().port())]);
        let output = command.output().expect("it starts");
        let text = String::from_utf8(output.stdout).expect("a list");
        let port = |line: &str| {
            line.split_whitespace()
                .last()?
                .rsplit(':')
                .next()?
                .parse()
                .ok()
        };
        Some(text.lines().filter_map(port).collect())
    }

    fn start_binary(&self) -> u32 {
        let mut new = None;
        signal_to(self.master, Signal::USR2);
        eventually("the new binary serves", || {
            let text = fs::read_to_string(&self.pid_file).unwrap_or_default();
            new = text.trim().parse().ok().filter(|pid| *pid != self.master);
            new.is_some()
        });
        new.expect("just waited for")
    }

    fn go_on_with(&mut self, new: u32) {
        let old = self.master;
        eventually("the old binary has ended", || {
            matches!(process_state(old), None | Some('Z'))
        });
        self.master = new;
        self.wait_for_new_workers(&[]);
    }

    /// Checks that no connection failed to move, and that no descriptor is left over.
    fn check_moves(&self, clients: Vec<Visitor>) {
        self.check_descriptors(clients);
        let log = self.server.log();
        assert!(!log.contains("do not move"), "{log}");
    }

    /// Ends all clients, and checks that each worker has as many descriptors of each kind as the
    /// first workers had at the start. Checks the master too, unless it was replaced.
    fn check_descriptors(&self, clients: Vec<Visitor>) {
        drop(clients);
        // A channel from worker to worker stays open for a while.
        eventually("each worker has the descriptors of the start", || {
            let workers = self.workers();
            workers
                .iter()
                .all(|worker| descriptors(*worker) == self.descriptors)
        });
        if self.master == self.server.pid() {
            eventually("the master has the descriptors of the start", || {
                descriptors(self.master) == self.of_master
            });
        }
        let log = self.server.log();
        assert!(!log.contains("panicked"), "{log}");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // A later binary is not a child of this process. Workers end when their master has died.
        let _ = try_signal_to(self.master, Signal::KILL);
    }
}

struct Visitor {
    client: Client,
    name: usize,
    sent: usize,
    /// The rest of a request whose first part was sent.
    rest: Vec<u8>,
}

impl Visitor {
    fn new(site: &Site, name: usize) -> Self {
        Self {
            client: site.connect(),
            name,
            sent: 0,
            rest: Vec::new(),
        }
    }

    fn body(&self) -> String {
        format!("request {} of client {}", self.sent, self.name)
    }

    /// Sends the first part of a request: at least a byte, and not the whole head.
    fn begin(&mut self) -> io::Result<()> {
        self.sent += 1;
        let body = self.body();
        let length = body.len();
        let head = format!("POST /echo HTTP/1.1\r\nHost: soak\r\nContent-Length: {length}\r\n\r\n");
        let mut request = format!("{head}{body}").into_bytes();
        self.rest = request.split_off(1 + random(head.len() - 1));
        match self.client.try_send(&request) {
            true => Ok(()),
            false => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Sends the rest, and compares the body of the response with that of the request.
    fn end(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.rest);
        if !self.client.try_send(&rest) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let response = self.client.try_response()?;
        assert_eq!((response.status, response.text()), (200, &*self.body()));
        assert!(
            !response.closes(),
            "client {}: the response announces the end of the connection",
            self.name
        );
        Ok(())
    }

    fn ask(&mut self) -> io::Result<()> {
        if self.rest.is_empty() {
            self.begin()?;
        }
        self.end()
    }

    /// Returns the number of clients that the present binary has accepted.
    fn accepted(&mut self) -> u64 {
        let page = self.client.get("/status.json").body;
        let page: serde_json::Value = serde_json::from_slice(&page).expect("JSON");
        page["accepted"].as_u64().expect("a number")
    }

    fn expect_answer(&mut self) {
        if let Err(error) = self.ask() {
            panic!("client {} at request {}: {error}", self.name, self.sent);
        }
    }
}

fn keep_busy(visitors: &mut [Visitor], is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        visitors.iter_mut().for_each(Visitor::expect_answer);
    }
}

/// Calls `turn_over` this many times, while some clients are busy, a third of the others are in the
/// middle of a head, and the rest is idle.
fn stay_connected(site: &mut Site, clients: usize, times: usize, turn_over: fn(&mut Site)) {
    let visitors = |from, count: usize| -> Vec<Visitor> {
        (from..from + count)
            .map(|name| Visitor::new(site, name))
            .collect()
    };
    let mut busy: Vec<_> = (0..2).map(|n| visitors(n * BUSY, BUSY)).collect();
    let mut others = visitors(2 * BUSY, clients - 2 * BUSY);
    others.iter_mut().for_each(Visitor::expect_answer);
    let is_over = AtomicBool::new(false);
    let mut longest = Duration::ZERO;
    let accepted = others[0].accepted();
    thread::scope(|scope| {
        let end = SetOnDrop(&is_over);
        for visitors in &mut busy {
            scope.spawn(|| keep_busy(visitors, &is_over));
        }
        for time in 0..times {
            for (n, visitor) in others.iter_mut().enumerate() {
                if n % 3 == time % 3 {
                    visitor.begin().expect("it is open");
                }
            }
            let begun = Instant::now();
            turn_over(site);
            longest = longest.max(begun.elapsed());
            // All clients in the middle of a request go on, and some idle clients make a request.
            for (n, visitor) in others.iter_mut().enumerate() {
                if !visitor.rest.is_empty() || n % 7 == time % 7 {
                    visitor.expect_answer();
                }
            }
        }
        others.iter_mut().for_each(Visitor::expect_answer);
        drop(end);
    });
    let requests: usize = busy.iter().flatten().map(|visitor| visitor.sent).sum();
    println!(
        "{clients} clients, {times} times: 0 reconnects; {requests} requests of the busy ones; \
         the old workers have gone after {longest:?} at most"
    );
    others.extend(busy.into_iter().flatten());
    if let Some(ports) = site.client_ports() {
        let ours = others.iter().map(|visitor| visitor.client.local_port());
        assert_eq!(ports, ours.collect(), "the ports in the list of `ss`");
    }
    // A new binary counts from 0.
    let now = others[0].accepted();
    assert!(
        [accepted, 0].contains(&now),
        "{now} accepted, before {accepted}"
    );
    site.check_moves(others);
}

#[test]
fn moves_at_reloads_reconnect_no_client() {
    let times = number("SOAK_RELOADS", 10);
    for policy in policies() {
        let mut site = Site::start(&format!("moves-{policy}"), &["--accept", &policy], false);
        print!("{policy}: ");
        stay_connected(&mut site, 2000, times, |site| site.reload());
    }
}

#[test]
fn moves_on_other_pollers_and_a_unix_socket_reconnect_no_client() {
    let times = number("SOAK_RELOADS", 10);
    let mut site = Site::start("moves-unix", &[], true);
    stay_connected(&mut site, 500, times, |site| site.reload());
    // Select is not checked: every system permits it, and this process has too many descriptors for
    // the check.
    let is_permitted = |kind: &&BackendKind| **kind == BackendKind::Select || is_permitted(**kind);
    for poller in BackendKind::available().iter().filter(is_permitted) {
        let poller = poller.to_string();
        // select cannot watch descriptors above 1,023.
        let mut site = Site::start(&format!("moves-{poller}"), &["--poller", &poller], false);
        print!("{poller}: ");
        stay_connected(&mut site, 400, times, |site| site.reload());
    }
}

#[test]
fn moves_at_upgrades_reconnect_no_client() {
    let times = number("SOAK_UPGRADES", 2);
    for policy in policies() {
        let mut site = Site::start(
            &format!("moves-usr2-{policy}"),
            &["--accept", &policy],
            false,
        );
        print!("{policy}: ");
        stay_connected(&mut site, 2000, times, Site::upgrade);
    }
}

/// Starts a load for this many seconds; `None` if its program is not installed.
type Load = fn(SocketAddr, usize) -> Option<Receiver<HttpReport>>;

/// Calls `turn_over` at least `times` times, while a tool keeps 2,000 clients busy.
fn stay_connected_under(load: Load, site: &mut Site, times: usize, turn_over: fn(&mut Site)) {
    const CLIENTS: usize = 2000;
    let (mut done, mut requests) = (0, 0);
    let mut seconds = (2 + times / 10).min(20);
    while done < times {
        let duration = Duration::from_secs(seconds as u64);
        let started = Instant::now();
        let Some(running) = load(site.server.address(), seconds) else {
            return;
        };
        let mut before = None;
        let mut are_connected = || {
            before = site.client_ports();
            before.as_ref().is_none_or(|ports| ports.len() >= CLIENTS)
        };
        while !are_connected() && started.elapsed() < duration {}
        if started.elapsed() >= duration {
            assert!(seconds < 300, "the clients do not connect");
            // The machine is busy, so the load must last longer.
            seconds *= 2;
            drop(running.recv());
            continue;
        }
        loop {
            turn_over(site);
            let after = site.client_ports();
            if started.elapsed() > duration {
                // The load is over, so some clients may have ended.
                break;
            }
            assert!(
                after == before,
                "the connected clients have changed after {done} reloads or upgrades"
            );
            done += 1;
        }
        let report = running.recv().expect("the load has ended well");
        assert_eq!(report.errors, 0, "{report:?}");
        requests += report.requests;
    }
    println!("2000 clients, {done} times: 0 reconnects, 0 errors; {requests} requests");
}

fn stay_connected_under_a_tool(name: &str, load: Load) {
    let (reloads, upgrades) = (number("SOAK_RELOADS", 1), number("SOAK_UPGRADES", 1));
    let mut policies = policies();
    if env::var_os("SOAK_RELOADS").is_none() {
        // The clients of the other tests run under all policies.
        policies.drain(1..);
    }
    for policy in policies {
        let directory = format!("moves-{name}-{policy}");
        let mut site = Site::start(&directory, &["--accept", &policy], false);
        print!("{name}, {policy}, reloads: ");
        stay_connected_under(load, &mut site, reloads, |site| site.reload());
        print!("{name}, {policy}, upgrades: ");
        stay_connected_under(load, &mut site, upgrades, Site::upgrade);
        site.check_moves(Vec::new());
    }
}

#[test]
fn moves_under_wrk_reconnect_no_client() {
    stay_connected_under_a_tool("wrk", |server, seconds| {
        tools::wrk(server, seconds, &["-c2000"])
    });
}

#[test]
fn moves_under_ab_reconnect_no_client() {
    stay_connected_under_a_tool("ab", |server, seconds| tools::ab(server, seconds, 2000));
}

/// Calls `kill` at least `times` times. `kill` ends a process during a reload or an upgrade, and
/// returns the ports of the clients that may be lost, or `None` if all may be lost. Every other
/// client must get its answer.
fn lose_only(
    site: &mut Site,
    times: usize,
    mut kill: impl FnMut(&mut Site) -> Option<HashSet<u16>>,
) {
    let mut visitors: Vec<_> = (0..300).map(|name| Visitor::new(site, name)).collect();
    visitors.iter_mut().for_each(Visitor::expect_answer);
    let (mut kills, mut lost, mut moved) = (0, 0, 0);
    // On a busy machine, `times` kills may all come before a connection has moved. In that case the
    // loop goes on.
    while kills < times || moved == 0 {
        kills += 1;
        assert!(kills < times + 50, "nothing moves");
        for visitor in visitors.iter_mut().step_by(3) {
            visitor.begin().expect("it is open");
        }
        let may_be_lost = kill(site);
        for visitor in &mut visitors {
            let port = visitor.client.local_port();
            match visitor.ask() {
                Ok(()) => moved += 1,
                Err(error) => {
                    let is_allowed = |ports: &HashSet<u16>| ports.contains(&port);
                    assert!(
                        may_be_lost.as_ref().is_none_or(is_allowed),
                        "{port}: {error}"
                    );
                    lost += 1;
                    *visitor = Visitor::new(site, visitor.name);
                    visitor.expect_answer();
                }
            }
        }
    }
    println!("{kills} kills: {lost} clients were lost with their workers, {moved} went on");
    // Some connections may not move, because a successor that is suspended or killed may leave its
    // predecessor without an answer.
    site.check_descriptors(visitors);
}

#[test]
fn moves_during_kills_of_workers_lose_only_their_clients() {
    let mut site = Site::start("moves-kills", &[], false);
    lose_only(&mut site, number("SOAK_KILLS", 30), |site| {
        let old = site.workers();
        signal_to(site.master, Signal::HUP);
        let is_new = |worker: &u32| !old.contains(worker);
        eventually("a new worker starts", || site.workers().iter().any(is_new));
        pause_up_to_ms(12);
        let workers = site.workers();
        let victim = workers[random(workers.len())];
        let stopped = Instant::now();
        let _ = try_signal_to(victim, Signal::STOP);
        eventually("it is stopped, or has ended", || {
            matches!(process_state(victim), None | Some('T' | 'Z'))
        });
        let clients = clients_of(victim, site.server.address().port());
        let _ = try_signal_to(victim, Signal::KILL);
        // A successor that does not answer for seconds counts as hung, and gets no connection.
        let was_short = stopped.elapsed() < Duration::from_secs(1);
        site.wait_for_new_workers(&[&old[..], &[victim]].concat());
        was_short.then_some(clients)
    });
}

#[test]
fn moves_during_kills_of_masters_lose_only_clients_of_their_workers() {
    let mut site = Site::start("moves-masters", &[], false);
    lose_only(&mut site, number("SOAK_KILLS", 5), |site| {
        let new = site.start_binary();
        let mut workers = site.workers();
        workers.retain(|child| *child != new);
        signal_to(site.master, Signal::QUIT);
        pause_up_to_ms(4);
        let stopped = Instant::now();
        let signal_all = |signal| {
            for worker in &workers {
                let _ = try_signal_to(*worker, signal);
            }
        };
        signal_all(Signal::STOP);
        let is_still = |worker: &u32| matches!(process_state(*worker), None | Some('T' | 'Z'));
        eventually("its workers are stopped, or have ended", || {
            workers.iter().all(is_still)
        });
        let port = site.server.address().port();
        let clients = workers.iter().flat_map(|worker| clients_of(*worker, port));
        let clients: HashSet<u16> = clients.collect();
        let was_short = stopped.elapsed() < Duration::from_secs(1);
        let _ = try_signal_to(site.master, Signal::KILL);
        signal_all(Signal::CONT);
        site.go_on_with(new);
        let is_gone = |worker: &u32| matches!(process_state(*worker), None | Some('Z'));
        eventually("its workers have ended", || workers.iter().all(is_gone));
        was_short.then_some(clients)
    });
}

fn pause_up_to_ms(ms: usize) {
    thread::park_timeout(Duration::from_micros(random(1000 * ms) as u64));
}
