//! What a turn takes, counted: instructions, clock readings, system calls and allocations.

use super::c_clock::{counted_clock, readings};
use super::peer_poller::Setup;
use super::peers::{Peer, peers};
use super::ring_of_pairs::{Pairs, Ring};
use crate::report::Report;
use crate::requests;
use crate::run::{Run, each};
use crate::tools::Tool;

/// A table that a tool fills.
struct Counted {
    table: &'static str,
    tool: Tool,
    takes_part: fn(&Peer) -> bool,
    columns: &'static [Column],
}

/// A column: its name, the words of `evcore-bench count`, and what the benchmark itself adds.
type Column = (&'static str, &'static str, f64);

const TIMER: &str = "timer";

const COUNTED: &[Counted] = &[
    Counted {
        table: "turn",
        tool: Tool::Callgrind,
        takes_part: |peer| !peer.scans,
        columns: &[
            ("plain", "pollers pipes plain @ # 1", 0.0),
            (TIMER, "pollers pipes timers @ # 1", 0.0),
        ],
    },
    Counted {
        table: "event",
        tool: Tool::Callgrind,
        takes_part: |peer| !peer.scans,
        columns: &[
            ("plain", "pollers pipes plain @ # 100", 0.0),
            (TIMER, "pollers pipes timers @ # 100", 0.0),
        ],
    },
    Counted {
        table: "allocations",
        tool: Tool::Memcheck,
        takes_part: |peer| peer.has_timers && !peer.listens,
        columns: &[("allocations", "pollers pipes timers @ # 1", 0.0)],
    },
    Counted {
        table: "wait",
        tool: Tool::Strace,
        takes_part: |peer| !peer.is_in_c,
        columns: &[
            ("no timeout", "pollers wait none @ #", 2.0),
            ("zero", "pollers wait zero @ #", 0.0),
            ("1.000001 ms", "pollers wait short @ #", 0.0),
        ],
    },
    Counted {
        table: "toggle",
        tool: Tool::Strace,
        takes_part: |_| true,
        columns: &[("calls", "pollers toggle one @ #", 0.0)],
    },
];

/// Counts everything that has a number in a turn.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    super::record_versions(report);
    let peers = peers();
    clocks(&peers, report);
    for it in COUNTED {
        it.count(run, &peers, report);
    }
    if !Tool::Strace.is_missing(report) {
        requests::measure(run, report);
    }
}

impl Counted {
    fn count(&self, run: &Run, peers: &[Peer], report: &mut Report) {
        if self.tool.is_missing(report) {
            return;
        }
        for peer in peers.iter().filter(|peer| (self.takes_part)(peer)) {
            for (column, words, own) in self.columns {
                let takes_part = *column != TIMER || peer.has_timers;
                if takes_part && report.wants(self.table, peer.name, column) {
                    eprintln!("turn: {}, {column}, of {}", self.table, peer.name);
                    let counts = self.tool.each(run, words, peer.name);
                    // Not `sum`, by which no calls are -0.
                    let sum = counts.values().fold(0.0, |sum, it| sum + it);
                    report.add(self.table, peer.name, column, sum - own);
                }
            }
        }
    }
}

fn clocks(peers: &[Peer], report: &mut Report) {
    const TURNS: usize = 10_000;
    let pairs = Pairs::open(10);
    let (timers, clock) = (true, Some(counted_clock as fn() -> _));
    for peer in peers.iter().filter(|it| it.name.starts_with("EventLoop")) {
        let mut poller = (peer.create)(&pairs.near, Setup { timers, clock });
        let before = readings();
        poller.run(&mut Ring::start(&pairs, 1, TURNS));
        let now = readings();
        let [monotonic, wall] = [0, 1].map(|at| each(now[at] - before[at], TURNS));
        report.add("clocks", peer.name, "all clocks", monotonic + wall);
        report.add("clocks", peer.name, "wall clock", wall);
    }
}
