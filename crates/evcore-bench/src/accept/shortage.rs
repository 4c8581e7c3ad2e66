//! Out of descriptors: what that costs while it lasts, and how soon service resumes.

use std::time::{Duration, Instant};

use super::asked::{Asked, leave_out};
use super::crowd::{Crowd, Outcome};
use super::launch::Launch;
use super::rounds::Rounds;
use super::server::Server;
use super::{pace, process};

const WORKERS: usize = 2;

/// The most descriptors of each process, and how many clients come.
const DESCRIPTORS: u64 = 64;
const CLIENTS: usize = 500;

/// When no news has come for so long, all that can be served are.
const QUIET: Duration = Duration::from_millis(600);

/// How long it is watched what the server uses, and how often a client leaves.
const WATCHED: Duration = Duration::from_secs(2);
const CLOSES: usize = 10;

/// How long the next may take to be served.
const PATIENCE: Duration = Duration::from_secs(5);

/// Measures all that can be there, and prints the records.
pub(crate) fn measure(words: &[&str]) {
    let asked = Asked::of(words);
    let launch = Launch {
        descriptors: DESCRIPTORS,
        ..asked.launch
    };
    let mut found = Rounds::default();
    for contestant in asked.with_master() {
        eprintln!("shortage: {}", contestant.name);
        match contestant.start(launch, WORKERS) {
            Ok(server) => starve(&server, &contestant.name, &mut found),
            Err(why) => leave_out(&contestant, &why),
        }
    }
    found.print();
}

fn starve(server: &Server, name: &str, found: &mut Rounds) {
    let mut crowd = Crowd::new();
    for _ in 0..CLIENTS {
        crowd.join(server.address, "/worker");
    }
    let mut hall = Hall::default();
    hall.take_in_until_quiet(&mut crowd);
    let mut add = |figure| found.add("shortage", WORKERS, name, [figure]);
    add(("cpu_percent", cpu_percent(server)));
    hall.take_in_until_quiet(&mut crowd);
    add(("served", count(hall.served.len())));
    add(("shed", count(hall.shed)));
    for _ in 0..CLOSES {
        let Some(leaving) = hall.served.pop() else {
            break;
        };
        crowd.leave(leaving);
        let resumed = resumed(&mut crowd, &mut hall);
        add(("resumed_us", resumed.as_secs_f64() * 1e6));
    }
}

/// How long it takes until one who waits is served.
fn resumed(crowd: &mut Crowd, hall: &mut Hall) -> Duration {
    let began = Instant::now();
    let before = hall.served.len();
    while hall.served.len() == before && began.elapsed() < PATIENCE {
        hall.take_in(&crowd.wait(PATIENCE));
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

/// Those who have been heard of.
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

    fn take_in_until_quiet(&mut self, crowd: &mut Crowd) {
        let mut served = Instant::now();
        while served.elapsed() < QUIET {
            let before = self.served.len();
            self.take_in(&crowd.wait(QUIET));
            // One who is turned away now and then is no sign that more are served.
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
