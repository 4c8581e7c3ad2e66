//! The patterns, in rounds in which all peers take turns, each with a fresh server.

use std::time::{Duration, Instant};

use super::peers::Peer;
use super::rounds::Rounds;
use super::scenario::{Scenario, record_absence};
use super::server::Server;
use super::{blocked, patterns};

/// With how many workers.
const WORKERS: [usize; 3] = [2, 4, 8];

/// How many rounds there are at most, in as long as that; one at least. The machine may be busy.
const ROUNDS: u32 = 3;
const MOST: Duration = Duration::from_secs(430);

/// How many there are in a thorough run, in as long as it takes.
const THOROUGH_ROUNDS: u32 = 9;

/// Measures all peers, and prints the records.
pub(crate) fn measure(words: &[&str]) {
    let scenario = Scenario::of(words);
    let began = Instant::now();
    let rounds = if scenario.full {
        THOROUGH_ROUNDS
    } else {
        ROUNDS
    };
    let mut peers = scenario.all();
    let mut found = Rounds::default();
    for round in 1..=rounds {
        // With one more, that takes as long as those before.
        let in_all = began.elapsed() / (round - 1).max(1) * round;
        if round > 1 && !scenario.full && in_all > MOST {
            eprintln!("accept: no time for round {round}");
            break;
        }
        eprintln!("accept: round {round} of {rounds}");
        peers.retain(|peer| {
            let served = WORKERS.iter().try_for_each(|workers| {
                let server = peer.start(scenario.launch, *workers)?;
                try_all(peer, &server, &mut found);
                Ok(())
            });
            served
                .map_err(|why: String| record_absence(peer, &why))
                .is_ok()
        });
    }
    found.print();
}

fn try_all(peer: &Peer, server: &Server, found: &mut Rounds) {
    let (name, workers) = (&peer.name, server.workers);
    eprintln!("accept: {name}, {workers} workers");
    for pattern in patterns::ALL.iter().filter(|p| p.least_workers <= workers) {
        let workload = format!("accept/{}", pattern.name);
        found.add(&workload, workers, name, (pattern.run)(server));
    }
    if peer.can_block() {
        for blocked in blocked::ALL {
            let figures = blocked.run(server).figures();
            found.add(blocked.workload, workers, name, figures);
        }
    }
}
