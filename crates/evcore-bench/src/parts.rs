//! The parts of the page, in its order.

use crate::picture::Picture;
use crate::report::Report;
use crate::run::Run;
use crate::{accept, clock, memory, pollers, timers, whole};

/// A benchmark with its section of the page.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) measure: fn(&Run, &mut Report),
    /// How often each peer is measured.
    pub(crate) rounds: usize,
    /// The result in a sentence. A cell of a table stands in braces: `{table|peer|column}` is its
    /// median, `{table|peer|column|other}` its ratio to another peer.
    pub(crate) headline: &'static str,
    pub(crate) pictures: &'static [Picture],
}

const ROUNDS: usize = 5;
/// For short rounds. A virtual machine's pace changes within seconds, and the median of many short
/// rounds varies less than that of a few long ones.
const MANY_ROUNDS: usize = 15;

#[rustfmt::skip] // A picture is a line.
pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "turn",
        title: "A turn, counted",
        measure: pollers::measure_turn,
        rounds: ROUNDS,
        headline: "A turn of `EventLoop` with one event takes {turn|EventLoop|plain} instructions in \
            user mode, {turn|EventLoop|plain|bare epoll} times a bare epoll loop's, \
            {turn|EventLoop|plain|libev} times libev's. Among a hundred, an event takes \
            {event|EventLoop|plain}.",
        pictures: &[
            Picture { table: "turn", title: "A turn with one event", columns: &["plain", "timer"] },
            Picture { table: "event", title: "An event in a turn with 100", columns: &["plain", "timer"] },
        ],
    },
    Part {
        name: "pollers",
        title: "Pollers, timed",
        measure: pollers::measure,
        rounds: MANY_ROUNDS,
        headline: "With the kernel's part, `EventLoop` takes {pipes 1|EventLoop|1000|bare epoll} times \
            the CPU of a bare epoll loop with 1 of 1,000 pairs active, and \
            {pipes 100|EventLoop|1000|bare epoll} with 100.",
        pictures: &[],
    },
    Part {
        name: "timers",
        title: "Timers",
        measure: timers::measure,
        rounds: ROUNDS,
        headline: "With 10^6 timers a re-arm takes `TimerWheel` {rearm|TimerWheel|10^6} ns and \
            `Lazy<TimerWheel>` {rearm|Lazy<TimerWheel>|10^6} ns. The wheel takes \
            {rearm|TimerWheel|10^6|BTreeSet} of a `BTreeSet`'s time, and \
            {rearm|TimerWheel|10^6|nginx's tree} of that of nginx's tree.",
        pictures: &[Picture { table: "rearm", title: "A re-arm by the number of timers", columns: &["10^5", "10^6"] }],
    },
    Part {
        name: "clock",
        title: "Clock",
        measure: clock::measure,
        rounds: MANY_ROUNDS,
        headline: "Reading the cached time takes {read|Clock::monotonic_ms|ns} ns, a coherent snapshot \
            with the HTTP date {read|SharedClock::snapshot|ns} ns, and `Instant::now` \
            {read|Instant::now|ns} ns.",
        pictures: &[],
    },
    Part {
        name: "memory",
        title: "Memory",
        measure: memory::measure,
        rounds: ROUNDS,
        headline: "Each of 8,192 idle connections with a timer takes {memory|epoll, full|8192} bytes \
            of the core's tables with epoll, and {memory|poll, full|8192} with poll.",
        pictures: &[],
    },
    Part {
        name: "whole",
        title: "The whole",
        measure: whole::measure,
        rounds: MANY_ROUNDS,
        headline: "A request takes `httpd` {cpu|httpd|1|bare epoll}, {cpu|httpd|64|bare epoll} and \
            {cpu|httpd|1024|bare epoll} times the CPU of a bare epoll loop that answers with a \
            constant, with 1, 64 and 1,024 connections.",
        pictures: &[Picture { table: "cpu", title: "CPU a request", columns: &["1", "64", "1024"] }],
    },
    Part {
        name: "proxies",
        title: "Proxies",
        measure: whole::measure_proxies,
        rounds: MANY_ROUNDS,
        headline: "With 64 connections the example `proxy` takes \
            {proxy|proxy|kept alive, 64|HAProxy, tcp} times HAProxy's CPU a request in TCP mode and \
            {proxy|proxy|kept alive, 64|HAProxy, http} times in HTTP mode, \
            {proxy|proxy|closed, 64|HAProxy, tcp} and {proxy|proxy|closed, 64|HAProxy, http} if each \
            connection has one request, and {proxied body|proxy|1 MiB, 8|HAProxy, splice} times a KiB \
            of large bodies if HAProxy splices them, too.",
        pictures: &[],
    },
    Part {
        name: "datagrams",
        title: "Datagrams",
        measure: whole::measure_datagrams,
        rounds: MANY_ROUNDS,
        headline: "The example `udp` answers {answers|udp|one core} thousand questions of DNS a \
            second, on one core.",
        pictures: &[],
    },
    Part {
        name: "accept",
        title: "Accepting",
        measure: accept::measure,
        rounds: ROUNDS,
        headline: "After the connections of two of 4 workers were closed, later ones restore a Jain \
            index of {jain|httpd least-loaded|halfway closed} with `least-loaded`, and \
            {jain|nginx|halfway closed} with nginx's default.",
        pictures: &[
            Picture {
                table: "jain",
                title: "Jain index of 4 workers",
                columns: &["one at a time", "bursts of 64", "uneven lifetimes", "halfway closed"],
            },
            Picture { table: "blocked", title: "Longest wait, a worker blocked", columns: &["200 ms", "2 s"] },
        ],
    },
    Part {
        name: "kills",
        title: "Workers that die or stop",
        measure: accept::kills,
        rounds: ROUNDS,
        headline: "After a kill of the worker that would have accepted, another one accepts within \
            {kill|httpd least-loaded|took} ms with `least-loaded`, and {kill|nginx|took} ms with \
            nginx's default, in the median.",
        pictures: &[],
    },
];
