//! What sharing a listener should reach.

use super::Bound::{AtLeast, AtMost};
use super::Target;
use crate::bench::page::{kills, shortage};
use crate::bench::results::Results;

const LEAST_LOADED: &str = "httpd least-loaded";
const EXCLUSIVE: &str = "httpd exclusive";
const MUTEX: &str = "httpd mutex";

/// The policies by which workers share one listener.
const SHARING: [&str; 4] = ["httpd off", MUTEX, EXCLUSIVE, LEAST_LOADED];

/// All: with a listener each, too.
const OURS: [&str; 5] = [
    "httpd off",
    MUTEX,
    EXCLUSIVE,
    "httpd reuseport",
    LEAST_LOADED,
];

/// With how many workers there are targets.
const WORKERS: [u64; 2] = [4, 8];

/// The longest that a client may wait for one worker's sake, in milliseconds: the delay, and a
/// slice of the scheduler's.
const LONGEST_WAIT_MS: f64 = 510.0;

pub(super) const TARGETS: &[Target] = &[
    Target {
        what: "Jain index, 4 and 8 workers, `least-loaded`, at rest",
        bound: AtLeast(0.99),
        unit: "",
        of: |run| jain(run, "accept/rest", LEAST_LOADED),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `least-loaded`, one at a time",
        bound: AtLeast(0.99),
        unit: "",
        of: |run| jain(run, "accept/single", LEAST_LOADED),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `least-loaded`, bursts of 64",
        bound: AtLeast(0.99),
        unit: "",
        of: |run| jain(run, "accept/burst", LEAST_LOADED),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `least-loaded`, after two workers' were closed",
        bound: AtLeast(0.99),
        unit: "",
        of: |run| jain(run, "accept/halfway", LEAST_LOADED),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `exclusive`, one at a time",
        bound: AtLeast(0.97),
        unit: "",
        of: |run| jain(run, "accept/single", EXCLUSIVE),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `exclusive`, bursts of 64",
        bound: AtLeast(0.97),
        unit: "",
        of: |run| jain(run, "accept/burst", EXCLUSIVE),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `mutex`, one at a time",
        bound: AtLeast(0.97),
        unit: "",
        of: |run| jain(run, "accept/single", MUTEX),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `mutex`, bursts of 64",
        bound: AtLeast(0.97),
        unit: "",
        of: |run| jain(run, "accept/burst", MUTEX),
    },
    Target {
        what: "extra wakes a connection, 4 and 8 workers, `least-loaded`",
        bound: AtMost(0.25),
        unit: "",
        of: |run| most(WORKERS.map(|n| median(run, "accept/rest", n, LEAST_LOADED, "extra"))),
    },
    Target {
        what: "longest wait while one worker is blocked, any policy",
        bound: AtMost(LONGEST_WAIT_MS),
        unit: "ms",
        of: longest_while_blocked,
    },
    Target {
        what: "nobody accepts for longer than the delay after a kill, any policy",
        bound: AtMost(0.0),
        unit: "times",
        of: |run| beyond_the_delay(run, "kills/kill", &OURS),
    },
    Target {
        // There who is stopped has clients of its own, whom nobody else can take.
        what: "nobody accepts for longer than the delay after a stop, any policy but `reuseport`",
        bound: AtMost(0.0),
        unit: "times",
        of: |run| beyond_the_delay(run, "kills/stop", &SHARING),
    },
    Target {
        what: "CPU while out of descriptors, any policy",
        bound: AtMost(2.0),
        unit: "%",
        of: |run| most(OURS.map(|peer| median(run, shortage::WORKLOAD, 2, peer, "cpu_percent"))),
    },
    Target {
        what: "longest from a close to the next service while out of descriptors, any policy",
        bound: AtMost(100.0),
        unit: "ms",
        of: longest_until_resumed,
    },
];

/// The lesser of the medians.
fn jain(run: &Results, workload: &str, peer: &str) -> Option<f64> {
    let medians = WORKERS.map(|workers| median(run, workload, workers, peer, "jain"));
    medians.into_iter().flatten().reduce(f64::min)
}

fn longest_while_blocked(run: &Results) -> Option<f64> {
    let longest = |peer| {
        let of = |n| run.figures.spread("accept/blocked", n, peer, "max_us");
        most(WORKERS.map(|n| of(n).map(|us| us.most / 1e3)))
    };
    most(OURS.map(longest))
}

fn beyond_the_delay(run: &Results, workload: &str, policies: &[&str]) -> Option<f64> {
    let each = policies.iter();
    let each = each.filter_map(|peer| kills::beyond(run, workload, peer));
    each.reduce(|sum, times| sum + times)
}

fn longest_until_resumed(run: &Results) -> Option<f64> {
    let of = |peer| {
        run.figures
            .spread(shortage::WORKLOAD, 2, peer, "resumed_us")
    };
    most(OURS.map(|peer| of(peer).map(|us| us.most / 1e3)))
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

    fn reached(records: &str) -> Vec<[String; 3]> {
        let mut run = Results::default();
        run.read(records).unwrap();
        let reached = super::super::reached(&run).into_iter();
        reached.map(|(target, value)| target.cells(value)).collect()
    }

    #[test]
    fn the_worse_of_four_and_eight_workers_is_judged() {
        let found = reached(
            "figure\taccept/single\t2\thttpd mutex\tjain\t0.5\n\
             figure\taccept/single\t4\thttpd mutex\tjain\t0.99\n\
             figure\taccept/single\t8\thttpd mutex\tjain\t0.96\n\
             figure\taccept/burst\t4\thttpd mutex\tjain\t0.97\n",
        );
        let verdicts: Vec<&str> = found
            .iter()
            .map(|[_, _, verdict]| verdict.as_str())
            .collect();
        assert_eq!(verdicts, ["missed", "met"]);
    }

    #[test]
    fn policies_are_judged_together_and_neither_peers_nor_who_stops_its_own_clients() {
        let found = reached(
            "figure\tkills/stop\t8\thttpd off\ttook_us\t900 700\n\
             figure\tkills/stop\t8\thttpd mutex\ttook_us\t900000 700\n\
             figure\tkills/kill\t8\thttpd mutex\ttook_us\t900 700\n\
             figure\tkills/kill\t8\thttpd reuseport\ttook_us\t700\n\
             figure\tkills/stop\t8\thttpd reuseport\ttook_us\t900000\n\
             figure\tkills/kill\t8\tnginx accept_mutex on\ttook_us\t900000\n",
        );
        let times: Vec<&str> = found.iter().map(|[_, here, _]| here.as_str()).collect();
        assert_eq!(times, ["0 times", "1.0 times"]);
    }
}
