//! Accepting: how worker processes share connections, which of them wake up, and how long clients
//! wait.
//!
//! Servers are processes of their own, on the first CPU; the clients are in this process, on the
//! last CPU. In the part `bursts`, servers and clients are on all CPUs. All peers get the same
//! requests from the same clients, and the kernel counts their wakes.

mod bursts;
mod kills;
mod patterns;

use std::time::Duration;

use self::patterns::PATTERNS;
use crate::report::Report;
use crate::run::Run;
use crate::server::{self, Program};

pub(crate) use self::bursts::measure as bursts;
pub(crate) use self::kills::measure as kills;

/// Numbers of workers with which `httpd` runs. One worker shows how many wakes are needed.
const WORKERS: [usize; 4] = [1, 2, 4, 8];

/// Number of workers with which the other servers run. The picture and the blocked workers have
/// this number too.
const SHOWN: usize = 4;

/// Measures all peers.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    crate::cpus::become_client();
    let mut peers = server::programs(run, report, "accept");
    run.rounds("accept", || {
        peers.retain(|peer| {
            let served = round(run, peer, report);
            report.or_absent(&peer.name, served).is_some()
        });
    });
}

fn round(run: &Run, peer: &Program, report: &mut Report) -> Result<(), String> {
    let mut needed = Vec::new();
    let is_measured = |workers| peer.name.starts_with("httpd") || workers == 1 || workers == SHOWN;
    for workers in WORKERS.into_iter().filter(|workers| is_measured(*workers)) {
        let server = peer.start(workers)?;
        eprintln!("accept: {}, {workers} workers", peer.name);
        let patterns = PATTERNS
            .iter()
            .filter(|pattern| pattern.least_workers <= workers);
        for (at, pattern) in patterns.enumerate() {
            let [jain, wakes] = pattern.measure(&server, run);
            if workers == 1 {
                needed.push(wakes);
                continue;
            }
            let (name, column) = (pattern.name, workers.to_string());
            report.add(&format!("jain {name}"), &peer.name, &column, jain);
            if pattern.least_workers == 1 {
                let extra = wakes - needed[at];
                report.add(&format!("extra {name}"), &peer.name, &column, extra);
            }
            if workers == SHOWN {
                report.add("jain", &peer.name, pattern.title, jain);
            }
        }
        // nginx is left out, because no request blocks it.
        if workers == SHOWN && !peer.name.starts_with("nginx") {
            for (column, ms) in [("200 ms", 200), ("2 s", 2_000)] {
                let longest = patterns::longest_wait(&server, Duration::from_millis(ms));
                report.add("blocked", &peer.name, column, longest);
            }
        }
    }
    Ok(())
}
