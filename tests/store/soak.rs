//! A random worker is killed each second, while most clients are idle and some send many requests.
//!
//! For comparison, nginx and `HAProxy` get the same kills and the same clients. A server that is
//! not installed is left out.
//!
//!     STORE_SOAK_SECONDS=600 cargo test --release -p evcore-tests --test store soak -- --nocapture

use std::{
    cell::RefCell,
    env, fs,
    hash::{BuildHasher, RandomState},
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use evcore_tests::{Scratch, SetOnDrop, eventually, not_run, process_state, signal_to};
use rustix::process::Signal;

use super::{kills::DescriptorWatch, start};

const WORKERS: usize = 4;
const IDLE: usize = 950;
const BUSY: usize = 50;

/// The pause between the last answers of idle clients and a kill.
const QUIET: Duration = Duration::from_millis(20);

/// Time after which a worker has noted that a connection is idle.
const NOTED: Duration = Duration::from_millis(500);

fn length() -> Duration {
    let seconds = env::var("STORE_SOAK_SECONDS");
    let seconds = seconds.map_or(4, |text| text.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

fn random(below: usize) -> usize {
    let random = RandomState::new().hash_one(());
    usize::try_from(random % below as u64).expect("it is below a `usize`")
}

#[derive(Debug, Default)]
struct Seen {
    kills: usize,
    answers: usize,
    /// Number of connections that ended while their client waited for an answer.
    lost_under_way: usize,
    /// Number of idle connections that ended, without those in `lost_just_answered`. A connection
    /// counts too if its client's next request got no answer.
    lost_idle: usize,
    /// Number of idle connections that ended, and whose last answer came less than [`NOTED`] before
    /// the kill. On a busy machine a worker may be delayed between an answer and its note that the
    /// connection is idle.
    lost_just_answered: usize,
}

impl Seen {
    fn lost(&self) -> usize {
        self.lost_under_way + self.lost_idle + self.lost_just_answered
    }
}

struct Visitor {
    address: SocketAddr,
    stream: TcpStream,
    answered: Instant,
    /// Number of connections that ended before their first answer.
    lost: usize,
}

impl Visitor {
    fn new(address: SocketAddr) -> Self {
        let mut visitor = Self {
            address,
            stream: connect(address),
            answered: Instant::now(),
            lost: 0,
        };
        while visitor.ask().is_err() {
            visitor.lost += 1;
            visitor.stream = connect(address);
        }
        visitor
    }

    /// Connects again. Returns the number of connections that ended before their first answer.
    fn reconnect(&mut self) -> usize {
        *self = Self::new(self.address);
        self.lost
    }

    fn ask(&mut self) -> io::Result<()> {
        self.stream
            .write_all(b"GET / HTTP/1.1\r\nHost: soak\r\n\r\n")?;
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let n = self.stream.read(&mut buffer)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&buffer[..n]);
            if is_whole(&bytes) {
                self.answered = Instant::now();
                return Ok(());
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.stream.set_nonblocking(true).expect("it is open");
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).expect("it is open");
        !peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let mut stream = None;
    eventually("it listens", || {
        stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok();
        stream.is_some()
    });
    let stream = stream.expect("just waited for");
    let patience = Some(Duration::from_secs(30));
    stream.set_read_timeout(patience).expect("it is a time");
    stream
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().expect("a number"))
    });
    length.is_some_and(|length| body.len() >= length)
}

/// Kills a random worker each second. `workers` returns the living workers.
fn soak(address: SocketAddr, workers: impl Fn() -> Vec<u32>, mut after_kill: impl FnMut()) -> Seen {
    let is_over = AtomicBool::new(false);
    let (answers, under_way) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut seen = Seen::default();
    let mut idle: Vec<_> = (0..IDLE).map(|_| Visitor::new(address)).collect();
    let begun = Instant::now();
    thread::scope(|scope| {
        let _end = SetOnDrop(&is_over);
        for _ in 0..BUSY {
            scope.spawn(|| {
                let mut visitor = Visitor::new(address);
                while !is_over.load(Relaxed) {
                    match visitor.ask() {
                        Ok(()) => _ = answers.fetch_add(1, Relaxed),
                        Err(_) => {
                            under_way.fetch_add(1 + visitor.reconnect(), Relaxed);
                        }
                    }
                    // With these pauses, a client is busy half of the time.
                    thread::park_timeout(Duration::from_millis(random(4) as u64));
                }
            });
        }
        while begun.elapsed() < length() {
            let next = Instant::now() + Duration::from_secs(1);
            let all = workers();
            if all.is_empty() {
                thread::park_timeout(Duration::from_millis(10));
                continue;
            }
            thread::park_timeout(QUIET);
            let killed = Instant::now();
            let victim = all[random(all.len())];
            signal_to(victim, Signal::KILL);
            seen.kills += 1;
            eventually("there are as many workers", || {
                let now = workers();
                now.len() == all.len() && !now.contains(&victim)
            });
            after_kill();
            thread::park_timeout(next.saturating_duration_since(Instant::now()));
            for (number, visitor) in idle.iter_mut().enumerate() {
                if visitor.is_closed() {
                    match visitor.answered + NOTED > killed {
                        true => seen.lost_just_answered += 1,
                        false => seen.lost_idle += 1,
                    }
                    under_way.fetch_add(visitor.reconnect(), Relaxed);
                } else if number % 10 == seen.kills % 10 {
                    match visitor.ask() {
                        Ok(()) => seen.answers += 1,
                        Err(_) => {
                            seen.lost_idle += 1;
                            under_way.fetch_add(visitor.reconnect(), Relaxed);
                        }
                    }
                }
            }
        }
    });
    seen.answers += answers.into_inner();
    seen.lost_under_way = under_way.into_inner();
    seen
}

#[test]
fn soak_loses_no_idle_client_of_a_killed_worker() {
    let server = start(WORKERS, &[]);
    let alive = || {
        let workers = server.worker_pids().into_iter();
        let alive = workers.filter(|pid| !matches!(process_state(*pid), None | Some('Z')));
        alive.collect::<Vec<_>>()
    };
    let mut watch = DescriptorWatch::default();
    let before = watch.quiet(&server, WORKERS);
    let seen = soak(server.address(), alive, || {
        eventually("one store for each worker is left", || {
            server.store_pids().len() == WORKERS
        });
    });
    let counted = super::kept_and_lost(&server);
    println!("httpd: {seen:?}, kept and lost: {counted:?}");
    assert_eq!(seen.lost_idle, 0, "{}", server.log());
    assert!(seen.lost_just_answered <= seen.kills / 10 + 1, "{seen:?}");
    let (kept, lost) = counted.expect("the workers live");
    assert!(kept > 0 && lost <= seen.lost() as u64, "{seen:?}");
    eventually("no descriptor is left", || watch.sample(&server) == before);
    others();
}

/// Another server, which ends when this value is dropped.
struct Other {
    program: &'static str,
    address: SocketAddr,
    directory: Scratch,
    child: Child,
}

impl Other {
    fn start(program: &'static str) -> Option<Self> {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = address.expect("a free port");
        let directory = Scratch::new(program);
        let text = configuration(program, address, directory.path());
        fs::write(directory.file("config"), text).expect("the directory is writable");
        let child = launch(program, &directory).ok()?;
        eventually("it listens", || TcpStream::connect(address).is_ok());
        Some(Self {
            program,
            address,
            directory,
            child,
        })
    }

    /// The process ids of the server's workers. A server that has ended is started again, as a
    /// service manager does. (A master of `HAProxy` that has lost its worker ends all processes.)
    fn workers(&mut self) -> Vec<u32> {
        if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
            self.child = launch(self.program, &self.directory).expect("it is installed");
        }
        let alive = |pid: &u32| !matches!(process_state(*pid), None | Some('Z'));
        children(self.child.id())
            .into_iter()
            .filter(alive)
            .collect()
    }
}

fn launch(program: &str, directory: &Scratch) -> io::Result<Child> {
    let file = directory.file("config");
    let mut command = Command::new(program);
    match program {
        "nginx" => _ = command.arg("-c").arg(&file).arg("-p").arg(directory.path()),
        _ => _ = command.arg("-db").arg("-W").arg("-f").arg(&file),
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

impl Drop for Other {
    fn drop(&mut self) {
        for worker in children(self.child.id()) {
            let _ = evcore_tests::try_signal_to(worker, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let pids = list.split_whitespace().map(str::parse);
    pids.filter_map(Result::ok).collect()
}

/// Runs the same soak for nginx and for `HAProxy`, whose workers are threads of one process.
fn others() {
    for program in ["nginx", "haproxy"] {
        let Some(server) = Other::start(program) else {
            not_run(&format!("{program} is not installed"));
            continue;
        };
        let address = server.address;
        let server = RefCell::new(server);
        let seen = soak(address, || server.borrow_mut().workers(), || {});
        println!("{program}: {seen:?}");
    }
}

fn configuration(program: &str, address: SocketAddr, directory: &std::path::Path) -> String {
    let port = address.port();
    match program {
        "nginx" => format!(
            "daemon off; master_process on; worker_processes {WORKERS}; pid {0}/pid; \
             error_log /dev/null; events {{ worker_connections 4000; }} \
             http {{ access_log off; keepalive_requests 100000000; keepalive_timeout 3600; \
             server {{ listen 127.0.0.1:{port}; location / {{ return 200 ok; }} }} }}\n",
            directory.display()
        ),
        _ => format!(
            "global\n  maxconn 4000\ndefaults\n  mode http\n  timeout client 1h\n  timeout http-keep-alive 1h\n\
             \x20 timeout connect 1s\n  timeout server 1h\nfrontend f\n  bind 127.0.0.1:{port}\n\
             \x20 http-request return status 200 content-type text/plain string ok\n"
        ),
    }
}
