//! What the project set out to reach, beside what a run reached.

use super::results::Results;
use super::statistics::shown;

/// A figure of a run, and the most that it should be.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) what: &'static str,
    most: f64,
    unit: &'static str,
    of: fn(&Results) -> Option<f64>,
}

/// Of timers and clock. A ratio is better than a time, where one machine is not like another.
const TARGETS: &[Target] = &[
    Target {
        what: "re-arm, 10^5 armed, `TimerWheel`",
        most: 10.0,
        unit: "ns",
        of: |run| ns(run, "timers/rearm", 100_000, "TimerWheel"),
    },
    Target {
        what: "re-arm, 10^5 armed, `NeverEarly<TimerWheel>`",
        most: 4.0,
        unit: "ns",
        of: |run| ns(run, "timers/rearm", 100_000, "NeverEarly<TimerWheel>"),
    },
    Target {
        what: "re-arm, 10^5 armed, `TimerWheel` to `TimerTree`",
        most: 1.0 / 15.0,
        unit: "of it",
        of: |run| wheel_to_tree(run, 100_000),
    },
    Target {
        what: "re-arm, 10^6 armed, `TimerWheel`",
        most: 25.0,
        unit: "ns",
        of: |run| ns(run, "timers/rearm", 1_000_000, "TimerWheel"),
    },
    Target {
        what: "re-arm, 10^6 armed, `TimerWheel` to `TimerTree`",
        most: 1.0 / 25.0,
        unit: "of it",
        of: |run| wheel_to_tree(run, 1_000_000),
    },
    Target {
        what: "expire, 10^5 armed, a timer, `TimerWheel`",
        most: 35.0,
        unit: "ns",
        of: |run| ns(run, "timers/expire", 100_000, "TimerWheel"),
    },
    Target {
        what: "longest call, 10^6 armed, `TimerWheel`",
        most: 50_000.0,
        unit: "ns",
        of: |run| run.longest("timers/expire", 1_000_000, "TimerWheel"),
    },
    Target {
        what: "read of the cached time, `Clock`",
        most: 1.5,
        unit: "ns",
        of: |run| ns(run, "clock/read", 1, "Clock::monotonic_ms"),
    },
    Target {
        what: "snapshot with the HTTP date, updated by another thread, `SharedClock`",
        most: 15.0,
        unit: "ns",
        of: |run| ns(run, "clock/read", 1, "SharedClock::snapshot"),
    },
];

impl Target {
    /// The cells of its row: target, reached, verdict.
    pub(super) fn cells(&self, reached: f64) -> [String; 3] {
        let verdict = if reached <= self.most {
            "met".to_owned()
        } else {
            format!("missed: {} times as much", shown(reached / self.most))
        };
        let with_unit = |value| format!("{} {}", shown(value), self.unit);
        [with_unit(self.most), with_unit(reached), verdict]
    }
}

/// The targets that this run says something about, with what it says.
pub(super) fn reached(run: &Results) -> Vec<(&'static Target, f64)> {
    let reached = TARGETS.iter().map(|target| (target, (target.of)(run)));
    reached
        .filter_map(|(target, reached)| Some((target, reached?)))
        .collect()
}

fn ns(run: &Results, workload: &str, size: u64, peer: &str) -> Option<f64> {
    run.figure(workload, size, peer)
        .map(|figure| figure.ns.median)
}

/// Of the medians: the table has the ratios to another baseline.
fn wheel_to_tree(run: &Results, size: u64) -> Option<f64> {
    let rearm = |peer| ns(run, "timers/rearm", size, peer);
    Some(rearm("TimerWheel")? / rearm("TimerTree")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_measured_is_judged_and_what_is_missed_is_said() {
        let run = Results::made_up();
        let reached = reached(&run);
        let (wheel, ns) = &reached[0];
        assert_eq!(reached.len(), 1);
        assert_eq!(wheel.cells(*ns), ["10.0 ns", "8.0 ns", "met"]);
        assert_eq!(wheel.cells(20.0)[2], "missed: 2.0 times as much");
    }
}
