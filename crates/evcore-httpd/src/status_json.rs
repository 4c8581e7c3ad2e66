//! `/status.json`: the counters and metrics of each worker, and their sums.

use std::fmt::{self, Display, Formatter};

use crate::{
    metrics::{Distribution, Metrics},
    scoreboard::{Scoreboard, WorkerStats, jain},
};

/// Formats the page from the current contents of the scoreboard.
///
/// The sums include workers that have ended, as in `/status`. The list does not.
#[derive(Debug)]
pub struct StatusJson<'a>(pub &'a Scoreboard);

impl Display for StatusJson<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let workers: Vec<_> = WorkerStats::running(self.0).collect();
        let jain = jain(workers.iter().map(|stats| stats.active));
        f.write_str("{")?;
        counts(f, &WorkerStats::sum_of(self.0))?;
        write!(f, ",\"jain\":{jain:.4},\"workers\":[")?;
        for (place, stats) in workers.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let Metrics { index, pid, .. } = stats.metrics;
            write!(f, "{comma}\n{{\"worker\":{index},\"pid\":{pid},")?;
            counts(f, stats)?;
            metrics(f, &stats.metrics)?;
        }
        f.write_str("\n]}\n")
    }
}

fn counts(f: &mut Formatter<'_>, counts: &WorkerStats) -> fmt::Result {
    write!(
        f,
        "\"active\":{},\"accepted\":{},\"handled\":{},\"requests\":{},\
         \"reading\":{},\"writing\":{},\"waiting\":{}",
        counts.active,
        counts.accepted,
        counts.handled,
        counts.requests,
        counts.reading,
        counts.writing,
        counts.waiting
    )
}

fn metrics(f: &mut Formatter<'_>, metrics: &Metrics) -> fmt::Result {
    write!(
        f,
        ",\"turns\":{},\"events\":{},\"stale_events\":{},\"timers_armed\":{},\"timers_fired\":{}",
        metrics.turns, metrics.events, metrics.stale, metrics.timers_armed, metrics.timers_fired
    )?;
    distribution(f, "timer_lateness_us", metrics.lateness)?;
    distribution(f, "turn_us", metrics.turn)?;
    f.write_str("}")
}

fn distribution(f: &mut Formatter<'_>, name: &str, distribution: Distribution) -> fmt::Result {
    let us = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
    write!(
        f,
        ",\"{name}\":{{\"mean\":{},\"p99\":{},\"max\":{}}}",
        us(distribution.mean_ns),
        us(distribution.p99_ns),
        us(distribution.max_ns)
    )
}

#[cfg(test)]
mod tests {
    use evcore::balancer::WorkerId;

    use super::*;

    #[test]
    fn the_page_lists_living_workers_and_sums_over_all() {
        let scoreboard = WorkerStats::scoreboard(4).expect("a page");
        // The worker of slot 1 has ended. Slot 3 never had one.
        for (slot, pid, index) in [(0, 101, 1), (1, 0, 0), (2, 100, 0)] {
            let lateness = Distribution {
                mean_ns: 1_002,
                p99_ns: 30_040,
                max_ns: 999,
            };
            let metrics = Metrics {
                pid,
                index,
                turns: 7,
                lateness,
                ..Metrics::default()
            };
            let stats = WorkerStats {
                active: if slot == 1 { 0 } else { 3 },
                accepted: 5,
                metrics,
                ..WorkerStats::default()
            };
            scoreboard.publish(WorkerId::from_slot(slot), &stats.to_array());
        }
        let page = StatusJson(&scoreboard).to_string();
        let counts = |active, accepted| {
            format!(
                "\"active\":{active},\"accepted\":{accepted},\"handled\":0,\"requests\":0,\
                 \"reading\":0,\"writing\":0,\"waiting\":0"
            )
        };
        let worker = |index: u64| {
            format!(
                "{{\"worker\":{index},\"pid\":{},{},\"turns\":7,\"events\":0,\"stale_events\":0,\
                 \"timers_armed\":0,\"timers_fired\":0,\
                 \"timer_lateness_us\":{{\"mean\":1.002,\"p99\":30.040,\"max\":0.999}},\
                 \"turn_us\":{{\"mean\":0.000,\"p99\":0.000,\"max\":0.000}}}}",
                100 + index,
                counts(3, 5)
            )
        };
        let expected = format!(
            "{{{},\"jain\":1.0000,\"workers\":[\n{},\n{}\n]}}\n",
            counts(6, 15),
            worker(1),
            worker(0)
        );
        assert_eq!(page, expected);
    }
}
