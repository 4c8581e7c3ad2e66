//! What a turn takes, counted: instructions, clock readings, system calls and allocations.

use super::c_clock::{counted_clock, readings};
use super::peers::{Peer, Setup, peers};
use super::ring_of_pairs::{Pairs, Ring};
use crate::report::Report;
use crate::requests;
use crate::run::{Run, each};
use crate::tools::Tool::{self, Callgrind, Memcheck, Strace};

/// A column: its table and name, the tool, the words of `evcore-bench count`, and the peers.
type Column = (
    &'static str,
    &'static str,
    Tool,
    &'static str,
    fn(&Peer) -> bool,
);

const COLUMNS: [Column; 9] = [
    ("turn", "plain", Callgrind, "pipes plain @ # 1", |it| {
        !it.scans()
    }),
    (
        "turn",
        "timer",
        Callgrind,
        "pipes timers @ # 1",
        Peer::has_timers,
    ),
    ("event", "plain", Callgrind, "pipes plain @ # 100", |it| {
        !it.scans()
    }),
    (
        "event",
        "timer",
        Callgrind,
        "pipes timers @ # 100",
        Peer::has_timers,
    ),
    (
        "allocations",
        "allocations",
        Memcheck,
        "pipes timers @ # 1",
        allocates,
    ),
    ("wait", "no timeout", Strace, "wait none @ #", |it| {
        !it.is_in_c()
    }),
    ("wait", "zero", Strace, "wait zero @ #", |it| !it.is_in_c()),
    ("wait", "1.000001 ms", Strace, "wait short @ #", |it| {
        !it.is_in_c()
    }),
    ("toggle", "calls", Strace, "toggle one @ #", |_| true),
];

/// Without policies, which add nothing.
fn allocates(peer: &Peer) -> bool {
    peer.has_timers() && !peer.listens()
}

/// Counts everything that has a number in a turn.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    super::record_versions(report);
    let peers = peers();
    clocks(&peers, report);
    for (table, column, tool, words, takes_part) in COLUMNS {
        if tool.is_missing(report) {
            continue;
        }
        for peer in peers.iter().filter(|peer| takes_part(peer)) {
            if report.wants(table, peer.name, column) {
                eprintln!("turn: {table}, {column}, of {}", peer.name);
                let counts = tool.each(run, &format!("pollers {words}"), peer.name);
                // Not `sum`, by which no calls are -0.
                let sum = counts.values().fold(0.0, |sum, it| sum + it);
                // The benchmark's own calls write and read the byte that ends a wait.
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
    let (timers, clock) = (true, Some(counted_clock as fn() -> _));
    for peer in peers.iter().filter(|it| it.name.starts_with("EventLoop")) {
        let mut poller = peer.create(&pairs.near, Setup { timers, clock });
        let before = readings();
        poller.run(&mut Ring::start(&pairs, 1, TURNS));
        let now = readings();
        let [monotonic, wall] = [0, 1].map(|at| each(now[at] - before[at], TURNS));
        report.add("clocks", peer.name, "all clocks", monotonic + wall);
        report.add("clocks", peer.name, "wall clock", wall);
    }
}
