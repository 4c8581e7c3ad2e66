//! Out of descriptors: what that costs while it lasts, and how soon service resumes.

use std::time::{Duration, Instant};

use super::launch::Launch;
use super::load::{Load, Outcome};
use super::rounds::Rounds;
use super::scenario::{Scenario, record_absence};
use super::server::Server;
use super::{pace, process};

const WORKERS: usize = 2;

/// The most descriptors of each process, and how many clients come.
const DESCRIPTORS: u64 = 64;
const CLIENTS: usize = 500;

/// After this long without an event, all clients that can be served are.
const QUIET: Duration = Duration::from_millis(600);

/// How long it is watched what the server uses, and how often a client leaves.
const WATCHED: Duration = Duration::from_secs(2);
const CLOSES: usize = 10;

/// How long the next may take to be served.
const PATIENCE: Duration = Duration::from_secs(5);

/// Measures all that can be there, and prints the records.
pub(crate) fn measure(words: &[&str]) {
    let scenario = Scenario::of(words);
    let launch = Launch {
        descriptors: DESCRIPTORS,
        ..scenario.launch
    };
    let mut found = Rounds::default();
    for peer in scenario.with_master() {
        eprintln!("shortage: {}", peer.name);
        match peer.start(launch, WORKERS) {
            Ok(server) => starve(&server, &peer.name, &mut found),
            Err(why) => record_absence(&peer, &why),
        }
    }
    found.print();
}

fn starve(server: &Server, name: &str, found: &mut Rounds) {
    let mut load = Load::new();
    for _ in 0..CLIENTS {
        load.join(server.address, "/worker");
    }
    let mut hall = Hall::default();
    hall.take_in_until_quiet(&mut load);
    let mut add = |figure| found.add("shortage", WORKERS, name, [figure]);
    add(("cpu_percent", cpu_percent(server)));
    hall.take_in_until_quiet(&mut load);
    add(("served", count(hall.served.len())));
    add(("shed", count(hall.shed)));
    for _ in 0..CLOSES {
        let Some(leaving) = hall.served.pop() else {
            break;
        };
        load.leave(leaving);
        let resumed = resumed(&mut load, &mut hall);
        add(("resumed_us", resumed.as_secs_f64() * 1e6));
    }
}

/// The time until a waiting client is served.
fn resumed(load: &mut Load, hall: &mut Hall) -> Duration {
    let began = Instant::now();
    let before = hall.served.len();
    while hall.served.len() == before && began.elapsed() < PATIENCE {
        hall.take_in(&load.wait(PATIENCE));
    }
    began.elapsed()
}

/// What all its processes use of a CPU.
fn cpu_percent(server: &Server) -> f64 {
    let pids = server.all_pids();
    let used = || -> u64 { pids.iter().copied().map(process::cpu_ns).sum() };
    let (before, began) = (used(), Instant::now());
    pace::pause(WATCHED);
    let used = Duration::from_nanos(used() - before);
    100.0 * used.as_secs_f64() / began.elapsed().as_secs_f64()
}

/// The clients that had an event.
#[derive(Debug, Default)]
struct Hall {
    served: Vec<usize>,
    shed: usize,
}

impl Hall {
    fn take_in(&mut self, news: &[Outcome]) {
        for outcome in news {
            match outcome.answer {
                Some(_) => self.served.push(outcome.client),
                None => self.shed += 1,
            }
        }
    }

    fn take_in_until_quiet(&mut self, load: &mut Load) {
        let mut served = Instant::now();
        while served.elapsed() < QUIET {
            let before = self.served.len();
            self.take_in(&load.wait(QUIET));
            // A client that is reset now and then does not mean that more are served.
            if self.served.len() > before {
                served = Instant::now();
            }
        }
    }
}

fn count(n: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let count = n as f64;
    count
}
