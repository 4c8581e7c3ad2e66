//! What the project set out to reach, beside what a run reached.

mod accepting;
mod fairness;
mod judged;

use self::Bound::{AtLeast, AtMost};
use super::count::TIMEOUTS;
use super::results::Results;
use super::statistics::shown;
use super::strace::Calls;

/// A figure of a run, and what it should be.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) what: &'static str,
    bound: Bound,
    unit: &'static str,
    of: fn(&Results) -> Option<f64>,
}

/// The most, or the least, that a figure should be.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// In the order of the page. A ratio is better than a time, where one machine is not like another.
const TARGETS: &[Target] = &[
    Target {
        what: "re-arm, 10^5 armed, `TimerWheel`",
        bound: AtMost(10.0),
        unit: "ns",
        of: |run| ns(run, "timers/rearm", 100_000, "TimerWheel"),
    },
    Target {
        what: "re-arm, 10^5 armed, `Lazy<TimerWheel>`",
        bound: AtMost(4.0),
        unit: "ns",
        of: |run| ns(run, "timers/rearm", 100_000, "Lazy<TimerWheel>"),
    },
    Target {
        what: "re-arm, 10^5 armed, `TimerWheel` to `TimerTree`",
        bound: AtMost(1.0 / 15.0),
        unit: "of it",
        of: |run| wheel_to_tree(run, 100_000),
    },
    Target {
        what: "re-arm, 10^6 armed, `TimerWheel`",
        bound: AtMost(25.0),
        unit: "ns",
        of: |run| ns(run, "timers/rearm", 1_000_000, "TimerWheel"),
    },
    Target {
        what: "re-arm, 10^6 armed, `TimerWheel` to `TimerTree`",
        bound: AtMost(1.0 / 25.0),
        unit: "of it",
        of: |run| wheel_to_tree(run, 1_000_000),
    },
    Target {
        what: "expire, 10^5 armed, a timer, `TimerWheel`",
        bound: AtMost(35.0),
        unit: "ns",
        of: |run| ns(run, "timers/expire", 100_000, "TimerWheel"),
    },
    Target {
        what: "longest call, 10^6 armed, `TimerWheel`",
        bound: AtMost(50_000.0),
        unit: "ns",
        of: |run| run.longest("timers/expire", 1_000_000, "TimerWheel"),
    },
    Target {
        what: "read of the cached time, `Clock`",
        bound: AtMost(1.5),
        unit: "ns",
        of: |run| ns(run, "clock/read", 1, "Clock::monotonic_ms"),
    },
    Target {
        what: "snapshot with the HTTP date, updated by another thread, `SharedClock`",
        bound: AtMost(15.0),
        unit: "ns",
        of: |run| ns(run, "clock/read", 1, "SharedClock::snapshot"),
    },
    Target {
        what: "instructions an event, 200 pairs, 100 active, `Poller`",
        bound: AtMost(90.0),
        unit: "",
        of: |run| instructions(run, "pollers/pipes/100", "Poller"),
    },
    Target {
        what: "instructions an event, 200 pairs, 100 active, `EventLoop`",
        bound: AtMost(90.0),
        unit: "",
        of: |run| instructions(run, "pollers/pipes/100", "EventLoop"),
    },
    Target {
        what: "instructions an event with a timer re-armed, `EventLoop`",
        bound: AtMost(200.0),
        unit: "",
        of: |run| instructions(run, "pollers/timers/100", "EventLoop"),
    },
    Target {
        what: "stop and start of a descriptor, `Poller`",
        bound: AtMost(15.0),
        unit: "ns",
        of: |run| ns(run, "pollers/toggle", 1, "Poller"),
    },
    Target {
        what: "system calls a stop and start, `Poller`",
        bound: AtMost(0.0),
        unit: "",
        of: |run| calls(run, "pollers/toggle", "Poller"),
    },
    Target {
        what: "system calls a wait, whatever the timeout, `Poller` over epoll",
        bound: AtMost(1.0),
        unit: "",
        of: |run| calls_a_wait(run, "Poller"),
    },
    Target {
        what: "system calls a wait, whatever the timeout, `Poller` over poll",
        bound: AtMost(1.0),
        unit: "",
        of: |run| calls_a_wait(run, "Poller, poll"),
    },
    Target {
        what: "system calls a wait, whatever the timeout, `Poller` over select",
        bound: AtMost(1.0),
        unit: "",
        of: |run| calls_a_wait(run, "Poller, select"),
    },
    Target {
        what: "a wait among as many descriptors as there can be, to one among ten, `Poller`",
        // Equal, within the difference of two measurements of the same thing.
        bound: AtMost(1.1),
        unit: "of it",
        of: |run| many_to_few(run, "Poller"),
    },
];

impl Target {
    /// The cells of its row: target, reached, verdict.
    pub(super) fn cells(&self, reached: f64) -> [String; 3] {
        let with_unit = |value: f64| {
            let number = if value == 0.0 {
                "0".to_owned()
            } else {
                shown(value)
            };
            format!("{number} {}", self.unit).trim_end().to_owned()
        };
        let target = match self.bound {
            AtMost(most) => format!("at most {}", with_unit(most)),
            AtLeast(least) => format!("at least {}", with_unit(least)),
        };
        [target, with_unit(reached), self.bound.verdict(reached)]
    }
}

impl Bound {
    fn verdict(self, reached: f64) -> String {
        match self {
            AtMost(most) if reached <= most => "met".to_owned(),
            AtMost(most) if most > 0.0 => {
                format!("missed: {} times as much", shown(reached / most))
            }
            AtLeast(least) if reached >= least => "met".to_owned(),
            AtMost(_) | AtLeast(_) => "missed".to_owned(),
        }
    }
}

/// The targets that this run has results for, with the results.
pub(super) fn reached(run: &Results) -> Vec<(&'static Target, f64)> {
    let accept = fairness::TARGETS.iter().chain(accepting::TARGETS);
    let targets = TARGETS.iter().chain(accept);
    let reached = targets.map(|target| (target, (target.of)(run)));
    reached
        .filter_map(|(target, reached)| Some((target, reached?)))
        .collect()
}

/// The cells of the targets that these records say something about.
#[cfg(test)]
fn reached_by(records: &str) -> Vec<[String; 3]> {
    let mut run = Results::default();
    run.read(records).expect("they are records");
    let reached = reached(&run).into_iter();
    reached.map(|(target, value)| target.cells(value)).collect()
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

fn instructions(run: &Results, workload: &str, peer: &str) -> Option<f64> {
    run.counted.instructions(workload, peer)
}

fn calls(run: &Results, workload: &str, peer: &str) -> Option<f64> {
    run.counted.calls(workload, peer).map(Calls::in_all)
}

/// With the timeout that takes the most.
fn calls_a_wait(run: &Results, peer: &str) -> Option<f64> {
    let calls = TIMEOUTS.map(|(workload, _)| calls(run, workload, peer));
    calls.into_iter().flatten().reduce(f64::max)
}

/// Of the medians, of the most descriptors and the fewest.
fn many_to_few(run: &Results, peer: &str) -> Option<f64> {
    let workload = "pollers/watched";
    let sizes = run.sizes(workload);
    let (few, many) = (sizes.first()?, sizes.last()?);
    Some(ns(run, workload, *many, peer)? / ns(run, workload, *few, peer)?)
}

fn median(run: &Results, workload: &str, workers: u64, peer: &str, what: &str) -> Option<f64> {
    let spread = run.figures.spread(workload, workers, peer, what);
    spread.map(|spread| spread.median)
}

fn most<const N: usize>(values: [Option<f64>; N]) -> Option<f64> {
    values.into_iter().flatten().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_measured_is_judged_and_what_is_missed_is_said() {
        let run = Results::fake();
        let reached = reached(&run);
        let (wheel, ns) = &reached[0];
        assert_eq!(reached.len(), 1);
        assert_eq!(wheel.cells(*ns), ["at most 10.0 ns", "8.0 ns", "met"]);
        assert_eq!(wheel.cells(20.0)[2], "missed: 2.0 times as much");
    }

    #[test]
    fn the_most_expensive_timeout_is_judged() {
        let mut run = Results::default();
        for (workload, name) in [("pollers/wait/none", "a"), ("pollers/wait/zero", "b")] {
            let calls = Calls::once(&[name]);
            run.counted.add_calls(workload, "Poller", calls);
        }
        let two = Calls::once(&["a", "b"]);
        run.counted
            .add_calls("pollers/wait/short", "Poller", two.clone());
        run.counted.add_calls("pollers/toggle", "Poller", two);
        let cells = reached(&run).into_iter().map(|(target, n)| target.cells(n));
        let cells: Vec<[String; 3]> = cells.collect();
        assert_eq!(cells[0], ["at most 0", "2.0", "missed"]);
        assert_eq!(
            cells[1],
            ["at most 1.0", "2.0", "missed: 2.0 times as much"]
        );
    }
}
