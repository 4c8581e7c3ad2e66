//! Draws the last line of a terminal: the connections of the server, its requests per second, and
//! the duration of a turn (an iteration of a worker's event loop). A redirected log has no such
//! line.

use std::io::IsTerminal;

use crate::{
    counters::Counter,
    log,
    measures::TURN,
    scoreboard::{Snapshot, WorkerStats},
};

/// The maximum number of workers whose connections the line lists one by one.
const LISTED: usize = 8;

/// Draws the line at each sample except the first, because a rate needs two samples. Dropping this
/// value clears the line.
#[derive(Debug)]
pub struct LiveLine {
    last: Option<Snapshot>,
}

impl LiveLine {
    /// Creates a line if standard error is a terminal and `--quiet` is not given.
    pub fn new(is_quiet: bool) -> Option<Self> {
        let is_shown = !is_quiet && std::io::stderr().is_terminal();
        is_shown.then_some(Self { last: None })
    }

    pub fn draw(&mut self, now: Snapshot) {
        if let Some(last) = &self.last {
            log::draw(&text(last, &now));
        }
        self.last = Some(now);
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        log::draw("");
    }
}

fn text(last: &Snapshot, now: &Snapshot) -> String {
    let workers: Vec<&WorkerStats> = now.running().collect();
    let active: u64 = workers.iter().map(|stats| stats.active).sum();
    let each = workers.iter().map(|stats| stats.active.to_string());
    let each = match workers.len() {
        1 => String::new(),
        2..=LISTED => format!(" ({})", each.collect::<Vec<_>>().join(" ")),
        count => format!(" ({count} workers)"),
    };
    let requests = |at: &Snapshot| at.sum().counters[Counter::Requests];
    let ms = now.monotonic_ms.saturating_sub(last.monotonic_ms).max(1);
    let rate = requests(now).saturating_sub(requests(last)) * 1000 / ms;
    let turns = workers.iter().map(|stats| stats.metrics.times[TURN].p99_ns);
    let us = turns.max().unwrap_or(0) / 1000;
    format!("{active} connections{each}, {rate} requests/s, turn p99 {us} µs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        counters::Counters,
        metrics::{Distribution, Metrics},
        server_stats::ServerStats,
    };

    fn snapshot(monotonic_ms: u64, workers: &[(u64, u64, u64)]) -> Snapshot {
        let worker = |&(pid, active, requests): &(u64, u64, u64)| {
            let turn = Distribution {
                p99_ns: 1_234_567 * pid,
                ..Distribution::default()
            };
            let mut counters = Counters::default();
            counters[Counter::Requests] = requests;
            WorkerStats {
                active,
                counters,
                metrics: Metrics {
                    pid,
                    times: [Distribution::default(), turn],
                    ..Metrics::default()
                },
                ..WorkerStats::default()
            }
        };
        Snapshot {
            monotonic_ms,
            unix_ms: 0,
            server: ServerStats::default(),
            workers: workers.iter().map(worker).collect(),
        }
    }

    #[test]
    fn the_line_has_connections_requests_and_turns() {
        let last = snapshot(1_000, &[(1, 5, 100), (2, 5, 100)]);
        // The second slot's worker has ended, and a third one has begun.
        let now = snapshot(1_500, &[(1, 7, 150), (0, 0, 120), (2, 3, 30)]);
        let line = "10 connections (7 3), 200 requests/s, turn p99 2469 µs";
        assert_eq!(text(&last, &now), line);
        let one = snapshot(1_500, &[(1, 7, 150)]);
        let line = "7 connections, 0 requests/s, turn p99 1234 µs";
        assert_eq!(text(&last, &one), line);
    }
}
