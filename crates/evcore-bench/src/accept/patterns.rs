//! How clients come and go.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::client::Client;
use super::fairness::Shares;
use super::load::Load;
use super::server::Server;
use crate::rng::Random;
use crate::run::{Run, each};

/// How many connections there are in the end.
const LONG_LIVED: usize = 640;
const BURST: usize = 64;
/// Of how many workers all clients leave halfway.
const CLOSED: usize = 2;

/// Clients with uneven lifetimes: how many come, and from when on and how often the shares count.
const ARRIVALS: usize = 1_000;
const FIRST_SAMPLE: usize = 300;
const SAMPLE_EVERY: usize = 50;

/// The shortest and the longest of these lifetimes in arrivals, and how fast longer ones become
/// rare: some 200 connections at a time.
const SHORTEST: f64 = 48.0;
const LONGEST: f64 = 1_000.0;
const SHAPE: f64 = 1.3;

/// Longer than any client waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// A pattern.
pub(super) struct Pattern {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) text: &'static str,
    /// With how many workers it can be done at least.
    pub(super) least_workers: usize,
    pub(super) counts_wakes: bool,
    pub(super) run: fn(&Server, &Run) -> Sharing,
}

/// How the workers shared the connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// Jain's index.
    pub(super) jain: f64,
    /// Wakes of all workers, each connection.
    pub(super) wakes: f64,
}

/// Those that run with one worker first.
pub(super) const PATTERNS: &[Pattern] = &[
    Pattern {
        name: "idle",
        title: "idle before each step",
        text: "Clients come one after the other and stay. The server is idle before each \
               connection and each request, so each needs exactly two wakes.",
        least_workers: 1,
        counts_wakes: true,
        run: idle,
    },
    Pattern {
        name: "single",
        title: "one at a time",
        text: "Clients come one after the other, send a request at once, and stay.",
        least_workers: 1,
        counts_wakes: true,
        run: single,
    },
    Pattern {
        name: "burst",
        title: "bursts of 64",
        text: "64 clients come at the same time, and stay. The server is idle between two bursts.",
        least_workers: 1,
        counts_wakes: true,
        run: burst,
    },
    Pattern {
        name: "uneven",
        title: "uneven lifetimes",
        text: "Clients come one after the other. Most leave soon, a few stay long: a Pareto \
               distribution, counted in arrivals. The median of the index over time.",
        least_workers: 1,
        counts_wakes: true,
        run: uneven,
    },
    Pattern {
        name: "halfway",
        title: "halfway closed",
        text: "Clients come one after the other. Halfway all clients of the two workers with the \
               most leave.",
        least_workers: CLOSED + 1,
        counts_wakes: false,
        run: halfway,
    },
];

/// Counts the wakes of the workers around the work of so many connections.
fn shared(server: &Server, connections: usize, work: impl FnOnce() -> f64) -> Sharing {
    server.wait_until_idle();
    let before = server.sleeps();
    let jain = work();
    server.wait_until_idle();
    let wakes = each(server.sleeps() - before, connections);
    Sharing { jain, wakes }
}

fn connected(server: &Server) -> Client {
    Client::connect(server.address).expect("the kernel takes it")
}

fn idle(server: &Server, run: &Run) -> Sharing {
    let count = run.scaled(LONG_LIVED);
    shared(server, count, || {
        let (mut clients, mut shares) = (Vec::new(), Shares::default());
        for _ in 0..count {
            let mut client = connected(server);
            server.wait_until_idle();
            shares.add(client.worker().expect("an answer").worker);
            server.wait_until_idle();
            clients.push(client);
        }
        shares.jain(server.workers)
    })
}

fn single(server: &Server, run: &Run) -> Sharing {
    let count = run.scaled(LONG_LIVED);
    shared(server, count, || {
        shares(&come(server, count)).jain(server.workers)
    })
}

fn burst(server: &Server, run: &Run) -> Sharing {
    let bursts = run.scaled(LONG_LIVED / BURST);
    shared(server, bursts * BURST, || {
        let (mut load, mut shares) = (Load::new(), Shares::default());
        for _ in 0..bursts {
            for _ in 0..BURST {
                load.join(server.address, "/worker");
            }
            for outcome in load.wait_for_all(PATIENCE) {
                shares.add(outcome.answer.expect("no client is reset").worker);
            }
            server.wait_until_idle();
        }
        shares.jain(server.workers)
    })
}

fn halfway(server: &Server, run: &Run) -> Sharing {
    let half = run.scaled(LONG_LIVED / 2);
    shared(server, 2 * half, || {
        let mut clients = come(server, half);
        let closed = shares(&clients).greatest(CLOSED);
        clients.retain(|(_, worker)| !closed.contains(worker));
        server.wait_until_idle();
        clients.extend(come(server, half));
        shares(&clients).jain(server.workers)
    })
}

fn uneven(server: &Server, run: &Run) -> Sharing {
    let count = run.scaled(ARRIVALS);
    shared(server, count, || {
        let (mut random, mut clients) = (Random::new(), Vec::new());
        // The times at which clients leave.
        let (mut ends, mut shares) = (BinaryHeap::new(), Shares::default());
        let mut samples = Vec::new();
        for arrival in 0..count {
            while let Some(&Reverse((end, leaving))) = ends.peek() {
                if end > arrival {
                    break;
                }
                ends.pop();
                let (_, worker) = Option::take(&mut clients[leaving]).expect("it leaves once");
                shares.remove(worker);
            }
            let mut client = connected(server);
            let worker = client.worker().expect("an answer").worker;
            ends.push(Reverse((arrival + lifetime(&mut random), arrival)));
            clients.push(Some((client, worker)));
            shares.add(worker);
            if arrival >= run.scaled(FIRST_SAMPLE) && arrival % SAMPLE_EVERY == SAMPLE_EVERY - 1 {
                samples.push(shares.jain(server.workers));
            }
        }
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
    })
}

/// How many arrivals a client stays.
fn lifetime(random: &mut Random) -> usize {
    let life = SHORTEST / random.unit().powf(1.0 / SHAPE);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between the shortest and the longest"
    )]
    let arrivals = life.min(LONGEST) as usize;
    arrivals
}

/// Clients that come one after the other, with their workers.
fn come(server: &Server, count: usize) -> Vec<(Client, u32)> {
    let one = |_| {
        let mut client = connected(server);
        let worker = client.worker().expect("an answer").worker;
        (client, worker)
    };
    (0..count).map(one).collect()
}

fn shares(clients: &[(Client, u32)]) -> Shares {
    clients.iter().map(|(_, worker)| *worker).collect()
}
