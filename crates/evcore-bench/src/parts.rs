//! The parts of the page, in its order.

use crate::picture::Kind::{self, Bars, Lines};
use crate::picture::Picture;
use crate::report::{Report, Table, number};
use crate::run::Run;
use crate::{accept, clock, memory, pollers, timers, whole};

/// A benchmark with its section of the page.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) measure: fn(&Run, &mut Report),
    /// How often each peer is measured.
    pub(crate) rounds: usize,
    /// The result in a sentence.
    pub(crate) headline: fn(&Report) -> Option<String>,
    pub(crate) pictures: &'static [Picture],
}

const COLUMNS: &[&str] = &["plain", "timer"];
const PATTERNS: &[&str] = &[
    "one at a time",
    "bursts of 64",
    "uneven lifetimes",
    "halfway closed",
];

const ROUNDS: usize = 5;
/// For short rounds. A virtual machine's pace changes within seconds, and the median of many short
/// rounds varies less than that of a few long ones.
const MANY_ROUNDS: usize = 15;

pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "turn",
        title: "A turn, counted",
        measure: pollers::measure_turn,
        rounds: ROUNDS,
        headline: turn,
        pictures: &[
            picture("turn", "A turn with one event", Bars(COLUMNS)),
            picture("event", "An event in a turn with 100", Bars(COLUMNS)),
        ],
    },
    Part {
        name: "pollers",
        title: "Pollers, timed",
        measure: pollers::measure,
        rounds: MANY_ROUNDS,
        headline: pollers,
        pictures: &[],
    },
    Part {
        name: "timers",
        title: "Timers",
        measure: timers::measure,
        rounds: ROUNDS,
        headline: timers,
        pictures: &[picture("rearm", "A re-arm by the number of timers", Lines)],
    },
    Part {
        name: "clock",
        title: "Clock",
        measure: clock::measure,
        rounds: MANY_ROUNDS,
        headline: clock,
        pictures: &[],
    },
    Part {
        name: "memory",
        title: "Memory",
        measure: memory::measure,
        rounds: ROUNDS,
        headline: memory,
        pictures: &[],
    },
    Part {
        name: "whole",
        title: "The whole",
        measure: whole::measure,
        rounds: MANY_ROUNDS,
        headline: whole_server,
        pictures: &[picture("cpu", "CPU a request", Bars(&["1", "64", "1024"]))],
    },
    Part {
        name: "proxies",
        title: "Proxies",
        measure: whole::measure_proxies,
        rounds: MANY_ROUNDS,
        headline: proxies,
        pictures: &[],
    },
    Part {
        name: "datagrams",
        title: "Datagrams",
        measure: whole::measure_datagrams,
        rounds: MANY_ROUNDS,
        headline: datagrams,
        pictures: &[],
    },
    Part {
        name: "accept",
        title: "Accepting",
        measure: accept::measure,
        rounds: ROUNDS,
        headline: accept,
        pictures: &[
            picture("jain", "Jain index of 4 workers", Bars(PATTERNS)),
            picture(
                "blocked",
                "Longest wait, a worker blocked",
                Bars(&["200 ms", "2 s"]),
            ),
        ],
    },
    Part {
        name: "kills",
        title: "Workers that die or stop",
        measure: accept::kills,
        rounds: ROUNDS,
        headline: kills,
        pictures: &[],
    },
];

/// A picture of a table, in a file of the table's name.
const fn picture(table: &'static str, title: &'static str, kind: Kind) -> Picture {
    Picture { table, title, kind }
}

fn turn(report: &Report) -> Option<String> {
    let [turn, event] = [report.find("turn")?, report.find("event")?];
    let ours = turn.median("EventLoop", "plain")?;
    let to = |peer: &str| Some(number(ours / turn.median(peer, "plain")?));
    let libev = to("libev").map_or_else(String::new, |it| format!(", {it} times libev's"));
    Some(format!(
        "A turn of `EventLoop` with one event takes {} instructions in user mode, {} times a bare \
         epoll loop's{libev}. Among a hundred, an event takes {}.",
        number(ours),
        to("bare epoll")?,
        number(event.median("EventLoop", "plain")?)
    ))
}

fn pollers(report: &Report) -> Option<String> {
    let worst = |table: &str| {
        let table = report.find(table)?;
        let ratios = table.columns.iter();
        let ratios = ratios.filter_map(|it| table.ratio("EventLoop", "bare epoll", it));
        ratios.reduce(f64::max).map(number)
    };
    Some(format!(
        "With the kernel's part, `EventLoop` takes at most {} times the CPU of a bare epoll loop \
         with 1 active pair, and {} with 100.",
        worst("pipes 1")?,
        worst("pipes 100")?
    ))
}

fn timers(report: &Report) -> Option<String> {
    let table = report.find("rearm")?;
    let column = table.columns.last()?;
    let to = |peer: &str| {
        table
            .ratio("TimerWheel", peer, column)
            .map(|it| number(1.0 / it))
    };
    let [wheel, lazy] = ["TimerWheel", "Lazy<TimerWheel>"];
    Some(format!(
        "With {column} timers a re-arm takes `TimerWheel` {} ns and `Lazy<TimerWheel>` {} ns. \
         The wheel is {} times faster than a `BTreeSet`{}.",
        number(table.median(wheel, column)?),
        number(table.median(lazy, column)?),
        to("BTreeSet")?,
        to("nginx's tree").map_or_else(String::new, |it| format!(
            ", and {it} times faster than nginx's tree"
        ))
    ))
}

/// The tables `cpu` (µs of CPU a request), `user`, `rate`, `p50`, `p99` and `p99.9` have a row for
/// each server and a column for each number of connections.
fn whole_server(report: &Report) -> Option<String> {
    let table = report.find("cpu")?;
    let ratio = |column: &str| table.ratio("httpd", "bare epoll", column).map(number);
    Some(format!(
        "A request takes `httpd` {}, {} and {} times the CPU of a bare epoll loop that answers \
         with a constant, with 1, 64 and 1,024 connections.",
        ratio("1")?,
        ratio("64")?,
        ratio("1024")?
    ))
}

fn proxies(report: &Report) -> Option<String> {
    let [requests, bodies] = [report.find("proxy")?, report.find("proxied body")?];
    let to = |table: &Table, peer, column| table.ratio("proxy", peer, column).map(number);
    Some(format!(
        "With 64 connections the example `proxy` takes {} times HAProxy's CPU a request in TCP mode \
         and {} times in HTTP mode, {} and {} if each connection has one request, and {} times a \
         KiB of large bodies if HAProxy splices them, too.",
        to(requests, "HAProxy, tcp", "kept alive, 64")?,
        to(requests, "HAProxy, http", "kept alive, 64")?,
        to(requests, "HAProxy, tcp", "closed, 64")?,
        to(requests, "HAProxy, http", "closed, 64")?,
        to(bodies, "HAProxy, splice", "1 MiB, 8")?
    ))
}

fn datagrams(report: &Report) -> Option<String> {
    let answers = report.find("answers")?.median("udp", "one core")?;
    Some(format!(
        "The example `udp` answers {} thousand questions of DNS a second, on one core.",
        number(answers)
    ))
}

fn accept(report: &Report) -> Option<String> {
    let table = report.find("jain")?;
    let least = |peer: &str| {
        let medians = PATTERNS.iter().map(|column| table.median(peer, column));
        let medians: Option<Vec<f64>> = medians.collect();
        medians?.into_iter().reduce(f64::min).map(number)
    };
    Some(format!(
        "Over all patterns, 4 workers share connections with a Jain index of at least {} with \
         `least-loaded`, and {} with nginx's default.",
        least("httpd least-loaded")?,
        least("nginx").unwrap_or_else(|| "unknown".to_owned())
    ))
}

fn kills(report: &Report) -> Option<String> {
    let table = report.find("kill")?;
    let ours = table
        .rows
        .iter()
        .filter(|row| row.peer.starts_with("httpd"));
    let count: usize = ours
        .clone()
        .flat_map(|row| row.cells.values())
        .map(Vec::len)
        .sum();
    let longest = ours.filter_map(|row| table.spread(&row.peer, "took"));
    let longest = longest.map(|spread| spread.most).reduce(f64::max)?;
    Some(format!(
        "After each of {count} kills of the worker that would have accepted, another one accepted \
         within {} ms.",
        number(longest)
    ))
}

fn clock(report: &Report) -> Option<String> {
    let read = report.find("read")?;
    let [cached, snapshot, now] = [
        "Clock::monotonic_ms",
        "SharedClock::snapshot",
        "Instant::now",
    ]
    .map(|peer| read.median(peer, "ns").map(number));
    Some(format!(
        "Reading the cached time takes {} ns, a coherent snapshot with the HTTP date {} ns, and \
         `Instant::now` {} ns.",
        cached?, snapshot?, now?
    ))
}

fn memory(report: &Report) -> Option<String> {
    let table = report.find("memory")?;
    let medians = table.rows.iter().flat_map(|row| {
        let columns = table.columns.iter();
        columns.filter_map(|column| table.median(&row.peer, column))
    });
    let (least, most) = medians.fold((f64::MAX, 0.0), |(least, most), it| {
        (it.min(least), it.max(most))
    });
    Some(format!(
        "An idle connection with a timer takes {least:.0} to {most:.0} bytes of the core's tables, \
         depending on their number and the backend."
    ))
}
