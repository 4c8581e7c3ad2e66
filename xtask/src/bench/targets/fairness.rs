//! How even the shares of workers should be, and how few extra wakes that may cost.

use super::Bound::{AtLeast, AtMost};
use super::judged::{EXCLUSIVE, LEAST_LOADED, MUTEX, WORKERS};
use super::{Target, median, most};
use crate::bench::results::Results;

/// What was set out for is of four and of eight; what two reach stands beside it.
const MORE: &[u64] = &[4, 8];
const TWO: &[u64] = &[2];

pub(super) const TARGETS: &[Target] = &[
    Target {
        what: "Jain index, 4 and 8 workers, `least-loaded`, at rest",
        bound: AtLeast(0.99),
        unit: "",
        of: |run| jain(run, "accept/idle", MORE, LEAST_LOADED),
    },
    Target {
        what: "Jain index, 2 workers, `least-loaded`, at rest",
        bound: AtLeast(0.99),
        unit: "",
        of: |run| jain(run, "accept/idle", TWO, LEAST_LOADED),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `least-loaded`, one at a time",
        bound: AtLeast(0.99),
        unit: "",
        of: |run| jain(run, "accept/single", MORE, LEAST_LOADED),
    },
    Target {
        what: "Jain index, 2 workers, `least-loaded`, one at a time",
        bound: AtLeast(0.99),
        unit: "",
        of: |run| jain(run, "accept/single", TWO, LEAST_LOADED),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `least-loaded`, bursts of 64",
        bound: AtLeast(0.99),
        unit: "",
        of: |run| jain(run, "accept/burst", MORE, LEAST_LOADED),
    },
    Target {
        what: "Jain index, 2 workers, `least-loaded`, bursts of 64",
        bound: AtLeast(0.99),
        unit: "",
        of: |run| jain(run, "accept/burst", TWO, LEAST_LOADED),
    },
    // Of two workers, none would be left.
    Target {
        what: "Jain index, 4 and 8 workers, `least-loaded`, after two workers' were closed",
        bound: AtLeast(0.99),
        unit: "",
        of: |run| jain(run, "accept/halfway", MORE, LEAST_LOADED),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `exclusive`, one at a time",
        bound: AtLeast(0.97),
        unit: "",
        of: |run| jain(run, "accept/single", MORE, EXCLUSIVE),
    },
    Target {
        what: "Jain index, 2 workers, `exclusive`, one at a time",
        bound: AtLeast(0.97),
        unit: "",
        of: |run| jain(run, "accept/single", TWO, EXCLUSIVE),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `exclusive`, bursts of 64",
        bound: AtLeast(0.97),
        unit: "",
        of: |run| jain(run, "accept/burst", MORE, EXCLUSIVE),
    },
    Target {
        what: "Jain index, 2 workers, `exclusive`, bursts of 64",
        bound: AtLeast(0.97),
        unit: "",
        of: |run| jain(run, "accept/burst", TWO, EXCLUSIVE),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `mutex`, one at a time",
        bound: AtLeast(0.97),
        unit: "",
        of: |run| jain(run, "accept/single", MORE, MUTEX),
    },
    Target {
        what: "Jain index, 2 workers, `mutex`, one at a time",
        bound: AtLeast(0.97),
        unit: "",
        of: |run| jain(run, "accept/single", TWO, MUTEX),
    },
    Target {
        what: "Jain index, 4 and 8 workers, `mutex`, bursts of 64",
        bound: AtLeast(0.97),
        unit: "",
        of: |run| jain(run, "accept/burst", MORE, MUTEX),
    },
    Target {
        what: "Jain index, 2 workers, `mutex`, bursts of 64",
        bound: AtLeast(0.97),
        unit: "",
        of: |run| jain(run, "accept/burst", TWO, MUTEX),
    },
    Target {
        what: "extra wakes a connection, 2, 4 and 8 workers, `least-loaded`",
        bound: AtMost(0.25),
        unit: "",
        of: |run| most(WORKERS.map(|n| median(run, "accept/idle", n, LEAST_LOADED, "extra"))),
    },
];

/// The least of the medians.
fn jain(run: &Results, workload: &str, workers: &[u64], peer: &str) -> Option<f64> {
    let medians = workers.iter();
    let medians = medians.filter_map(|n| median(run, workload, *n, peer, "jain"));
    medians.reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::super::reached_by;

    #[test]
    fn four_and_eight_workers_are_judged_by_the_worse_of_them() {
        let found = reached_by(
            "figure\taccept/single\t2\thttpd mutex\tjain\t0.98\n\
             figure\taccept/single\t4\thttpd mutex\tjain\t0.99\n\
             figure\taccept/single\t8\thttpd mutex\tjain\t0.96\n\
             figure\taccept/burst\t4\thttpd mutex\tjain\t0.97\n\
             figure\taccept/burst\t2\thttpd mutex\tjain\t0.5\n",
        );
        let verdicts: Vec<&str> = found
            .iter()
            .map(|[_, _, verdict]| verdict.as_str())
            .collect();
        assert_eq!(verdicts, ["missed", "met", "met", "missed"]);
    }

    #[test]
    fn two_workers_may_not_cost_more_wakes_either() {
        let found = reached_by(
            "figure\taccept/idle\t2\thttpd least-loaded\textra\t0.3\n\
             figure\taccept/idle\t8\thttpd least-loaded\textra\t0.2\n",
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0][1], "0.30");
    }
}
