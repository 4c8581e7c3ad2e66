//! `/status.json`: the counters and metrics of each worker, and their sums.
//!
//! `docs/httpd.md` describes the fields. They have the order of the structures in this file, and of
//! the table of counters.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{
    counters::{Counters, Group, ROWS},
    measures::{GAUGES, TIMES},
    metrics::Distribution,
    phases::Phases,
    scoreboard::{Snapshot, WorkerStats, jain},
    server_stats::{self, ServerStats},
};

/// The page. The sums include workers that have ended, as in `/status`. The list of workers does
/// not, and its counters begin at the start of each worker.
#[derive(Debug, Serialize)]
pub struct StatusJson {
    time_ms: i64,
    uptime_ms: u64,
    #[serde(flatten)]
    server: Server,
    #[serde(flatten)]
    sums: Counts,
    jain: Box<RawValue>,
    workers: Vec<Worker>,
}

#[derive(Debug)]
struct Server(ServerStats);

#[derive(Debug, Serialize)]
struct Counts {
    active: u64,
    #[serde(flatten)]
    counters: Fields,
    #[serde(flatten)]
    phases: Phases,
    #[serde(flatten)]
    traffic: Fields,
}

#[derive(Debug)]
struct Fields(Counters, Group);

#[derive(Debug, Serialize)]
struct Worker {
    worker: u64,
    pid: u64,
    uptime_ms: u64,
    memory_bytes: u64,
    #[serde(flatten)]
    counts: Counts,
    #[serde(flatten)]
    counters: Fields,
    #[serde(flatten)]
    gauges: Gauges,
    #[serde(flatten)]
    timers: Fields,
    #[serde(flatten)]
    times: Times,
}

#[derive(Debug)]
struct Gauges([u64; GAUGES.len()]);

#[derive(Debug)]
struct Times([Distribution; TIMES.len()]);

/// A distribution, in microseconds with three decimals.
#[derive(Debug, Serialize)]
struct Microseconds {
    mean: Box<RawValue>,
    p50: Box<RawValue>,
    p99: Box<RawValue>,
    max: Box<RawValue>,
}

impl StatusJson {
    pub fn new(at: &Snapshot) -> Self {
        // A worker's cached time may be slightly behind another worker's.
        let since = |started_ms| at.monotonic_ms.saturating_sub(started_ms);
        let sums = at.sum();
        let jain = jain(at.running().map(|stats| stats.active));
        let worker = |stats: &WorkerStats| Worker::new(stats, since(stats.metrics.started_ms));
        Self {
            time_ms: at.unix_ms,
            uptime_ms: since(at.server.started_ms),
            server: Server(at.server),
            sums: Counts::new(&sums, sums.counters),
            jain: number(format!("{jain:.4}")),
            workers: at.running().map(worker).collect(),
        }
    }

    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string(self).expect("numbers are always valid JSON");
        text.push('\n');
        text
    }
}

impl Counts {
    fn new(stats: &WorkerStats, counters: Counters) -> Self {
        Self {
            active: stats.active,
            counters: Fields(counters, Group::Connections),
            phases: stats.phases,
            traffic: Fields(counters, Group::Traffic),
        }
    }
}

impl Worker {
    fn new(stats: &WorkerStats, uptime_ms: u64) -> Self {
        let metrics = &stats.metrics;
        let own = stats.since_start();
        Self {
            worker: stats.totals.index,
            pid: metrics.pid,
            uptime_ms,
            memory_bytes: metrics.memory_bytes,
            counts: Counts::new(stats, own),
            counters: Fields(own, Group::EventLoop),
            gauges: Gauges(metrics.gauges),
            timers: Fields(own, Group::Timers),
            times: Times(metrics.times),
        }
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(counters, group) = self;
        let rows = ROWS.iter().filter(|row| row.group == *group);
        serializer.collect_map(rows.map(|row| (row.field, counters[row.counter])))
    }
}

impl Serialize for Server {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = server_stats::ROWS.iter();
        serializer.collect_map(rows.map(|row| (row.field, self.0[row.number])))
    }
}

impl Serialize for Gauges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(GAUGES.iter().map(|row| row.field).zip(self.0))
    }
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let times = self.0.map(Microseconds::new);
        serializer.collect_map(TIMES.iter().map(|row| row.field).zip(times))
    }
}

impl Microseconds {
    fn new(of: Distribution) -> Self {
        let us = |ns: u64| number(format!("{}.{:03}", ns / 1000, ns % 1000));
        Self {
            mean: us(of.mean_ns),
            p50: us(of.p50_ns),
            p99: us(of.p99_ns),
            max: us(of.max_ns),
        }
    }
}

/// A number with these digits. (As a float, it would lose zeros at its end.)
fn number(digits: String) -> Box<RawValue> {
    RawValue::from_string(digits).expect("digits and a point")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evcore::{
        balancer::WorkerId,
        clock::{Clock, ManualTimeSource},
    };

    use super::*;
    use crate::metrics::{Metrics, Totals};

    #[test]
    fn the_page_lists_living_workers_and_sums_over_all() {
        let time = ManualTimeSource::at(1_764_000_000);
        let mut clock = Clock::with_source(time.clone());
        let scoreboard = WorkerStats::scoreboard(4).expect("a page");
        time.advance(Duration::from_millis(100));
        clock.update();
        scoreboard.record_start(&clock);
        scoreboard.count(server_stats::Number::Reloads, 1);
        // The worker of slot 1 has ended. Slot 3 never had a worker.
        for (slot, pid, index) in [(0, 101, 1), (1, 0, 0), (2, 100, 0)] {
            let lateness = Distribution {
                mean_ns: 1_002,
                p50_ns: 0,
                p99_ns: 30_040,
                max_ns: 999,
            };
            let stats = WorkerStats {
                active: if slot == 1 { 0 } else { 3 },
                counters: Counters::from_array([
                    5, 15, 35, 45, 55, 25, 65, 75, 85, 95, 9, 19, 29, 39,
                ]),
                metrics: Metrics {
                    pid,
                    started_ms: 120,
                    times: [lateness, Distribution::default()],
                    ..Metrics::default()
                },
                totals: Totals {
                    index,
                    ..Totals::default()
                },
                // An earlier worker of the slot has made these counts.
                at_start: Counters::from_array([1, 2, 8, 9, 10, 3, 11, 12, 13, 14, 4, 5, 6, 7]),
                ..WorkerStats::default()
            };
            scoreboard.publish(WorkerId::from_slot(slot), &stats);
        }
        time.advance(Duration::from_millis(50));
        clock.update();
        let page = StatusJson::new(&Snapshot::of(&scoreboard, &clock)).to_text();
        let counts = |active, counts: [u64; 10]| {
            let [
                accepted,
                handled,
                arrived,
                handed_over,
                taken_back,
                requests,
                received,
                sent,
                samples,
                late,
            ] = counts;
            format!(
                "\"active\":{active},\"accepted\":{accepted},\"handled\":{handled},\
                 \"arrived\":{arrived},\"handed_over\":{handed_over},\
                 \"taken_back\":{taken_back},\"requests\":{requests},\
                 \"reading\":0,\"writing\":0,\"waiting\":0,\
                 \"received_bytes\":{received},\"sent_bytes\":{sent},\
                 \"accept_samples\":{samples},\"late_accepts\":{late}"
            )
        };
        let worker = |index: u64| {
            format!(
                "{{\"worker\":{index},\"pid\":{},\"uptime_ms\":30,\"memory_bytes\":0,{},\"turns\":5,\"events\":14,\
                 \"stale_events\":23,\"timers_armed\":0,\"timers_fired\":32,\
                 \"timer_lateness_us\":{{\"mean\":1.002,\"p50\":0.000,\"p99\":30.040,\"max\":0.999}},\
                 \"turn_us\":{{\"mean\":0.000,\"p50\":0.000,\"p99\":0.000,\"max\":0.000}}}}",
                100 + index,
                counts(3, [4, 13, 27, 36, 45, 22, 54, 63, 72, 81])
            )
        };
        let expected = format!(
            "{{\"time_ms\":1764000000150,\"uptime_ms\":50,\"reloads\":1,\"restarts\":0,\"kept\":0,\"lost\":0,\
             \"listen_queue\":0,\"listen_overflows\":0,\"listen_drops\":0,{},\
             \"jain\":1.0000,\"workers\":[{},{}]}}\n",
            counts(6, [15, 45, 105, 135, 165, 75, 195, 225, 255, 285]),
            worker(1),
            worker(0)
        );
        assert_eq!(page, expected);
    }
}
