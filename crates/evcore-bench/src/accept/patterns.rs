//! How clients come and go.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::pace;
use crate::report::Spread;
use crate::rng::Random;
use crate::run::{Run, each};
use crate::server::Server;

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

/// While a worker is blocked, a new client arrives this often, whatever happens to those before it: a
/// load that waited for responses would have fewer waiting clients, the slower the server is.
const EVERY: Duration = Duration::from_millis(4);

/// A pattern.
pub(super) struct Pattern {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// With how many workers it can be done at least. The wakes of those that one worker can do count.
    pub(super) least_workers: usize,
    /// Returns Jain's index, and how many connections there were.
    run: fn(&Server, &Run) -> (f64, usize),
}

/// Those that run with one worker first.
#[rustfmt::skip] // One line for what is short.
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

/// A client that stays until it is dropped, and its worker.
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

/// Clients that come one after the other.
fn come(server: &Server, count: usize) -> Vec<Connection> {
    let one = |_| answered(asking(connect(server)));
    (0..count).map(one).collect()
}

fn idle(server: &Server, run: &Run) -> (f64, usize) {
    let one = |_| {
        let client = connect(server);
        server.wait_until_idle();
        let connection = answered(asking(client));
        server.wait_until_idle();
        connection
    };
    let all: Vec<_> = (0..run.scaled(LONG_LIVED)).map(one).collect();
    (jain(&all, server), all.len())
}

fn single(server: &Server, run: &Run) -> (f64, usize) {
    let all = come(server, run.scaled(LONG_LIVED));
    (jain(&all, server), all.len())
}

fn burst(server: &Server, run: &Run) -> (f64, usize) {
    let mut all = Vec::new();
    for _ in 0..run.scaled(LONG_LIVED / BURST) {
        let clients: Vec<Client> = (0..BURST).map(|_| asking(connect(server))).collect();
        all.extend(clients.into_iter().map(answered));
        server.wait_until_idle();
    }
    (jain(&all, server), all.len())
}

fn halfway(server: &Server, run: &Run) -> (f64, usize) {
    let half = run.scaled(LONG_LIVED / 2);
    let mut all = come(server, half);
    let mut closed: Vec<_> = shares(&all).into_iter().collect();
    closed.sort_unstable_by_key(|(pid, n)| (Reverse(*n), Reverse(*pid)));
    closed.truncate(CLOSED);
    all.retain(|(_, worker)| closed.iter().all(|(pid, _)| pid != worker));
    server.wait_until_idle();
    all.extend(come(server, half));
    (jain(&all, server), 2 * half)
}

fn uneven(server: &Server, run: &Run) -> (f64, usize) {
    let (mut random, mut samples) = (Random::new(), Vec::new());
    // With the arrival at which each leaves.
    let (mut all, mut ends) = (Vec::new(), Vec::new());
    let count = run.scaled(ARRIVALS);
    for arrival in 0..count {
        let mut stays = ends.iter().map(|end| *end > arrival);
        all.retain(|_| stays.next() == Some(true));
        ends.retain(|end| *end > arrival);
        ends.push(arrival + lifetime(&mut random));
        all.extend(come(server, 1));
        if arrival >= run.scaled(FIRST_SAMPLE) && arrival % SAMPLE_EVERY == SAMPLE_EVERY - 1 {
            samples.push(jain(&all, server));
        }
    }
    let median = Spread::of(&samples).map_or(f64::NAN, |it| it.median);
    (median, count)
}

/// How many arrivals a client stays.
fn lifetime(random: &mut Random) -> usize {
    let life = SHORTEST / random.unit().powf(1.0 / SHAPE);
    #[expect(clippy::cast_possible_truncation, reason = "at most the longest")]
    let arrivals = life.min(LONGEST) as usize;
    arrivals
}

/// How many connections each worker has, by its process id.
fn shares(all: &[Connection]) -> BTreeMap<u32, u64> {
    let mut shares = BTreeMap::new();
    for (_, worker) in all {
        *shares.entry(*worker).or_default() += 1;
    }
    shares
}

/// Jain's index of the workers, of which some may have no connection: 1 when all have the same number,
/// 1 / n when one of n has all. 1 for nothing at all.
///
/// R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
fn jain(all: &[Connection], server: &Server) -> f64 {
    index(shares(all).into_values(), server.workers)
}

fn index(shares: impl Iterator<Item = u64>, workers: usize) -> f64 {
    let add = |(sum, squares), n| (sum + n, squares + n * n);
    match shares.fold((0, 0), add) {
        (_, 0) => 1.0,
        (sum, squares) => each(sum * sum, 1) / (each(squares, 1) * each(workers as u64, 1)),
    }
}

/// The longest wait of the clients that came while a request of `path` blocked a worker.
///
/// # Panics
///
/// If a client is reset, or waits for too long.
pub(super) fn longest_wait(server: &Server, path: &str) -> Duration {
    server.wait_until_idle();
    let wait = |path: &str| {
        let (began, mut client) = (Instant::now(), connect(server));
        client.ask(path).expect("there is room for a request");
        client.answer().expect("no client waits in vain");
        began.elapsed()
    };
    thread::scope(|scope| {
        // The worker that accepts this client would be first to accept the next.
        let blocker = scope.spawn(|| wait(path));
        let mut clients = Vec::new();
        while !blocker.is_finished() {
            pace::pause(EVERY);
            clients.push(scope.spawn(|| wait("/worker")));
        }
        let clients = clients.into_iter();
        let waits = clients.map(|client| client.join().expect("it was answered"));
        waits.max().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::index;

    #[test]
    fn the_index_is_one_if_all_have_the_same_and_a_share_if_one_has_all() {
        let index = |shares: &[u64], workers| index(shares.iter().copied(), workers);
        assert!((index(&[2, 2], 2) - 1.0).abs() < 1e-9);
        assert!((index(&[2, 2], 4) - 0.5).abs() < 1e-9);
        assert!((index(&[3], 8) - 0.125).abs() < 1e-9);
        assert!((index(&[], 4) - 1.0).abs() < 1e-9);
    }
}
