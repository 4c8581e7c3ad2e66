//! Measures a simulated day of a server with 1,000 clients that are mostly idle.
//!
//!     cargo run --release -p evcore-sim --example simulated_day
//!     cargo run --release -p evcore-sim --example simulated_day -- 60 120
//!     cargo run --release -p evcore-sim --example simulated_day -- --trace
//!
//! Each client keeps one connection and sends a request of some 60 bytes every 30 to 75 seconds.
//! (Two arguments replace these limits.) The server answers with 64 bytes, including the `Date` of
//! its clock, and re-arms the connection's idle timer. That makes 1.6 million requests a day. The
//! program prints the simulated days per second, and the trace hash, which is the same in every run
//! with the same arguments. With `--trace` it simulates an hour and keeps the trace, as `check`
//! does when it repeats a failing run.

use std::{
    env,
    net::SocketAddr,
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use evcore::{EventLoop, Interest, Mode, Step, Timer, TokenMap};
use evcore_sim::{
    App, Client, ClientCx, ClientEvent, Process, Sim, SimListener, SimStream, Workers,
};

const IDLE: Timer = Timer::new(0);
const CLIENTS: u32 = 1_000;
const ANSWER: &[u8; 64] = b"HTTP/1.1 204 No Content\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n";
const HOUR: Duration = Duration::from_secs(3_600);
const HOURS_A_DAY: u32 = 24;

/// Sends a request, and another one after a pause.
#[derive(Debug)]
struct Regular {
    server: SocketAddr,
    pauses: RangeInclusive<Duration>,
    /// The number of bytes that the client waits for.
    awaited: Arc<AtomicU64>,
}

impl Client for Regular {
    fn on_event(&mut self, event: ClientEvent, cx: &mut ClientCx<'_>) {
        match event {
            ClientEvent::Started => cx.connect(self.server),
            ClientEvent::Expired | ClientEvent::Connected => {
                let awaited = self.awaited.fetch_add(ANSWER.len() as u64, Relaxed);
                assert_eq!(awaited, 0, "a request of half a minute ago has no answer");
                let sent =
                    cx.send(b"GET / HTTP/1.1\r\nHost: server\r\nUser-Agent: a regular one\r\n\r\n");
                sent.expect("there are no faults");
                let pause = cx.rng().duration(&self.pauses);
                cx.arm(pause);
            }
            ClientEvent::Ready(ready) if ready.is_readable() => {
                let received = cx.recv(&mut [0; 256]).expect("it is readable");
                assert!(
                    received > 0,
                    "the server closed a connection before its idle timeout"
                );
                self.awaited.fetch_sub(received as u64, Relaxed);
            }
            ClientEvent::Refused => panic!("a client is not served"),
            _ => {}
        }
    }
}

struct Server {
    ev: EventLoop<SimListener>,
    conns: TokenMap<SimStream>,
    /// The idle timeout, which is longer than the pause of any client.
    idle: Duration,
    served: u64,
}

impl Server {
    fn new(process: &Process, address: SocketAddr, idle: Duration) -> Self {
        let builder = process.builder().listener(process.listen(address));
        Self {
            ev: builder.connections(2_000).build().expect("a loop"),
            conns: TokenMap::new(),
            idle,
            served: 0,
        }
    }
}

impl App for Server {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        match step {
            Step::Accepted(new) => {
                let (ev, mode) = (&mut self.ev, Mode::Edge);
                let added = self.conns.add(ev, new.stream, Interest::READ, mode);
                let token = added.expect("a fresh descriptor");
                self.ev.arm(token, IDLE, self.idle);
            }
            Step::Ready(token, _) => {
                let stream = self.conns.get(token).expect("its token is live");
                let received = stream.recv(&mut [0; 256]).expect("it is readable");
                assert!(received > 0, "no client closes");
                self.ev.rearm(token, Interest::READ);
                let mut answer = *ANSWER;
                answer[31..60].copy_from_slice(self.ev.clock().http_date().as_bytes());
                stream.send(&answer).expect("there is room");
                self.ev.arm(token, IDLE, self.idle);
                self.served += 1;
            }
            _ => unreachable!("{step:?}"),
        }
    }
}

fn main() {
    let sim = Sim::new(1);
    let address = SocketAddr::from(([10, 0, 0, 1], 80));
    let pauses = pauses();
    let idle = *pauses.end() + Duration::from_secs(15);
    let begin = move |process: &Process, _| Server::new(process, address, idle);
    let mut workers = Workers::new(&sim, 1, begin);
    let awaited: Vec<_> = (0..CLIENTS).map(|_| Arc::<AtomicU64>::default()).collect();
    for awaited in &awaited {
        sim.add_client(Regular {
            server: address,
            pauses: pauses.clone(),
            awaited: Arc::clone(awaited),
        });
    }
    let is_traced = env::args().any(|argument| argument == "--trace");
    let hours = if is_traced { 1 } else { HOURS_A_DAY };
    if is_traced {
        sim.record_trace();
    }
    let start = Instant::now();
    workers.run_for(hours * HOUR);
    let took = start.elapsed();

    let server = workers.app(0).expect("it is not killed");
    assert_eq!(server.conns.len(), CLIENTS as usize, "a client was lost");
    let waiting = awaited
        .iter()
        .filter(|count| count.load(Relaxed) > 0)
        .count();
    // With the default pauses, few clients wait at any time: an answer takes some 1 ms.
    assert!(waiting < 10, "{waiting} clients wait for an answer");
    println!(
        "{CLIENTS} clients, {} requests, {} turns, {:.2} s: {:.2} days per second",
        server.served,
        server.ev.stats().turns,
        took.as_secs_f64(),
        f64::from(hours) / f64::from(HOURS_A_DAY) / took.as_secs_f64(),
    );
    println!("trace {:016x}", sim.trace_hash());
}

/// The shortest and the longest pause between two requests: the two arguments, or 30 and 75
/// seconds.
fn pauses() -> RangeInclusive<Duration> {
    let numbers = env::args().skip(1).filter(|argument| argument != "--trace");
    let mut arguments = numbers.map(|argument| {
        let seconds = argument.parse().expect("the arguments are seconds");
        Duration::from_secs(seconds)
    });
    let least = arguments.next().unwrap_or(Duration::from_secs(30));
    let most = arguments.next().unwrap_or(Duration::from_secs(75));
    least..=most
}
