//! How long a simulated day takes, of a server with 1,000 clients who are mostly idle.
//!
//!     cargo run --release -p evcore-sim --example day
//!
//! Each client keeps one connection and asks a question of some 60 bytes every 30 to 75 seconds;
//! the server answers as many, reads the `Date` from its clock, and re-arms the connection's idle
//! timer: about 1.6 million requests a day. Prints the days a second, and the hash, which is the
//! same in every run.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use evcore::{EventLoop, Interest, Mode, Side, Step, Table};
use evcore_sim::{App, Client, News, Process, SimListener, SimStream, Visit, Workers, World};

const CLIENTS: u32 = 1_000;
const IDLE: Duration = Duration::from_secs(90);
const DAY: Duration = Duration::from_secs(86_400);

/// Asks, and asks again after a while.
#[derive(Debug)]
struct Regular {
    server: SocketAddr,
}

impl Client for Regular {
    fn call(&mut self, news: News, me: &mut Visit<'_>) {
        match news {
            News::Time if !me.is_connected() => me.connect(self.server),
            News::Time | News::Connected => {
                let sent =
                    me.send(b"GET / HTTP/1.1\r\nHost: server\r\nUser-Agent: a regular one\r\n\r\n");
                sent.expect("nothing goes wrong in this world");
                let pause = Duration::from_secs(30)..=Duration::from_secs(75);
                let pause = me.rng().time(&pause);
                me.after(pause);
            }
            News::Ready(ready) if ready.is_readable() => {
                let received = me.recv(&mut [0; 256]).expect("it is readable");
                assert!(
                    received > 0,
                    "the server left, though nobody was silent for so long"
                );
            }
            _ => {}
        }
    }
}

struct Server {
    ev: EventLoop<SimListener>,
    conns: Table<SimStream>,
    served: u64,
}

impl Server {
    fn new(process: &Process, address: SocketAddr) -> Self {
        let builder = process.builder().listener(process.listen(address));
        Self {
            ev: builder.connections(2_000).build().expect("a loop"),
            conns: Table::with_capacity(2_000),
            served: 0,
        }
    }
}

impl App for Server {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn take(&mut self, step: Step<SimStream>) {
        match step {
            Step::Accepted(new) => {
                let token = self.conns.insert(new.stream).expect("there is room");
                let stream = self.conns.get(token).expect("just inserted");
                let added = self.ev.add(token, stream, Interest::READ, Mode::Edge);
                added.expect("a fresh descriptor");
                self.ev.arm(token, Side::Read, IDLE);
            }
            Step::Ready(token, _) => {
                let stream = self.conns.get(token).expect("it lives");
                let received = stream.recv(&mut [0; 256]).expect("it is readable");
                assert!(received > 0, "nobody leaves");
                self.ev.rearm(token, Interest::READ);
                let mut answer =
                    *b"HTTP/1.1 204 No Content\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n";
                answer[31..60].copy_from_slice(self.ev.clock().http_date().as_bytes());
                stream.send(&answer).expect("there is room");
                self.ev.arm(token, Side::Read, IDLE);
                self.served += 1;
            }
            _ => unreachable!("{step:?}"),
        }
    }
}

fn main() {
    let world = World::new(1);
    let address = SocketAddr::from(([10, 0, 0, 1], 80));
    let mut workers = Workers::new(&world, 1, move |process, _| Server::new(process, address));
    for _ in 0..CLIENTS {
        world.add_client(Regular { server: address });
    }
    let begun = Instant::now();
    workers.run_for(DAY);
    let took = begun.elapsed();

    let served = workers.app(0).expect("nobody kills it").served;
    println!(
        "{CLIENTS} clients, {served} requests, {:.2} s: {:.2} days a second, {:.0} ns a request",
        took.as_secs_f64(),
        1.0 / took.as_secs_f64(),
        took.as_nanos() as f64 / served as f64,
    );
    println!("trace {:016x}", world.trace_hash());
}
