//! Patterns in which clients come and go.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::Client;
use crate::load::Load;
use crate::pace;
use crate::run::{Run, each};
use crate::server::Server;
use crate::spread::Spread;
use crate::whole::run_load;

/// Number of connections that a pattern with long-lived clients makes, and number of connections in
/// a burst.
const LONG_LIVED: usize = 640;
const BURST: usize = 64;
/// Number of workers whose clients all leave halfway.
const CLOSED: usize = 2;

/// For clients with uneven lifetimes: how many come, how many come before the workers' shares are
/// first sampled, and how many come from one sample to the next.
const ARRIVALS: usize = 1_000;
const FIRST_SAMPLE: usize = 300;
const SAMPLE_EVERY: usize = 50;

/// The shortest of these lifetimes, in arrivals, and the exponent by which longer ones become rare
/// (a Pareto distribution). Some 200 connections are open at a time.
const SHORTEST: f64 = 48.0;
const SHAPE: f64 = 1.3;

/// Rate at which clients arrive while a worker is blocked. They do not wait for earlier clients,
/// because otherwise a slower server would have fewer waiting clients.
const CLIENTS_A_SECOND: f64 = 250.0;
/// Maximum number of clients at a time. Fewer clients than this arrive while a worker is blocked.
const MOST_CLIENTS: u32 = 1024;

pub(super) struct Pattern {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The least number of workers that the pattern needs. Wakes are compared only for patterns
    /// that can run with a single worker.
    pub(super) least_workers: usize,
    /// Runs the pattern. Returns Jain's index and the number of connections.
    run: fn(&Server, &Run) -> (f64, usize),
}

/// All patterns; those that need one worker come first.
#[rustfmt::skip] // One line for each short item.
pub(super) const PATTERNS: &[Pattern] = &[
    Pattern { name: "idle", title: "idle before each step", least_workers: 1, run: idle },
    Pattern { name: "single", title: "one at a time", least_workers: 1, run: single },
    Pattern { name: "burst", title: "bursts of 64", least_workers: 1, run: burst },
    Pattern { name: "uneven", title: "uneven lifetimes", least_workers: 1, run: uneven },
    Pattern { name: "halfway", title: "halfway closed", least_workers: CLOSED + 1, run: halfway },
];

impl Pattern {
    /// Returns Jain's index, and the wakes of all workers for each connection.
    pub(super) fn measure(&self, server: &Server, run: &Run) -> [f64; 2] {
        server.wait_until_idle();
        let before = server.sleeps();
        let (jain, connections) = (self.run)(server, run);
        server.wait_until_idle();
        [jain, each(server.sleeps() - before, connections)]
    }
}

/// A client that stays until it is dropped, and the process id of its worker.
type Connection = (Client, u32);

fn connect(server: &Server) -> Client {
    Client::connect(server.address).expect("the kernel takes it")
}

fn asking(mut client: Client) -> Client {
    client.ask("/worker").expect("there is room for a request");
    client
}

fn answered(mut client: Client) -> Connection {
    let worker = client.answer().expect("no client is reset");
    (client, worker)
}

/// Connects clients one after the other, with a pause before and after the request of each.
fn come(server: &Server, count: usize, pause: fn(&Server)) -> Vec<Connection> {
    let one = |_| {
        let client = connect(server);
        pause(server);
        let connection = answered(asking(client));
        pause(server);
        connection
    };
    (0..count).map(one).collect()
}

fn idle(server: &Server, run: &Run) -> (f64, usize) {
    let all = come(server, run.scaled(LONG_LIVED), Server::wait_until_idle);
    (share_index(&shares(&all), server.workers), all.len())
}

fn single(server: &Server, run: &Run) -> (f64, usize) {
    let all = come(server, run.scaled(LONG_LIVED), |_| ());
    (share_index(&shares(&all), server.workers), all.len())
}

fn burst(server: &Server, run: &Run) -> (f64, usize) {
    let mut all = Vec::new();
    for _ in 0..run.scaled(LONG_LIVED / BURST) {
        let clients: Vec<Client> = (0..BURST).map(|_| asking(connect(server))).collect();
        all.extend(clients.into_iter().map(answered));
        server.wait_until_idle();
    }
    (share_index(&shares(&all), server.workers), all.len())
}

/// Connects `clients` clients at once, which stay until all are answered. Returns Jain's index.
pub(super) fn at_once(server: &Server, clients: usize) -> f64 {
    let all: Vec<Client> = (0..clients).map(|_| asking(connect(server))).collect();
    let all: Vec<Connection> = all.into_iter().map(answered).collect();
    share_index(&shares(&all), server.workers)
}

fn halfway(server: &Server, run: &Run) -> (f64, usize) {
    let half = run.scaled(LONG_LIVED / 2);
    let mut all = come(server, half, |_| ());
    let mut closed: Vec<_> = shares(&all).into_iter().collect();
    closed.sort_unstable_by_key(|(pid, n)| (Reverse(*n), Reverse(*pid)));
    closed.truncate(CLOSED);
    all.retain(|(_, worker)| closed.iter().all(|(pid, _)| pid != worker));
    server.wait_until_idle();
    all.extend(come(server, half, |_| ()));
    (share_index(&shares(&all), server.workers), 2 * half)
}

fn uneven(server: &Server, run: &Run) -> (f64, usize) {
    let mut samples = Vec::new();
    let count = run.scaled(ARRIVALS);
    uneven_lifetimes(server, count, |arrival, all| {
        if arrival >= run.scaled(FIRST_SAMPLE) && arrival % SAMPLE_EVERY == SAMPLE_EVERY - 1 {
            samples.push(share_index(
                &shares(all.iter().map(|(_, count)| count)),
                server.workers,
            ));
        }
    });
    let median = Spread::of(&samples).map_or(f64::NAN, |spread| spread.median);
    (median, count)
}

/// Lets clients with uneven lifetimes come and go. Calls `look` with the present clients after each
/// arrival, and returns the clients that are left. Each has the number of the arrival at which it
/// leaves.
fn uneven_lifetimes(
    server: &Server,
    count: usize,
    mut look: impl FnMut(usize, &[(f64, Connection)]),
) -> Vec<(f64, Connection)> {
    // All servers get the same lifetimes.
    let mut random = fastrand::Rng::with_seed(1);
    let mut all: Vec<(f64, Connection)> = Vec::new();
    for arrival in 0..count {
        let now = arrival as f64;
        all.retain(|(end, _)| *end > now);
        // The divisor is above 0 and at most 1.
        let lifetime = SHORTEST / (1.0 - random.f64()).powf(1.0 / SHAPE);
        all.push((now + lifetime, answered(asking(connect(server)))));
        look(arrival, &all);
    }
    all
}

pub(super) fn left_of_uneven(server: &Server, run: &Run) -> Vec<Client> {
    let left = uneven_lifetimes(server, run.scaled(ARRIVALS), |_, _| ());
    left.into_iter().map(|(_, (client, _))| client).collect()
}

fn shares<'a>(all: impl IntoIterator<Item = &'a Connection>) -> BTreeMap<u32, u64> {
    let mut shares = BTreeMap::new();
    for (_, worker) in all {
        *shares.entry(*worker).or_default() += 1;
    }
    shares
}

fn share_index(shares: &BTreeMap<u32, u64>, workers: usize) -> f64 {
    let shares: Vec<u64> = shares.values().copied().collect();
    jain(&shares, workers)
}

/// Jain's index of the workers' connections: 1 if all have the same number, 1 / n if one of n
/// workers has all, and 1 without connections.
///
/// R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
pub(super) fn jain(shares: &[u64], workers: usize) -> f64 {
    let sum = shares.iter().sum::<u64>();
    let squares = shares.iter().map(|n| n * n).sum::<u64>();
    match sum {
        0 => 1.0,
        _ => each(sum * sum, 1) / (each(squares, 1) * each(workers as u64, 1)),
    }
}

/// The longest wait, in milliseconds, of the clients that come while a request blocks a worker for
/// the time `blocked`.
///
/// # Panics
///
/// If a client is reset, or waits for too long.
pub(super) fn longest_wait(server: &Server, blocked: Duration) -> f64 {
    server.wait_until_idle();
    // The worker that accepts this client is also first in line for the next client. So the test
    // blocks the worker for which later clients would wait.
    let mut blocker = connect(server);
    let path = format!("/block/{}", blocked.as_millis());
    blocker.ask(&path).expect("there is room for a request");
    pace::pause(Duration::from_millis(4));
    let load = Load::new(server.address.into(), "/worker", MOST_CLIENTS);
    let mut load = load.expect("a descriptor is left");
    load.closes = true;
    load.timeout = pace::PATIENCE;
    run_load(&mut load, CLIENTS_A_SECOND, blocked);
    blocker.answer().expect("the worker goes on");
    each(load.latencies.max(), 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn the_index_is_one_for_equal_loads_and_less_for_others() {
        assert!((jain(&[2, 2], 2) - 1.0).abs() < 1e-9);
        assert!((jain(&[2, 2], 4) - 0.5).abs() < 1e-9);
        assert!((jain(&[3], 8) - 0.125).abs() < 1e-9);
        assert!((jain(&[], 4) - 1.0).abs() < 1e-9);
    }
}
