//! A worker with a client whose requests block it.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use evcore::{
    EventLoop, Interest, Mode, Step, Token, TokenMap,
    balancer::{Policy, WorkerId},
};
use evcore_sim::{
    App, Fault, Faults, Process, Script, ScriptHandle, Sim, SimConfig, SimGroup, SimListener,
    SimStream, Workers, check,
};

const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 80);

const WORKERS: usize = 4;

/// Number of clients that come one after another.
const CLIENTS: u32 = 400;

/// The interval between two of them.
const INTERVAL: Duration = Duration::from_micros(2_500);

/// Requests of one byte each. The server sends them back.
const QUICK: u8 = b'q';
const BLOCK: u8 = b'b';

/// Time for which [`BLOCK`] blocks its worker.
const BLOCKED: Duration = Duration::from_millis(50);

/// Number of blocking requests. Together they last longer than all clients need to come.
const BLOCKS: usize = 25;

/// Time after which all clients have come and have their answers.
const END: Duration = Duration::from_secs(5);

/// A worker.
struct Echo {
    sim: Sim,
    ev: EventLoop<SimListener>,
    streams: TokenMap<SimStream>,
    accepted: u32,
    /// Number of blocking requests that it got.
    blocks: usize,
}

impl Echo {
    fn new(sim: &Sim, process: &Process, index: usize, group: &SimGroup, policy: Policy) -> Self {
        let member = group.join(process, WorkerId::from_slot(index));
        let builder = process.builder().listener(process.listen(ADDRESS));
        let builder = builder.policy(policy).group(member);
        Self {
            sim: sim.clone(),
            ev: builder.build().expect("a valid loop"),
            streams: TokenMap::new(),
            accepted: 0,
            blocks: 0,
        }
    }

    /// Answers what has come, and returns how long that takes.
    fn serve(&mut self, token: Token) -> Duration {
        let (mut byte, mut takes) = ([0], Duration::ZERO);
        while let Some(stream) = self.streams.get(token) {
            match stream.recv(&mut byte) {
                Ok(1..) => {
                    if byte == [BLOCK] {
                        self.blocks += 1;
                        takes += BLOCKED;
                    }
                    stream.send(&byte).expect("there is room for a byte");
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                _ => _ = self.streams.close(&mut self.ev, token),
            }
        }
        takes
    }
}

impl App for Echo {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        let takes = match step {
            Step::Accepted(new) => {
                self.accepted += 1;
                let (interest, mode) = (Interest::READ, Mode::Level);
                let added = self.streams.add(&mut self.ev, new.stream, interest, mode);
                added.expect("the loop has room");
                Duration::ZERO
            }
            Step::Ready(token, _) => self.serve(token),
            _ => Duration::ZERO,
        };
        self.sim.set_config(SimConfig {
            step_time: takes..=takes,
            ..SimConfig::default()
        });
    }
}

/// Runs four workers, one of which a client blocks again and again, while other clients come. Returns
/// the workers, and the clients.
fn run(sim: &Sim, policy: Policy) -> (Workers<Echo>, Vec<ScriptHandle>) {
    let group = sim.group(policy, WORKERS);
    let of_app = sim.clone();
    let start = move |process: &Process, index| Echo::new(&of_app, process, index, &group, policy);
    let mut workers = Workers::new(sim, WORKERS, start);
    let blocking = (0..BLOCKS).fold(Script::new(), |script, _| script.send([BLOCK]).recv(1));
    let _blocks_one = sim.client(ADDRESS, blocking.pause(END));
    let clients = (1..=CLIENTS).map(|n| {
        let script = Script::new().send([QUICK]).recv(1).pause(END * 2);
        workers.run_for(INTERVAL);
        let _ = n;
        sim.client(ADDRESS, script)
    });
    let clients = clients.collect();
    workers.run_for(END);
    (workers, clients)
}

/// Of 400 clients, fewer than 8 come to the worker that is late. The others share the rest evenly.
#[test]
fn a_late_worker_gets_few_of_the_clients() {
    check("a_late_worker_gets_few_of_the_clients", 0..100, |sim| {
        let (workers, clients) = run(sim, Policy::least_loaded());
        assert!(clients.iter().all(|client| client.received() == [QUICK]));
        let (late, others): (Vec<_>, Vec<_>) = workers
            .apps()
            .map(|(_, worker)| worker)
            .partition(|worker| worker.blocks > 0);
        let late: Vec<_> = late.iter().map(|worker| worker.accepted).collect();
        let others: Vec<_> = others.iter().map(|worker| worker.accepted).collect();
        println!("{late:?} {others:?}");
    });
}
