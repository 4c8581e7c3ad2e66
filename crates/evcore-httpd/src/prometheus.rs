//! `/metrics`: the text format of Prometheus, version 0.0.4.
//!
//! `docs/httpd.md` describes the metrics. The page is made from the scoreboard, where each worker
//! publishes its numbers in a slot. Making the page takes a read of all slots, and the formatting
//! of some 50 lines for each worker. The page is not cached, because a client that got an older
//! page from another worker would see counters go back.
//!
//! The label `worker` is the index of a worker, not its process id. A series is the sum over all
//! slots that workers of this index have used. The counters in a slot stay when a worker dies, so
//! no series of a counter goes back.

use std::fmt::{Display, Write};

use evcore::clock::Clock;

use crate::{
    buckets::{BOUNDS, Buckets},
    counters::ROWS,
    measures::{GAUGES, MEMORY, MEMORY_HELP, TIMES},
    scoreboard::{Scoreboard, WorkerStats},
    server_stats,
};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The maximum size of one worker's lines, or of the server's lines with all headings, in bytes.
const PAGE_BYTES: usize = 5120;

pub fn page(scoreboard: &Scoreboard, clock: &Clock) -> String {
    let workers = WorkerStats::by_index(scoreboard);
    // The capacity is enough for all lines, so that the page does not move while it grows.
    let mut page = Page(String::with_capacity((1 + workers.len()) * PAGE_BYTES));
    page.server(scoreboard, clock);
    page.connections(&workers);
    for row in ROWS {
        let value = |stats: &WorkerStats| stats.counters[row.counter];
        page.per_worker((row.metric, "counter"), row.help, &workers, value);
    }
    for (at, row) in GAUGES.iter().enumerate() {
        let value = |stats: &WorkerStats| stats.metrics.gauges[at];
        page.per_worker((row.metric, "gauge"), row.help, &workers, value);
    }
    let memory = |stats: &WorkerStats| stats.metrics.memory_bytes;
    page.per_worker((MEMORY, "gauge"), MEMORY_HELP, &workers, memory);
    for (at, row) in TIMES.iter().enumerate() {
        let buckets = workers.iter().map(|stats| &stats.totals.times[at]);
        page.histogram(row.metric, row.help, buckets);
    }
    page.0
}

struct Page(String);

impl Page {
    fn server(&mut self, scoreboard: &Scoreboard, clock: &Clock) {
        let server = scoreboard.server();
        let uptime_ms = clock.monotonic_ms().saturating_sub(server.started_ms);
        self.family("httpd_build_info", "gauge", "The version; always 1.");
        let version = concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"");
        self.sample("httpd_build_info", version, 1);
        self.single(
            ("httpd_start_time_seconds", "gauge"),
            "When the server started, in seconds since 1970.",
            Thousandths(server.started_unix_ms),
        );
        self.single(
            ("httpd_uptime_seconds", "gauge"),
            "Time since the server started.",
            Thousandths(uptime_ms),
        );
        self.single(
            ("httpd_workers", "gauge"),
            "Workers that run now, with those that finish after a reload.",
            WorkerStats::running(scoreboard).count(),
        );
        for row in server_stats::ROWS {
            self.single((row.metric, row.kind), row.help, server[row.number]);
        }
    }

    fn connections(&mut self, workers: &[WorkerStats]) {
        let name = "httpd_connections";
        self.family(name, "gauge", "Open connections, by state.");
        for (worker, stats) in workers.iter().enumerate() {
            for (state, value) in stats.phases.named() {
                let labels = format!("worker=\"{worker}\",state=\"{state}\"");
                self.sample(name, labels, value);
            }
        }
    }

    fn per_worker(
        &mut self,
        (name, kind): (&str, &str),
        help: &str,
        workers: &[WorkerStats],
        value: impl Fn(&WorkerStats) -> u64,
    ) {
        self.family(name, kind, help);
        for (worker, stats) in workers.iter().enumerate() {
            self.sample(name, format_args!("worker=\"{worker}\""), value(stats));
        }
    }

    fn histogram<'a>(
        &mut self,
        name: &str,
        help: &str,
        workers: impl Iterator<Item = &'a Buckets>,
    ) {
        self.family(name, "histogram", help);
        for (worker, buckets) in workers.enumerate() {
            let mut count = 0;
            let bounds = BOUNDS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
            for (bound, more) in bounds.zip(buckets.counts) {
                count += more;
                let labels = format!("worker=\"{worker}\",le=\"{bound}\"");
                self.sample(format_args!("{name}_bucket"), labels, count);
            }
            let labels = format!("worker=\"{worker}\"");
            let sum = Billionths(buckets.sum_ns);
            self.sample(format_args!("{name}_sum"), &labels, sum);
            self.sample(format_args!("{name}_count"), labels, count);
        }
    }

    fn single(&mut self, (name, kind): (&str, &str), help: &str, value: impl Display) {
        self.family(name, kind, help);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: impl Display, labels: impl Display, value: impl Display) {
        let _ = writeln!(self.0, "{name}{{{labels}}} {value}");
    }
}

/// Milliseconds, which are written as seconds.
struct Thousandths(u64);

impl Display for Thousandths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Nanoseconds, which are written as seconds.
struct Billionths(u64);

impl Display for Billionths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (seconds, ns) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        write!(f, "{seconds}.{ns:09}")
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, time::Duration};

    use evcore::{balancer::WorkerId, clock::ManualTimeSource};

    use super::*;
    use crate::server_stats::Number;

    /// A page of two workers; worker 0 has used two slots.
    fn page_of_two() -> String {
        let time = ManualTimeSource::at(1_764_000_000);
        let mut clock = Clock::with_source(time.clone());
        let scoreboard = WorkerStats::scoreboard(4).expect("a page");
        scoreboard.record_start(&clock);
        scoreboard.count(Number::Restarts, 1);
        for (slot, index) in [(0, 0), (1, 1), (2, 0)] {
            let mut stats = WorkerStats::from_array([1; WorkerStats::LEN]);
            stats.totals.index = index;
            stats.totals.times[1].sum_ns = 1_500_000_000;
            scoreboard.publish(WorkerId::from_slot(slot), &stats);
        }
        scoreboard.release_dead(WorkerId::from_slot(0));
        time.advance(Duration::from_millis(90_007));
        clock.update();
        page(&scoreboard, &clock)
    }

    #[test]
    fn a_series_is_the_sum_over_the_slots_of_a_worker_index() {
        let page = page_of_two();
        for line in [
            "httpd_start_time_seconds 1764000000.000",
            "httpd_uptime_seconds 90.007",
            "httpd_workers 2",
            "httpd_reloads_total 0",
            "httpd_worker_restarts_total 1",
            "httpd_connections_kept_total 0",
            "httpd_connections_lost_total 0",
            "httpd_connections{worker=\"0\",state=\"reading\"} 1",
            "httpd_requests_total{worker=\"0\"} 2",
            "httpd_requests_total{worker=\"1\"} 1",
            "evcore_turns_total{worker=\"0\"} 2",
            "evcore_timers_armed{worker=\"0\"} 1",
            "evcore_turn_duration_seconds_bucket{worker=\"0\",le=\"0.000001\"} 2",
            "evcore_turn_duration_seconds_bucket{worker=\"0\",le=\"1\"} 26",
            "evcore_turn_duration_seconds_bucket{worker=\"0\",le=\"+Inf\"} 28",
            "evcore_turn_duration_seconds_count{worker=\"0\"} 28",
            "evcore_turn_duration_seconds_sum{worker=\"0\"} 3.000000000",
            "evcore_timer_lateness_seconds_sum{worker=\"1\"} 0.000000001",
        ] {
            assert!(page.lines().any(|other| other == line), "{line}: {page}");
        }
    }

    #[test]
    fn each_series_occurs_once_after_its_help_and_type() {
        let page = page_of_two();
        assert!(page.ends_with('\n'));
        let (mut series, mut family, mut kind) = (HashSet::new(), "", "");
        for line in page.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, text) = help.split_once(' ').expect("a text");
                assert!(text.ends_with('.'), "{line}");
                (family, kind) = (name, "");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, its) = rest.split_once(' ').expect("a type");
                assert_eq!(name, family);
                kind = its;
            } else {
                let (name, value) = line.rsplit_once(' ').expect("a value");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                assert!(name.starts_with(family) && !kind.is_empty(), "{line}");
                assert_eq!(kind == "counter", family.ends_with("_total"), "{line}");
                assert!(series.insert(name), "{line}");
            }
        }
        assert!(series.len() > 60, "{page}");
    }
}
