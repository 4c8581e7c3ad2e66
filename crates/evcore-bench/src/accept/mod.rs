//! Accepting: how worker processes share connections, which of them wake up, and how long clients
//! wait.
//!
//! Servers are processes of their own, on the first CPU; the clients are in this one, on the last.
//! All peers get the same requests from the same clients, and the kernel counts their wakes.

mod bare;
mod blocked;
mod client;
mod fairness;
mod httpd;
mod kills;
pub(crate) mod launch;
mod load;
pub(crate) mod nginx;
pub(crate) mod pace;
mod patterns;
mod peers;
pub(crate) mod process;
mod server;

use self::launch::Launch;
use self::patterns::PATTERNS;
use self::peers::Peer;
use crate::report::Report;
use crate::run::Run;

pub(crate) use self::bare::serve;
pub(crate) use self::httpd::listening_address;
pub(crate) use self::kills::measure as kills;
pub(crate) use self::launch::launch;

/// With how many workers `httpd` runs. One shows the wakes that are needed.
const WORKERS: [usize; 4] = [1, 2, 4, 8];

/// With how many workers the others run. The picture and the blocked workers are of this number.
const SHOWN: usize = 4;

/// Measures all peers.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    let launch = Launch::beside_this_thread();
    let mut peers = peers::all(&run.httpd);
    peers::record_versions(report);
    declare(report);
    run.rounds("accept", || {
        peers.retain(|peer| {
            let served = round(run, peer, launch, report);
            served
                .map_err(|why| report.absent(&peer.name, &why))
                .is_ok()
        });
    });
}

fn declare(report: &mut Report) {
    let text = "Jain's index of the connections of 4 workers: 1 if all have the same number.";
    report.table("jain", "Jain index by pattern", "index", text);
    for pattern in PATTERNS {
        let (name, text) = (pattern.name, pattern.text);
        let columns = "Columns: the number of workers.";
        let title = format!("Jain index, {}", pattern.title);
        let text = format!("{text} {columns}");
        report.table(&format!("jain {name}"), &title, "index", &text);
        if pattern.counts_wakes {
            let title = format!("Extra wakes a connection, {}", pattern.title);
            let text = format!(
                "Voluntary context switches of all workers, less those that one worker needs for \
                 the same connections. {columns}"
            );
            report.table(&format!("extra {name}"), &title, "wakes", &text);
        }
    }
    report.table(
        "blocked",
        "The longest wait while one of 4 workers is blocked",
        "ms",
        "The last worker that accepted blocks for 200 ms or 2 s, while a client arrives every \
         4 ms. A policy looks again after 500 ms. nginx has no request that blocks.",
    );
}

fn round(run: &Run, peer: &Peer, launch: Launch, report: &mut Report) -> Result<(), String> {
    let mut needed = Vec::new();
    let is_measured = |workers| peer.is_httpd() || workers == 1 || workers == SHOWN;
    for workers in WORKERS.into_iter().filter(|it| is_measured(*it)) {
        let server = peer.start(launch, workers)?;
        eprintln!("accept: {}, {workers} workers", peer.name);
        let patterns = PATTERNS.iter().filter(|it| it.least_workers <= workers);
        for (at, pattern) in patterns.enumerate() {
            let shared = (pattern.run)(&server, run);
            if workers == 1 {
                needed.push(shared.wakes);
                continue;
            }
            let (name, column) = (pattern.name, workers.to_string());
            report.add(&format!("jain {name}"), &peer.name, &column, shared.jain);
            if pattern.counts_wakes {
                let extra = shared.wakes - needed[at];
                report.add(&format!("extra {name}"), &peer.name, &column, extra);
            }
            if workers == SHOWN {
                report.add("jain", &peer.name, pattern.title, shared.jain);
            }
        }
        if workers == SHOWN && peer.can_block() {
            for (column, path) in [("200 ms", "/block/200"), ("2 s", "/block/2000")] {
                let longest = blocked::longest_wait(&server, path);
                report.add("blocked", &peer.name, column, longest.as_secs_f64() * 1e3);
            }
        }
    }
    Ok(())
}
