//! The patterns, in rounds in which all contestants take turns, each with a fresh server.

use std::time::{Duration, Instant};

use super::asked::{Asked, leave_out};
use super::roster::Contestant;
use super::rounds::Rounds;
use super::server::Server;
use super::{blocked, patterns};

/// With how many workers.
const WORKERS: [usize; 3] = [2, 4, 8];

/// How many rounds there are at most, in as long as that; one at least. The machine may be busy.
const ROUNDS: u32 = 3;
const MOST: Duration = Duration::from_secs(430);

/// How many there are in a thorough run, in as long as it takes.
const THOROUGH_ROUNDS: u32 = 9;

/// Measures all who are there, and prints the records.
pub(crate) fn measure(words: &[&str]) {
    let asked = Asked::of(words);
    let began = Instant::now();
    let rounds = if asked.full { THOROUGH_ROUNDS } else { ROUNDS };
    let mut contestants = asked.all();
    let mut found = Rounds::default();
    for round in 1..=rounds {
        // With one more, that takes as long as those before.
        let in_all = began.elapsed() / (round - 1).max(1) * round;
        if round > 1 && !asked.full && in_all > MOST {
            eprintln!("accept: no time for round {round}");
            break;
        }
        eprintln!("accept: round {round} of {rounds}");
        contestants.retain(|contestant| {
            let served = WORKERS.iter().try_for_each(|workers| {
                let server = contestant.start(asked.launch, *workers)?;
                try_all(contestant, &server, &mut found);
                Ok(())
            });
            served
                .map_err(|why: String| leave_out(contestant, &why))
                .is_ok()
        });
    }
    found.print();
}

fn try_all(contestant: &Contestant, server: &Server, found: &mut Rounds) {
    let (name, workers) = (&contestant.name, server.workers);
    eprintln!("accept: {name}, {workers} workers");
    for pattern in patterns::ALL.iter().filter(|p| p.least_workers <= workers) {
        let workload = format!("accept/{}", pattern.name);
        found.add(&workload, workers, name, (pattern.run)(server));
    }
    if contestant.can_block() {
        for blocked in blocked::ALL {
            let figures = blocked.run(server).figures();
            found.add(blocked.workload, workers, name, figures);
        }
    }
}
