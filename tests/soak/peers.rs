//! Reloads `httpd`, nginx and `HAProxy` with kept-alive clients, in one run. The test counts
//! clients that have to connect again and old workers that linger, and measures how long busy
//! clients wait meanwhile.
//!
//! The test asserts only that no client of `httpd` has to connect again. The times are for a
//! reader, from a run with 10,000 idle clients on a quiet machine:
//!
//!     SOAK_IDLE=10000 SOAK_RELOADS=5 \
//!         cargo test --release -p evcore-tests --test soak peers -- --nocapture

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use evcore_tests::{
    Client, Running, Scratch, allow_many_descriptors, eventually, httpd, is_installed,
    process_state, signal_to,
};
use rustix::process::Signal;

use super::moves::number;

/// Number of clients that send their next request when they have a response.
const BUSY: usize = 50;

const HALFWAY: usize = 50;

/// Time after a reload for which old workers are watched.
const WATCHED: Duration = Duration::from_secs(2);

struct Peer {
    name: &'static str,
    command: Command,
    address: SocketAddr,
    reload: Signal,
    workers: usize,
}

fn idle_clients() -> usize {
    number("SOAK_IDLE", 1000)
}

/// Returns an address on which no process listens, because nginx and `HAProxy` do not print the
/// port that the kernel chooses.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it has one")
}

fn httpd_peer(name: &'static str, options: &[&str]) -> Peer {
    let address = free_address();
    let mut command = Command::new(httpd());
    command.args(["--listen", &address.to_string(), "--workers", "2"]);
    command
        .args(["--connections", "15000", "--quiet"])
        .args(options);
    Peer {
        name,
        command,
        address,
        reload: Signal::HUP,
        workers: 2,
    }
}

fn nginx(directory: &Scratch) -> Peer {
    let address = free_address();
    let configuration = format!(
        "daemon off; pid nginx.pid; error_log stderr; worker_processes 2;\n\
         events {{ worker_connections 15000; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; server {{\n\
         listen {address} backlog=1024; location / {{ return 200 \"hello\"; }} }} }}\n"
    );
    let path = directory.file("nginx.conf");
    fs::write(&path, configuration).expect("a file");
    let mut command = Command::new("nginx");
    command.arg("-p").arg(directory.path()).arg("-c").arg(path);
    Peer {
        name: "nginx",
        command,
        address,
        reload: Signal::HUP,
        workers: 2,
    }
}

/// `HAProxy`, whose only worker is a process with two threads.
fn haproxy(directory: &Scratch) -> Peer {
    let address = free_address();
    let configuration = format!(
        "global\n nbthread 2\n maxconn 8000\n\
         defaults\n mode http\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n\
         timeout http-keep-alive 60s\n timeout http-request 60s\n\
         frontend f\n bind {address} backlog 1024\n\
         http-request return status 200 content-type text/plain string hello\n"
    );
    let path = directory.file("haproxy.cfg");
    fs::write(&path, configuration).expect("a file");
    let mut command = Command::new("haproxy");
    command.args(["-W", "-db", "-f"]).arg(path);
    Peer {
        name: "HAProxy",
        command,
        address,
        reload: Signal::USR2,
        workers: 1,
    }
}

#[derive(Default)]
struct Row {
    /// Number of times that busy clients had to connect again, because the server closed the
    /// connection, or announced its end.
    busy: usize,
    /// The same number for idle clients.
    idle: usize,
    /// The same number for clients in the middle of a request head.
    halfway: usize,
    /// Number of old workers that were still alive a second after the signal.
    lingering: usize,
    /// The longest time until the old workers had ended, if all ended within [`WATCHED`].
    ended_after: Option<Duration>,
    /// The 99th percentile of a busy client's wait in a quiet second, and in the seconds after the
    /// signals.
    p99: [Duration; 2],
    /// The longest waits in the same periods.
    longest: [Duration; 2],
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let pids = text.split_whitespace().map(str::parse);
    pids.filter_map(Result::ok).collect()
}

/// Sends a request, or the rest of one, and returns whether the connection goes on after its
/// response.
fn goes_on(client: &mut Client, request: &str) -> bool {
    if !client.try_send(request.as_bytes()) {
        return false;
    }
    let response = client.try_response();
    response.is_ok_and(|response| response.status == 200 && !response.closes())
}

const HEAD: &str = "GET / HTTP/1.1\r\nHost: soak\r\n\r\n";

/// Clients, and the beginning of the request that [`begin`](Clients::begin) sends on each.
struct Clients<'a> {
    address: SocketAddr,
    all: Vec<Client>,
    begun: &'a str,
}

impl<'a> Clients<'a> {
    fn connect(address: SocketAddr, count: usize, begun: &'a str) -> Self {
        let all = (0..count).map(|_| connect(address)).collect();
        Self {
            address,
            all,
            begun,
        }
    }

    fn begin(&mut self) {
        let begin = |client: &mut Client| _ = client.try_send(self.begun.as_bytes());
        self.all.iter_mut().for_each(begin);
    }

    /// Sends the rest of each request, and returns the number of clients that had to connect again.
    fn end(&mut self) -> usize {
        let rest = HEAD.strip_prefix(self.begun).expect("its beginning");
        let mut again = 0;
        for client in &mut self.all {
            if !goes_on(client, rest) {
                again += 1;
                *client = connect(self.address);
            }
        }
        again
    }
}

/// Connects a client, and returns it after its first response.
fn connect(address: SocketAddr) -> Client {
    let mut client = None;
    eventually("it is served", || {
        client = Client::try_connect(address).ok();
        client.as_mut().is_some_and(|client| goes_on(client, HEAD))
    });
    client.expect("just waited for")
}

/// Keeps clients busy. Returns how often they had to connect again, and their waits in each of the
/// phases [`QUIET`] and [`RELOAD`].
fn keep_busy(address: SocketAddr, phase: &AtomicUsize) -> (usize, [Vec<Duration>; 2]) {
    let mut clients = Clients::connect(address, BUSY, "");
    let (mut again, mut waits) = (0, [Vec::new(), Vec::new()]);
    loop {
        for client in &mut clients.all {
            let now = phase.load(Relaxed);
            if now == OVER {
                return (again, waits);
            }
            let started = Instant::now();
            if !goes_on(client, HEAD) {
                again += 1;
                *client = connect(address);
            }
            if let Some(waits) = waits.get_mut(now) {
                waits.push(started.elapsed());
            }
        }
    }
}

/// Phases of [`keep_busy`]: a quiet second, the second after a signal, and others.
const QUIET: usize = 0;
const RELOAD: usize = 1;
const BETWEEN: usize = 2;
const OVER: usize = 3;

/// Ends the busy clients, also if this thread panics.
struct Over<'a>(&'a AtomicUsize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(OVER, Relaxed);
    }
}

fn measure(peer: &mut Peer, reloads: usize) -> Row {
    let command = peer.command.stdin(Stdio::null());
    let running = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let (mut row, address) = (Row::default(), peer.address);
    eventually("it listens", || Client::try_connect(address).is_ok());
    let master = running.pid();
    eventually("all workers run", || children(master).len() == peer.workers);
    let mut idle = Clients::connect(address, idle_clients(), "");
    let mut halfway = Clients::connect(address, HALFWAY, "GET / HTTP/1.1\r\nHo");
    let phase = AtomicUsize::new(QUIET);
    thread::scope(|scope| {
        let end = Over(&phase);
        let busy = scope.spawn(|| keep_busy(address, &phase));
        pause(Duration::from_secs(1));
        phase.store(BETWEEN, Relaxed);
        let mut longest = Some(Duration::ZERO);
        for _ in 0..reloads {
            halfway.begin();
            let old = children(master);
            let living = || {
                old.iter()
                    .filter(|pid| !matches!(process_state(**pid), None | Some('Z')))
            };
            let started = Instant::now();
            phase.store(RELOAD, Relaxed);
            signal_to(master, peer.reload);
            let mut ended_after = None;
            while started.elapsed() < WATCHED {
                if ended_after.is_none() && living().count() == 0 {
                    ended_after = Some(started.elapsed());
                }
                let is_first = started.elapsed() < Duration::from_secs(1);
                if !is_first && phase.swap(BETWEEN, Relaxed) == RELOAD {
                    row.lingering += living().count();
                }
                // The pause leaves the processors to the clients.
                pause(Duration::from_micros(200));
            }
            longest = longest.zip(ended_after).map(|(one, other)| one.max(other));
            row.halfway += halfway.end();
            row.idle += idle.end();
            eventually("the old workers have ended", || living().count() == 0);
        }
        drop(end);
        let (again, mut waits) = busy.join().expect("it does not panic");
        row.busy = again;
        row.ended_after = longest;
        for (phase, waits) in waits.iter_mut().enumerate() {
            waits.sort_unstable();
            row.p99[phase] = waits[waits.len() * 99 / 100];
            row.longest[phase] = waits[waits.len() - 1];
        }
    });
    row
}

fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "a measurement has a duration")]
    thread::sleep(time);
}

fn print(name: &str, row: &Row) {
    let ended = match row.ended_after {
        Some(time) => format!("{:.0} ms", time.as_secs_f64() * 1e3),
        None => format!("not within {} s", WATCHED.as_secs()),
    };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let Row {
        busy,
        idle,
        halfway,
        lingering,
        ..
    } = row;
    print!("| {name} | {busy} | {idle} | {halfway} | {lingering} | {ended} |");
    let [quiet, during] = row.p99.map(ms);
    print!(" {quiet:.2}, {during:.2}: {:.1} |", during / quiet);
    let [quiet, during] = row.longest.map(ms);
    println!(" {quiet:.1}, {during:.1} |");
}

#[test]
fn peers_reload_beside_httpd() {
    allow_many_descriptors();
    let directory = Scratch::new("peers");
    let mut peers = vec![
        httpd_peer("httpd", &[]),
        httpd_peer("httpd --handover off", &["--handover", "off"]),
    ];
    if is_installed("nginx") {
        peers.push(nginx(&directory));
    }
    if is_installed("haproxy") {
        peers.push(haproxy(&directory));
    }
    let (reloads, idle) = (number("SOAK_RELOADS", 1), idle_clients());
    println!(
        "{reloads} reloads with {BUSY} busy clients, {idle} idle ones and {HALFWAY} in a request head."
    );
    println!(
        "Clients that connect again; old workers; waits of the busy, in a quiet second and after HUP:"
    );
    println!("| | busy | idle | in a head | after 1 s | ended | p99, ms | longest, ms |");
    println!("|---|---|---|---|---|---|---|---|");
    for peer in &mut peers {
        let row = measure(peer, reloads);
        print(peer.name, &row);
        if peer.name == "httpd" {
            assert_eq!((row.busy, row.idle, row.halfway), (0, 0, 0));
        }
    }
}
