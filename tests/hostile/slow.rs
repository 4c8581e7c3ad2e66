//! The cost of 2,000 slow clients for other clients: delay, and CPU time of the worker.
//!
//! The delay is counted in turns (iterations of the worker's event loop). All slow clients act
//! while the worker is suspended by SIGSTOP, and then a request comes. When the worker continues,
//! it must answer the request as soon as it has handled each earlier event once.
//!
//! For the CPU time, a server with the slow clients and one without them get the same requests, in
//! alternating rounds. Before each request to either server, one slow client acts, so that the
//! caches and the sleeps of the machine are the same in all rounds. The test compares the time that
//! the worker runs from one response to the next. On a busy machine, the time on the clock varies
//! too much.
//!
//! This comparison runs on one CPU, because the result would otherwise depend on the CPUs on which
//! the kernel places the two servers.

use std::{
    fs::File,
    io::{Read, Write},
    mem,
    os::unix::{fs::FileExt, net::UnixStream},
    path::Path,
    process::Command,
};

use evcore_tests::{
    Client, Scratch, Server, Status, allow_many_descriptors, eventually, httpd, not_run,
    process_state, signal_to,
};
use rustix::process::Signal;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const SLOW: usize = 2000;

/// Limit on the descriptors of this process: enough for the slow clients, and for tests that run at
/// the same time.
const DESCRIPTORS: u64 = SLOW as u64 + 1000;

const ROUNDS: usize = 5;

const REQUESTS: usize = 1000;

/// Number of requests on a connection before the next connection is opened.
const KEPT: usize = 50;

/// The highest allowed ratio of the worker's time for a request with slow clients to its time
/// without them. A ratio of some 2 is expected, because the server reads or writes once for the
/// slow client that acts, which costs at most as much as a request. The other 1,999 clients cost
/// nothing meanwhile.
const RATIO_MAX: f64 = 4.0;

/// A timeout longer than the test, because slow clients must stay.
const TIMEOUT_MS: &str = "3600000";

/// Maximum number of events of a turn, by default.
const EVENTS_MAX: u64 = 256;

/// Maximum number of turns for the events of 2,000 slow clients at once, and for the request: one
/// more turn at each end.
const TURNS_MAX: u64 = (SLOW as u64).div_ceil(EVENTS_MAX) + 2;

#[test]
fn slow_clients_delay_a_request_by_few_turns() {
    if !has_descriptors() {
        return;
    }
    for kind in KINDS {
        let directory = Scratch::new("slow-clients");
        let server = start(&directory.file("socket"));
        let mut slow = kind.connect_all(&server, &directory.file("socket"));
        let mut client = server.connect();
        let worker = server.worker_pids()[0];
        let mut ask = || turns(client.get("/status.json").text());
        let mut before = ask();
        eventually("the worker has nothing else to do", || {
            let last = mem::replace(&mut before, ask());
            before - last == 1
        });
        signal_to(worker, Signal::STOP);
        eventually("the worker has stopped", || {
            process_state(worker) == Some('T')
        });
        slow.iter_mut().for_each(Slow::act_much);
        client.send("GET /status.json HTTP/1.1\r\nHost: t\r\n\r\n");
        signal_to(worker, Signal::CONT);
        let took = turns(client.response().text()) - before;
        println!("{kind:?}: {took} turns");
        assert!(took <= TURNS_MAX, "{kind:?}: {took} of {TURNS_MAX} turns");
        // The worker has handled the events of all slow clients.
        assert!(took * EVENTS_MAX >= SLOW as u64, "{kind:?}: {took} turns");
        let status = server.status();
        assert!(held(&status), "{kind:?}: a slow client is lost: {status:?}");
    }
}

#[test]
fn slow_clients_cost_others_little_time_of_the_worker() {
    if !has_descriptors() {
        return;
    }
    stay_on_one_cpu();
    KINDS.into_iter().for_each(compare);
}

fn has_descriptors() -> bool {
    let has = allow_many_descriptors() >= DESCRIPTORS;
    if !has {
        not_run("2,000 clients need a higher hard limit on descriptors (`ulimit -Hn`)");
    }
    has
}

/// The part of an exchange in which the clients of a test are slow.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Heads,
    Bodies,
    Readers,
}

const KINDS: [Kind; 3] = [Kind::Heads, Kind::Bodies, Kind::Readers];

impl Kind {
    fn connect_all(self, server: &Server, socket: &Path) -> Vec<Slow> {
        let slow = (0..SLOW).map(|_| self.connect(server, socket)).collect();
        server.wait_for_status("the slow clients are there", held);
        slow
    }

    fn connect(self, server: &Server, socket: &Path) -> Slow {
        let request = match self {
            Self::Heads => "GET / HTTP/1.1\r\nX: ",
            Self::Bodies => "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10000\r\n\r\n",
            Self::Readers => {
                // The kernel buffers some MB for each TCP connection to this machine, and less for
                // a Unix socket.
                let mut stream = UnixStream::connect(socket).expect("the server listens");
                let request = b"GET /bytes/1000000000 HTTP/1.1\r\nHost: t\r\n\r\n";
                stream.write_all(request).expect("there is room");
                return Slow::Reader(stream);
            }
        };
        let mut client = server.connect();
        client.send(request);
        Slow::Sender(client)
    }
}

fn held(status: &Status) -> bool {
    status.reading + status.writing > SLOW as u64
}

enum Slow {
    Sender(Client),
    Reader(UnixStream),
}

impl Slow {
    fn act(&mut self) {
        match self {
            Self::Sender(client) => client.send("x"),
            Self::Reader(stream) => stream.read_exact(&mut [0; 1024]).expect("there is more"),
        }
    }

    /// Sends a byte, or reads all that has arrived, so that the server can send.
    fn act_much(&mut self) {
        let Self::Reader(stream) = self else {
            return self.act();
        };
        stream.set_nonblocking(true).expect("it is open");
        let mut buffer = [0; 64 * 1024];
        while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
        stream.set_nonblocking(false).expect("it is open");
    }
}

fn turns(page: &str) -> u64 {
    let number = page.split("\"turns\":").nth(1);
    let number = number.and_then(|rest| rest.split(',').next()?.parse().ok());
    number.expect("the worker has a number of turns")
}

fn compare(kind: Kind) {
    let directory = Scratch::new("slow-clients");
    let [socket, other] = ["with", "without"].map(|name| directory.file(name));
    let (with, without) = (start(&socket), start(&other));
    let mut slow = kind.connect_all(&with, &socket);

    let mut ratios = [Vec::new(), Vec::new()];
    let mut acts = 0;
    let mut act = || {
        slow[acts % SLOW].act();
        acts += 1;
    };
    for _ in 0..ROUNDS {
        let with_slow = Round::run(&with, &mut act);
        let alone = Round::run(&without, &mut act);
        ratios[0].push(with_slow.mean / alone.mean);
        ratios[1].push(with_slow.late / alone.late);
    }
    println!("{kind:?}: mean, 99th percentile: {ratios:.2?}");
    for (of, ratios) in ["mean", "99th percentile"].iter().zip(ratios) {
        let median = median(ratios.clone());
        assert!(
            median <= RATIO_MAX,
            "{kind:?}: {of}: {median} of {ratios:?}"
        );
    }
    let status = with.status();
    assert!(held(&status), "{kind:?}: a slow client is lost: {status:?}");
}

fn start(socket: &Path) -> Server {
    let mut command = Command::new(httpd());
    command.args(["--listen", "127.0.0.1:0", "--workers", "1"]);
    command.args(["--listen", &format!("unix:{}", socket.display())]);
    for timeout in ["--header-timeout", "--send-timeout", "--keepalive-timeout"] {
        command.args([timeout, TIMEOUT_MS]);
    }
    Server::from_command(command, 2)
}

/// Nanoseconds that the worker ran for each request of a round.
struct Round {
    mean: f64,
    /// The 99th percentile.
    late: f64,
}

impl Round {
    fn run(server: &Server, mut before_each: impl FnMut()) -> Self {
        let worker = Running::of(server.worker_pids()[0]);
        let mut client = server.connect();
        let begun = worker.ns();
        let (mut last, mut times) = (begun, Vec::with_capacity(REQUESTS));
        for nth in 0..REQUESTS {
            if nth % KEPT == 0 {
                client = server.connect();
            }
            before_each();
            assert_eq!(client.get("/").status, 200);
            let now = worker.ns();
            times.push(now - last);
            last = now;
        }
        times.sort_by(f64::total_cmp);
        Self {
            mean: (last - begun) / REQUESTS as f64,
            late: times[REQUESTS * 99 / 100],
        }
    }
}

/// The time that a process has run on a processor.
struct Running(File);

impl Running {
    fn of(pid: u32) -> Self {
        let path = format!("/proc/{pid}/schedstat");
        Self(File::open(path).expect("it lives"))
    }

    /// The time in nanoseconds, up to the beginning of the process's last wait.
    fn ns(&self) -> f64 {
        let mut bytes = [0; 64];
        let n = self.0.read_at(&mut bytes, 0).expect("it lives");
        let text = std::str::from_utf8(&bytes[..n]).expect("numbers");
        let first = text.split(' ').next().and_then(|word| word.parse().ok());
        first.expect("nanoseconds")
    }
}

fn median(mut ratios: Vec<f64>) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

fn stay_on_one_cpu() {
    let usable = sched_getaffinity(None).expect("a thread may look where it may run");
    let first = (0..CpuSet::MAX_CPU).find(|cpu| usable.is_set(*cpu));
    let mut one = CpuSet::new();
    one.set(first.expect("it runs on one"));
    sched_setaffinity(None, &one).expect("it may run there");
}
