//! A worker that is late, because the requests of one of its clients block it.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    time::Duration,
};

use evcore::{
    EventLoop, Interest, Mode, Step, Token, TokenMap,
    balancer::{Policy, WorkerId},
};
use evcore_sim::{
    App, Fault, Faults, Probability, Process, Script, ScriptHandle, Sim, SimConfig, SimGroup,
    SimListener, SimStream, Workers, check,
};

const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 80);

const WORKERS: usize = 4;

const CLIENTS: u32 = 400;

/// The interval from one client to the next.
const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(4);

/// Requests of one byte each. The server sends them back.
const QUICK: u8 = b'q';
const BLOCK: u8 = b'b';

/// Time for which [`BLOCK`] blocks its worker.
const BLOCKED: Duration = Duration::from_millis(50);

/// Number of blocking requests. Together they block for longer than the clients take to come.
const BLOCKS: usize = 25;

/// Time within which the last clients get their answers.
const END: Duration = Duration::from_secs(5);

struct Echo {
    sim: Sim,
    ev: EventLoop<SimListener>,
    streams: TokenMap<SimStream>,
    accepted: u32,
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

    /// Answers all requests that have arrived. Returns the time that this takes.
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

/// Runs clients that come one after another, and a client that blocks its worker again and again.
fn run(sim: &Sim) -> (Workers<Echo>, Vec<ScriptHandle>) {
    let policy = Policy::least_loaded();
    let group = sim.group(policy, WORKERS);
    let app_sim = sim.clone();
    let start = move |process: &Process, index| Echo::new(&app_sim, process, index, &group, policy);
    let mut workers = Workers::new(sim, WORKERS, start);
    let mut rng = sim.rng();
    let first = Script::new().pause(rng.duration(&(Duration::ZERO..=BLOCKED)));
    let blocking = (0..BLOCKS).fold(first, |script, _| script.send([BLOCK]).recv(1));
    let _ = sim.client(ADDRESS, blocking.pause(END));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        workers.run_for(rng.duration(&INTERVAL));
        let script = Script::new().send([QUICK]).recv(1).pause(END * 2);
        clients.push(sim.client(ADDRESS, script));
    }
    workers.run_for(END);
    (workers, clients)
}

/// Without exclusive wake-ups, the late worker may hold the accept lock in its first two long turns
/// (iterations of its event loop). In that case it gets more clients. The other workers share the
/// rest evenly.
#[test]
fn a_late_worker_gets_few_of_the_clients() {
    check("a_late_worker_gets_few_of_the_clients", 0..200, |sim| {
        let (workers, clients) = run(sim);
        assert!(clients.iter().all(|client| client.received() == [QUICK]));
        // Even seeds simulate epoll, which has exclusive wake-ups.
        let limit = if sim.seed() % 2 == 0 { 8 } else { 40 };
        let workers = workers.apps().map(|(_, worker)| worker);
        let (late, others): (Vec<_>, Vec<_>) = workers.partition(|worker| worker.blocks > 0);
        let [late] = late[..] else {
            panic!("{} workers were blocked", late.len());
        };
        assert!(late.accepted < limit, "it got {}", late.accepted);
        let even = (CLIENTS - late.accepted) / 3;
        for worker in others {
            assert!(
                worker.accepted.abs_diff(even) <= even / 10,
                "{}",
                worker.accepted
            );
        }
    });
}

/// Workers are killed or paused while one of them is late. Every client is served, unless such a
/// fault ends its connection.
#[test]
fn no_client_is_lost_because_a_worker_is_late() {
    let mut fault_counts = [0; 2];
    check(
        "no_client_is_lost_because_a_worker_is_late",
        0..200,
        |sim| {
            let often = Probability::one_in(400);
            let faults = Faults::none()
                .with(Fault::Kill, often)
                .with(Fault::Pause, often);
            sim.set_faults(faults);
            let (_, clients) = run(sim);
            for client in clients {
                let is_served = client.received() == [QUICK] || client.is_lost_to_fault();
                assert!(is_served, "a client is lost: {:?}", client.outcome());
            }
            fault_counts[0] += sim.fault_count(Fault::Kill);
            fault_counts[1] += sim.fault_count(Fault::Pause);
        },
    );
    assert!(
        fault_counts.iter().all(|count| *count > 100),
        "{fault_counts:?}"
    );
}
