//! How long a client may wait for one worker's sake, and what being out of descriptors may cost.

use super::Bound::AtMost;
use super::judged::{ALL, SHARING, WORKERS};
use super::{Target, median, most};
use crate::bench::page::{kills, shortage};
use crate::bench::results::Results;

/// The longest that a client may wait for one worker's sake, in milliseconds: the delay of all
/// contestants, and a slice of the scheduler's.
const LONGEST_WAIT_MS: f64 = 510.0;

pub(super) const TARGETS: &[Target] = &[
    Target {
        what: "longest wait while one worker is blocked for 2 s, any policy but `reuseport`",
        bound: AtMost(LONGEST_WAIT_MS),
        unit: "ms",
        of: |run| longest_while_blocked(run, "accept/blocked/2000", &SHARING),
    },
    // No longer than the block, whether another worker takes over or not.
    Target {
        what: "longest wait while one worker is blocked for 200 ms, any policy",
        bound: AtMost(LONGEST_WAIT_MS),
        unit: "ms",
        of: |run| longest_while_blocked(run, "accept/blocked/200", &ALL),
    },
    Target {
        what: "no worker accepts for longer than the delay after a kill, any policy",
        bound: AtMost(0.0),
        unit: "times",
        of: |run| waited_too_long(run, "kills/kill", &ALL),
    },
    Target {
        what: "no worker accepts for longer than the delay after a stop, any policy but `reuseport`",
        bound: AtMost(0.0),
        unit: "times",
        of: |run| waited_too_long(run, "kills/stop", &SHARING),
    },
    Target {
        what: "CPU while out of descriptors, any policy",
        bound: AtMost(2.0),
        unit: "%",
        of: |run| most(ALL.map(|peer| median(run, shortage::WORKLOAD, 2, peer, "cpu_percent"))),
    },
    Target {
        what: "longest from a close to the next service while out of descriptors, any policy",
        bound: AtMost(100.0),
        unit: "ms",
        of: longest_until_resumed,
    },
];

fn longest_while_blocked(run: &Results, workload: &str, policies: &[&str]) -> Option<f64> {
    let longest = |peer: &&str| {
        let of = |n| run.figures.spread(workload, n, peer, "max_us");
        most(WORKERS.map(|n| of(n).map(|us| us.most / 1e3)))
    };
    policies.iter().filter_map(longest).reduce(f64::max)
}

fn waited_too_long(run: &Results, workload: &str, policies: &[&str]) -> Option<f64> {
    let each = policies.iter();
    let each = each.filter_map(|peer| kills::beyond(run, workload, peer));
    each.reduce(|sum, times| sum + times)
}

fn longest_until_resumed(run: &Results) -> Option<f64> {
    let of = |peer| {
        run.figures
            .spread(shortage::WORKLOAD, 2, peer, "resumed_us")
    };
    most(ALL.map(|peer| of(peer).map(|us| us.most / 1e3)))
}

#[cfg(test)]
mod tests {
    use super::super::reached_by;

    #[test]
    fn kills_are_judged_over_policies_that_share_a_listener() {
        let found = reached_by(
            "figure\tkills/stop\t8\thttpd off\ttook_us\t900 700\n\
             figure\tkills/stop\t8\thttpd mutex\ttook_us\t900000 700\n\
             figure\tkills/kill\t8\thttpd mutex\ttook_us\t499000 700\n\
             figure\tkills/kill\t8\thttpd reuseport\ttook_us\t700\n\
             figure\tkills/stop\t8\thttpd reuseport\ttook_us\t900000\n\
             figure\tkills/kill\t8\tnginx accept_mutex on\ttook_us\t900000\n",
        );
        let times: Vec<&str> = found.iter().map(|[_, here, _]| here.as_str()).collect();
        assert_eq!(times, ["0 times", "1.0 times"]);
    }

    #[test]
    fn the_longest_wait_of_all_rounds_is_judged() {
        let found = reached_by(
            "figure\taccept/blocked/2000\t2\thttpd mutex\tmax_us\t9000 1020000 8000\n\
             figure\taccept/blocked/2000\t8\thttpd off\tmax_us\t7000\n\
             figure\taccept/blocked/2000\t8\thttpd reuseport\tmax_us\t1996000\n\
             figure\taccept/blocked/2000\t8\tbare REUSEPORT\tmax_us\t1996000\n\
             figure\taccept/blocked/200\t8\thttpd mutex\tmax_us\t900000\n",
        );
        let here: Vec<&str> = found.iter().map(|[_, here, _]| here.as_str()).collect();
        assert_eq!(here, ["1020 ms", "900 ms"]);
        assert_eq!(found[0][2], "missed: 2.0 times as much");
    }
}
