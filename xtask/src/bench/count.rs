//! What of a run is counted, and not only timed.

use std::fs;
use std::path::Path;

use super::callgrind::Callgrind;
use super::results::{LOOP, Results};
use super::strace::{Calls, Strace};
use crate::Result;
use crate::workspace::Workspace;

/// Timers that are armed while re-arming is counted.
pub(super) const IDS: u64 = 100_000;

/// How many operations the two runs of each count have.
const REARMS: [u32; 2] = [50_000, 150_000];
const EVENTS: [u32; 2] = [20_000, 120_000];
const TOGGLES: [u32; 2] = [100, 1_100];
const WAITS: [u32; 2] = [20, 120];

/// The peers that wait with each timeout: those whose single waits can be counted.
const WAITERS: &[&str] = &[
    "bare epoll",
    "Poller",
    "Poller, poll",
    "Poller, select",
    "mio",
    "polling",
];

/// The timeouts: the workload, and the word for `evcore-bench`.
pub(super) const TIMEOUTS: [(&str, &str); 3] = [
    ("pollers/wait/none", "none"),
    ("pollers/wait/zero", "zero"),
    ("pollers/wait/short", "short"),
];

/// Counts what the part's tables say.
pub(super) fn part(
    part: &str,
    workspace: &Workspace,
    program: &Path,
    results: &mut Results,
) -> Result {
    let folder = workspace.target_dir.join("xtask");
    fs::create_dir_all(&folder)?;
    let callgrind = Callgrind::new(program, &folder);
    if callgrind.is_none() {
        results.counted.no_events = Some("valgrind is not installed here".to_owned());
    }
    let strace = Strace::new(program, &folder);
    if strace.is_none() {
        results.counted.no_calls = Some("strace is not installed here".to_owned());
    }
    match (part, callgrind, strace) {
        ("timers", Some(callgrind), _) => rearming(&callgrind, results),
        ("pollers", callgrind, strace) => {
            callgrind.map_or(Ok(()), |callgrind| events(&callgrind, results))?;
            strace.map_or(Ok(()), |strace| calls(&strace, results))
        }
        _ => Ok(()),
    }
}

/// The cost of re-arming for each peer, without the loop's own share.
fn rearming(callgrind: &Callgrind<'_>, results: &mut Results) -> Result {
    let workload = "timers/rearm";
    let each = |peer: &str| callgrind.each(&["timers", peer, &IDS.to_string()], REARMS);
    let own = each(LOOP)?;
    for peer in results.owned_peers(workload) {
        eprintln!("timers: counting instructions of {peer}");
        let events = each(&peer)?.less(own);
        results.counted.add_events(workload, &peer, events);
    }
    Ok(())
}

/// The cost of an event of libevent's benchmark for each peer, with a hundred active pairs.
fn events(callgrind: &Callgrind<'_>, results: &mut Results) -> Result {
    for (workload, kind) in [
        ("pollers/pipes/100", "plain"),
        ("pollers/timers/100", "timers"),
    ] {
        for peer in results.owned_peers(workload) {
            eprintln!("pollers: counting instructions of {peer}, {kind}");
            let events = callgrind.each(&["pollers", "pipes", kind, &peer], EVENTS)?;
            results.counted.add_events(workload, &peer, events);
        }
    }
    Ok(())
}

/// What a wait, and what a stop and a start, ask of the kernel.
fn calls(strace: &Strace<'_>, results: &mut Results) -> Result {
    let workload = "pollers/toggle";
    for peer in results.owned_peers(workload) {
        eprintln!("pollers: counting system calls of {peer}, stop and start");
        let calls = strace.each(&["pollers", "toggle", "one", &peer], TOGGLES)?;
        results.counted.add_calls(workload, &peer, calls);
    }
    for (workload, timeout) in TIMEOUTS {
        for peer in WAITERS {
            eprintln!("pollers: counting system calls of {peer}, timeout {timeout}");
            let calls = strace.each(&["pollers", "wait", timeout, peer], WAITS)?;
            let calls = calls.less(&beside_the_wait(timeout));
            results.counted.add_calls(workload, peer, calls);
        }
    }
    Ok(())
}

/// A wait without a timeout ends by a byte, which is written before and read after it.
fn beside_the_wait(timeout: &str) -> Calls {
    if timeout == "none" {
        Calls::once(&["read", "write"])
    } else {
        Calls::default()
    }
}
