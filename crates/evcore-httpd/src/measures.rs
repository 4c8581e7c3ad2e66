//! The table of an event loop's measurements other than its counters: gauges, and times with their
//! distributions.
//!
//! A row defines a measurement's place on the scoreboard (memory that the workers share), its lines
//! of `/metrics` and its field of `/status.json`. A test compares the pages with `docs/httpd.md`.

use evcore::{Histogram, Histograms, Stats};

#[derive(Debug)]
pub struct Gauge {
    pub field: &'static str,
    pub metric: &'static str,
    pub help: &'static str,
    pub source: fn(&Stats) -> u64,
}

/// A time of which the event loop has a histogram, in nanoseconds.
#[derive(Debug)]
pub struct Time {
    /// The field of `/status.json`, in microseconds.
    pub field: &'static str,
    /// The name on `/metrics`, in seconds.
    pub metric: &'static str,
    pub help: &'static str,
    pub source: fn(&Histograms) -> &Histogram,
}

pub const GAUGES: [Gauge; 1] = [Gauge {
    field: "timers_armed",
    metric: "evcore_timers_armed",
    help: "Timers that are armed now.",
    source: |stats| stats.timers_armed as u64,
}];

/// The name of a worker's memory on `/metrics`. The master measures it once a second.
pub const MEMORY: &str = "httpd_worker_memory_bytes";

pub const MEMORY_HELP: &str = "Resident memory of the worker process.";

/// The index in [`TIMES`] of the duration of a turn, which is an iteration of the event loop.
pub const TURN: usize = 1;

pub const TIMES: [Time; 2] = [
    Time {
        field: "timer_lateness_us",
        metric: "evcore_timer_lateness_seconds",
        help: "Time from the deadline of a timer to its expiry.",
        source: Histograms::timer_lateness_ns,
    },
    Time {
        field: "turn_us",
        metric: "evcore_turn_duration_seconds",
        help: "Time between two waits of the event loop.",
        source: Histograms::turn_ns,
    },
];
