//! Accepting: how worker processes share connections, which of them wake up, and how long clients
//! wait.
//!
//! The workers of a server are first on the first CPU, where one of them runs at a time, and then
//! on all CPUs. The clients are in this process, on the last CPU. In the benchmark's part `bursts`,
//! they are on all CPUs. All servers get the same requests. The kernel counts the wakes of the
//! workers.

mod bursts;
mod kills;
mod patterns;
mod workers;

use std::time::Duration;

use self::patterns::PATTERNS;
use crate::report::Report;
use crate::run::Run;
use crate::server::{self, Program};

pub(crate) use self::bursts::measure as bursts;
pub(crate) use self::kills::measure as kills;
pub(crate) use self::workers::measure as workers;

/// Numbers of workers with which `httpd` runs. One worker shows how many wakes are needed.
const WORKERS: [usize; 4] = [1, 2, 4, 8];

/// Number of workers of the other servers, and of all servers if they are on all CPUs. (Every
/// server also runs with one worker.) The picture and the measurement with a blocked worker are for
/// this number.
const SHOWN: usize = 4;

/// Suffix of a column's name for servers on all CPUs.
const ON_ALL: &str = ", all CPUs";

/// Returns the servers of a part twice, for the first CPU and for all CPUs, each time with the
/// suffix of their columns' names. Moves this thread to the last CPU.
fn placed(run: &Run, report: &mut Report, part: &str) -> [(&'static str, Vec<Program>); 2] {
    let programs = server::programs(run, report, part);
    let mut on_all = programs.clone();
    on_all.iter_mut().for_each(Program::use_all_cpus);
    crate::cpus::become_client();
    [("", programs), (ON_ALL, on_all)]
}

pub(crate) fn measure(run: &Run, report: &mut Report) {
    let mut placed = placed(run, report, "accept");
    run.rounds("accept", || {
        for (place, peers) in &mut placed {
            peers.retain(|peer| {
                let served = round(run, peer, place, report);
                report.or_absent(&peer.name, served).is_some()
            });
        }
    });
}

fn round(run: &Run, peer: &Program, place: &str, report: &mut Report) -> Result<(), String> {
    let mut needed = Vec::new();
    let is_first = place.is_empty();
    let is_measured = |workers| {
        let all = is_first && peer.name.starts_with("httpd");
        all || workers == 1 || workers == SHOWN
    };
    for workers in WORKERS.into_iter().filter(|workers| is_measured(*workers)) {
        let server = peer.start(workers)?;
        eprintln!("accept: {}, {workers} workers{place}", peer.name);
        let patterns = PATTERNS
            .iter()
            .filter(|pattern| pattern.least_workers <= workers);
        for (at, pattern) in patterns.enumerate() {
            let [jain, wakes] = pattern.measure(&server, run);
            if workers == 1 {
                needed.push(wakes);
                continue;
            }
            let (name, column) = (pattern.name, format!("{workers}{place}"));
            report.add(&format!("jain {name}"), &peer.name, &column, jain);
            if pattern.least_workers == 1 {
                let extra = wakes - needed[at];
                report.add(&format!("extra {name}"), &peer.name, &column, extra);
            }
            if workers == SHOWN && is_first {
                report.add("jain", &peer.name, pattern.title, jain);
            }
        }
        // nginx is left out, because no request blocks it.
        let has_blocked = report.names("blocked", 1).contains(&peer.name.as_str());
        if workers == SHOWN && is_first && !has_blocked && !peer.name.starts_with("nginx") {
            for _ in 0..BLOCKED_TIMES {
                let longest = patterns::longest_wait(&server, BLOCKED);
                report.add("blocked", &peer.name, "1 s", longest);
            }
        }
    }
    Ok(())
}

/// Time for which a request blocks a worker: twice the accept delay of all servers.
const BLOCKED: Duration = Duration::from_secs(1);

/// Number of times that a worker is blocked, which happens only in the first round.
const BLOCKED_TIMES: usize = 2;
