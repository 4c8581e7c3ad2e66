//! What a turn takes, counted: instructions, clock readings, system calls and allocations.

use super::c_clock::readings;
use super::peer_poller::{LoopClock, Setup};
use super::peers::{BARE, Peer, peers};
use super::ring_of_pairs::{Pairs, Ring};
use crate::report::Report;
use crate::requests;
use crate::run::{self, Run, each};
use crate::tools::Tool;

/// The timeouts: the column, and the word of `evcore-bench count`.
const TIMEOUTS: [(&str, &str); 3] = [
    ("no timeout", "none"),
    ("zero", "zero"),
    ("1.000001 ms", "short"),
];

/// Counts everything that has a number in a turn.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    run::crate_versions(report, &["mio", "polling"]);
    super::foreign::record_versions(report);
    let peers = peers();
    clocks(&peers, report);
    if !Tool::Callgrind.is_missing(report) {
        instructions(run, &peers, report);
        allocations(run, &peers, report);
    }
    if !Tool::Strace.is_missing(report) {
        calls(run, &peers, report);
        requests::measure(run, report);
    }
}

fn instructions(run: &Run, peers: &[Peer], report: &mut Report) {
    for (table, active, title) in [
        ("turn", "1", "Instructions of a turn with one event"),
        (
            "event",
            "100",
            "Instructions of an event in a turn with 100",
        ),
    ] {
        let text = "User instructions by callgrind: libevent's benchmark with 200 pairs, including \
            the C library's `read` and `write` of a byte. `timer`: with a timer re-armed for each \
            event; the bare loop, mio, polling and `Poller` have no timers.";
        report
            .table(table, title, "instructions", text)
            .compared_with(BARE);
        for peer in peers.iter().filter(|peer| !peer.scans()) {
            for (column, kind) in [("plain", "plain"), ("timer", "timers")] {
                let takes_part = column == "plain" || peer.has_timers;
                if takes_part && report.wants(table, peer.name, column) {
                    eprintln!(
                        "turn: instructions of {}, {active} active, {kind}",
                        peer.name
                    );
                    let words = ["pollers", "pipes", kind, peer.name, "#", active];
                    let counts = Tool::Callgrind.each(run, &words);
                    report.add(table, peer.name, column, counts["Ir"]);
                }
            }
        }
    }
}

fn clocks(peers: &[Peer], report: &mut Report) {
    report.table(
        "clocks",
        "Clock readings a turn",
        "readings",
        "Turns with one event and a timer re-armed, with a time source that counts.",
    );
    const TURNS: usize = 10_000;
    let pairs = Pairs::open(10);
    for peer in peers
        .iter()
        .filter(|peer| peer.name.starts_with("EventLoop"))
    {
        let name = peer.name;
        let setup = Setup {
            timers: true,
            clock: LoopClock::Counted,
        };
        let mut poller = (peer.create)(&pairs.near, setup);
        let [monotonic, wall] = readings();
        poller.run(&mut Ring::start(&pairs, 1, TURNS));
        let now = readings();
        let per_turn = |count: u64| each(count, TURNS);
        let all = now[0] - monotonic + now[1] - wall;
        report.add("clocks", name, "all clocks", per_turn(all));
        report.add("clocks", name, "wall clock", per_turn(now[1] - wall));
    }
}

fn allocations(run: &Run, peers: &[Peer], report: &mut Report) {
    report.table(
        "allocations",
        "Allocations a turn",
        "allocations",
        "By memcheck: turns with one event and a timer re-armed. The test `steady` asserts that \
         `httpd` allocates nothing for keep-alive requests.",
    );
    for peer in peers.iter().filter(|it| it.has_timers && !it.listens()) {
        if !report.wants("allocations", peer.name, "allocations") {
            continue;
        }
        eprintln!("turn: allocations of {}", peer.name);
        let words = ["pollers", "pipes", "timers", peer.name, "#", "1"];
        let counts = Tool::Memcheck.each(run, &words);
        let allocs = counts.get("allocs").copied().unwrap_or(0.0);
        report.add("allocations", peer.name, "allocations", allocs);
    }
}

fn calls(run: &Run, peers: &[Peer], report: &mut Report) {
    let text = "By strace. Without a timeout, a byte ends the wait; its `read` and `write` are not \
        counted.";
    report.table("wait", "System calls a wait", "calls", text);
    let text = "By strace, before the next wait.";
    report.table("toggle", "System calls of a stop and start", "calls", text);
    for peer in peers {
        eprintln!("turn: system calls of {}", peer.name);
        let pairs = Pairs::open(1);
        let mut poller = (peer.create)(&pairs.near, Setup::default());
        let waits = poller.wait(Some(std::time::Duration::ZERO)).is_some();
        for (column, timeout) in TIMEOUTS {
            if !waits || !report.wants("wait", peer.name, column) {
                continue;
            }
            let words = ["pollers", "wait", timeout, peer.name, "#"];
            let mut counts = Tool::Strace.each(run, &words);
            if timeout == "none" {
                for call in ["read", "write"] {
                    *counts.entry(call.to_owned()).or_default() -= 1.0;
                }
            }
            report.add("wait", peer.name, column, counts.values().sum());
        }
        if !report.wants("toggle", peer.name, "calls") {
            continue;
        }
        let words = ["pollers", "toggle", "one", peer.name, "#"];
        let counts = Tool::Strace.each(run, &words);
        // Not `sum`, by which no calls are -0.
        let sum = counts.values().fold(0.0, |sum, it| sum + it);
        report.add("toggle", peer.name, "calls", sum);
    }
}
