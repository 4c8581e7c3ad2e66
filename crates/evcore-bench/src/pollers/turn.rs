//! The cost of a turn (one iteration of an event loop), counted: instructions, clock readings,
//! system calls and allocations.

use super::c_clock::readings;
use super::peers::{Peer, Setup, peers};
use super::ring_of_pairs::{Pairs, Ring};
use crate::foreign;
use crate::report::Report;
use crate::requests;
use crate::run::{Run, each};
use crate::tools::Tool::{self, Callgrind, Memcheck, Strace};

/// The tables and columns, each with its tool and the arguments of `evcore-bench count`.
const COLUMNS: [(&str, &str, Tool, &str); 9] = [
    ("turn", "plain", Callgrind, "pipes plain @ # 1"),
    ("turn", "timer", Callgrind, "pipes timers @ # 1"),
    ("event", "plain", Callgrind, "pipes plain @ # 100"),
    ("event", "timer", Callgrind, "pipes timers @ # 100"),
    (ALLOCATIONS, ALLOCATIONS, Memcheck, "pipes timers @ # 1"),
    ("wait", "no timeout", Strace, "wait none @ #"),
    ("wait", "zero", Strace, "wait zero @ #"),
    ("wait", "1.000001 ms", Strace, "wait short @ #"),
    ("toggle", "calls", Strace, "toggle one @ #"),
];

const ALLOCATIONS: &str = "allocations";

fn takes_part(peer: &Peer, table: &str, words: &str) -> bool {
    match table {
        _ if words.contains("timers") && !peer.has_timers() => false,
        // `poll` and `select` are left out, because their waits take longer with more descriptors.
        "turn" | "event" => peer.is_timed() || peer.has_timers(),
        // Policies add no allocation.
        ALLOCATIONS => peer.is_timed(),
        "wait" => !peer.is_in_c(),
        _ => true,
    }
}

pub(crate) fn measure(run: &Run, report: &mut Report) {
    foreign::record_absent(report);
    let peers = peers();
    if !peers.iter().any(|peer| peer.name.ends_with("io_uring")) {
        report.absent("io_uring", "the kernel does not permit it");
    }
    clocks(&peers, report);
    for (table, column, tool, words) in COLUMNS {
        if tool.is_missing(report) {
            continue;
        }
        for peer in peers.iter().filter(|peer| takes_part(peer, table, words)) {
            if report.wants(table, peer.name, column) {
                eprintln!("turn: {table}, {column}, of {}", peer.name);
                let counts = tool.each(run, &format!("pollers {words}"), peer.name);
                // `sum` would return -0 for no calls.
                let sum = counts.values().fold(0.0, |sum, count| sum + count);
                // Two calls are the benchmark's own: they write and read the byte that ends a wait.
                let own = if column == "no timeout" { 2.0 } else { 0.0 };
                report.add(table, peer.name, column, sum - own);
            }
        }
    }
    if !Strace.is_missing(report) {
        requests::measure(run, report);
    }
}

fn clocks(peers: &[Peer], report: &mut Report) {
    const TURNS: usize = 10_000;
    let pairs = Pairs::open(10);
    let (timers, c_clock) = (true, true);
    for peer in peers
        .iter()
        .filter(|peer| peer.name.starts_with("EventLoop"))
    {
        let mut poller = peer.create(&pairs.near, Setup { timers, c_clock });
        let before = readings();
        poller.run(&mut Ring::start(&pairs, 1, TURNS));
        let now = readings();
        let [monotonic, wall] = [0, 1].map(|at| each(now[at] - before[at], TURNS));
        report.add("clocks", peer.name, "all clocks", monotonic + wall);
        report.add("clocks", peer.name, "wall clock", wall);
    }
}
