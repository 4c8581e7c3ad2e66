//! The targets, as data, and the verdict on each.

use crate::report::{Report, Table, number};

/// What a part should reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) part: &'static str,
    pub(crate) what: &'static str,
    bound: Bound,
    unit: &'static str,
    /// The cells that are judged: the worst of them counts.
    table: &'static str,
    peers: Names,
    /// All columns of the table if it is empty.
    columns: Names,
    figure: Figure,
    /// Why it is missed, if that has a reason that no work on the code removes.
    reason: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// How a cell becomes one number.
#[derive(Clone, Copy, Debug)]
enum Figure {
    Median,
    /// The greatest value of all rounds.
    Longest,
    /// The ratio to another peer.
    To(&'static str),
    /// What is above another peer.
    Above(&'static str),
}

use Bound::{AtLeast, AtMost};
use Figure::{Above, Longest, Median, To};

type Names = &'static [&'static str];

const ALL: Names = &[];
#[rustfmt::skip]
const LISTENING: Names = &["EventLoop, off", "EventLoop, mutex", "EventLoop, exclusive", "EventLoop, least-loaded"];
const LOOPS: Names = &["EventLoop", "EventLoop, off", "EventLoop, least-loaded"];
#[rustfmt::skip]
const POLICIES: Names = &["httpd off", "httpd mutex", "httpd exclusive", "httpd least-loaded", "httpd reuseport"];
/// The policies whose workers share their listeners.
#[rustfmt::skip]
const SHARING: Names = &["httpd off", "httpd mutex", "httpd exclusive", "httpd least-loaded"];
const TWO_POLICIES: Names = &["httpd mutex", "httpd exclusive"];
const LEAST_LOADED: Names = &["httpd least-loaded"];
const KEPT: Names = &["kept alive, 1", "kept alive, 64"];
const CLOSED: Names = &["closed, 1", "closed, 64"];
const SAME_CALLS: &str =
    "both need the same system calls, and nearly all of the time is the kernel's";
const KERNEL_CHOOSES: &str =
    "the kernel assigns each connection to a listener, so it waits for that listener's worker";
const PLAN_ENDS: &str = "a plan ends after the policy's delay, so the clock is read before each wait, \
    and `mutex` tries the lock in each turn";
const LEAST_LOOP: &str = "the bare loop has no clock, no timers and no tables";
const PACE: &str =
    "nanoseconds follow the machine's pace; the peers of the same run are in the table";
const LEAST_SERVER: &str = "the bare loop parses nothing, has no timeouts and counts nothing";
/// The delay of every policy, and a slice of the scheduler's.
const WITHIN_THE_DELAY: Bound = AtMost(510.0);

const fn target(
    part: &'static str,
    what: &'static str,
    bound: Bound,
    unit: &'static str,
    (table, peers, columns): (&'static str, Names, Names),
    figure: Figure,
) -> Target {
    Target {
        part,
        what,
        bound,
        unit,
        table,
        peers,
        columns,
        figure,
        reason: "",
    }
}

impl Target {
    const fn because(self, reason: &'static str) -> Target {
        Target { reason, ..self }
    }
}

/// In the order of the page; the tables are those of `Report::table`.
#[rustfmt::skip] // A table is read by its columns.
pub(crate) const TARGETS: &[Target] = &[
    target("turn", "a turn with one event, `EventLoop`", AtMost(400.0), "instructions", ("turn", &["EventLoop"], &["plain"]), Median),
    target("turn", "the same, with a timer re-armed", AtMost(500.0), "instructions", ("turn", &["EventLoop"], &["timer"]), Median),
    target("turn", "a turn with one event, `Poller`", AtMost(150.0), "instructions", ("turn", &["Poller"], &["plain"]), Median),
    target("turn", "an event in a turn with 100, `EventLoop`", AtMost(85.0), "instructions", ("event", &["EventLoop"], &["plain"]), Median),
    target("turn", "the same, with a timer re-armed", AtMost(160.0), "instructions", ("event", &["EventLoop"], &["timer"]), Median),
    target("turn", "a turn with a listener and a policy, to one without", AtMost(1.05), "", ("turn", LISTENING, ALL), To("EventLoop")).because(PLAN_ENDS),
    target("turn", "an event among 100 with a listener and a policy, to one without", AtMost(1.05), "", ("event", LISTENING, ALL), To("EventLoop")).because(PLAN_ENDS),
    target("turn", "clock readings a turn", AtMost(2.0), "", ("clocks", LOOPS, &["all clocks"]), Median),
    target("turn", "of these not `CLOCK_MONOTONIC`", AtMost(1.0), "", ("clocks", LOOPS, &["wall clock"]), Median),
    target("turn", "system calls a wait, whatever the timeout, `Poller` and `EventLoop`", AtMost(1.0), "", ("wait", &["Poller", "Poller, poll", "Poller, select", "EventLoop"], ALL), Median),
    target("turn", "the same on io_uring", AtMost(1.0), "", ("wait", &["Poller, io_uring", "EventLoop, io_uring"], ALL), Median),
    target("turn", "system calls of a stop and start", AtMost(0.0), "", ("toggle", &["Poller", "EventLoop"], ALL), Median),
    target("turn", "`recv` a keep-alive request", AtMost(1.0), "", ("request", &["httpd"], &["recv 1", "recv 64"]), Median),
    target("turn", "`send` a keep-alive request", AtMost(1.0), "", ("request", &["httpd"], &["send 1", "send 64"]), Median),
    target("turn", "waits a keep-alive request, one connection", AtMost(1.0), "", ("request", &["httpd"], &["wait 1"]), Median),
    target("turn", "`epoll_ctl` in a connection's life", AtMost(1.0), "", ("request", &["httpd"], &["epoll_ctl a connection"]), Median),
    target("turn", "allocations a turn in the steady state", AtMost(0.0), "", ("allocations", &["EventLoop"], ALL), Median),
    target("pollers", "CPU time of libevent's benchmark with 1 active, to a bare loop", AtMost(1.03), "", ("pipes 1", &["EventLoop"], ALL), To("bare epoll")).because(LEAST_LOOP),
    target("pollers", "the same, with a timer re-armed", AtMost(1.08), "", ("timers 1", &["EventLoop"], ALL), To("bare epoll")).because(LEAST_LOOP),
    target("pollers", "1 active on io_uring, to a bare loop", AtMost(0.92), "", ("pipes 1", &["Poller, io_uring"], ALL), To("bare epoll")),
    target("pollers", "100 active on io_uring, to a bare loop", AtMost(0.92), "", ("pipes 100", &["Poller, io_uring"], ALL), To("bare epoll")),
    target("pollers", "1,000 active on io_uring, to a bare loop", AtMost(0.95), "", ("pipes 1000", &["Poller, io_uring"], ALL), To("bare epoll")),
    target("pollers", "stop and start of one descriptor, `Poller`", AtMost(15.0), "ns", ("toggle", &["Poller"], &["stop + start"]), Median),
    target("pollers", "stop and start of one descriptor, `EventLoop`", AtMost(15.0), "ns", ("toggle", &["EventLoop"], &["stop + start"]), Median),
    target("timers", "re-arm, 10^5 armed, `TimerWheel`", AtMost(10.0), "ns", ("rearm", &["TimerWheel"], &["10^5"]), Median).because(PACE),
    target("timers", "re-arm, 10^6 armed, `TimerWheel`", AtMost(25.0), "ns", ("rearm", &["TimerWheel"], &["10^6"]), Median).because(PACE),
    target("timers", "re-arm, 10^5 armed, `Lazy<TimerWheel>`", AtMost(4.0), "ns", ("rearm", &["Lazy<TimerWheel>"], &["10^5"]), Median).because(PACE),
    target("timers", "re-arm, 10^6 armed, `Lazy<TimerWheel>`", AtMost(15.0), "ns", ("rearm", &["Lazy<TimerWheel>"], &["10^6"]), Median).because(PACE),
    target("timers", "expire, 10^5 armed, a timer, `TimerWheel`", AtMost(35.0), "ns", ("expire", &["TimerWheel"], &["10^5"]), Median).because(PACE),
    target("timers", "a minute of serving, 10^6 armed, `Lazy<TimerWheel>` to `TimerWheel`", AtMost(1.0), "", ("serve", &["Lazy<TimerWheel>"], &["10^6"]), To("TimerWheel")),
    target("timers", "longest call while all expire, each with its least time of three runs, all rounds, `TimerWheel`", AtMost(50.0), "µs", ("longest", &["TimerWheel", "Lazy<TimerWheel>"], ALL), Longest),
    target("timers", "the same, `TimerTree` and `TimerHeap`", AtMost(50.0), "µs", ("longest", &["TimerTree", "TimerHeap"], ALL), Longest),
    target("timers", "longest call with deadlines already past, each with its least time of three runs, `TimerWheel`", AtMost(50.0), "µs", ("past", &["TimerWheel", "Lazy<TimerWheel>"], ALL), Longest),
    target("timers", "the same, `TimerTree` and `TimerHeap`", AtMost(50.0), "µs", ("past", &["TimerTree", "TimerHeap"], ALL), Longest),
    target("clock", "read of the cached time", AtMost(1.5), "ns", ("read", &["Clock::monotonic_ms", "SharedClock::monotonic_ns"], ALL), Median).because(PACE),
    target("clock", "snapshot with the HTTP date, updated by another thread", AtMost(15.0), "ns", ("read", &["SharedClock::snapshot"], ALL), Median).because(PACE),
    target("memory", "bytes of an idle connection, epoll", AtMost(192.0), "bytes", ("memory", &["epoll, full", "epoll, half full"], ALL), Median),
    target("memory", "bytes of an idle connection, poll", AtMost(192.0), "bytes", ("memory", &["poll, full", "poll, half full"], ALL), Median),
    target("memory", "bytes of an idle connection, kqueue", AtMost(192.0), "bytes", ("memory", &["kqueue"], ALL), Median).because("this system has no kqueue"),
    target("whole", "CPU a request in all, `httpd` to a bare epoll loop", AtMost(1.05), "", ("cpu", &["httpd"], &["1", "64", "1024"]), To("bare epoll")).because(LEAST_SERVER),
    target("whole", "the same, to nginx", AtMost(0.909), "", ("cpu", &["httpd"], &["1", "64", "1024"]), To("nginx")),
    target("whole", "the same, to hyper", AtMost(0.909), "", ("cpu", &["httpd"], &["1", "64", "1024"]), To("hyper")),
    target("whole", "the same, to actix-web", AtMost(0.909), "", ("cpu", &["httpd"], &["1", "64", "1024"]), To("actix-web")),
    target("whole", "the same, to may_minihttp", AtMost(0.909), "", ("cpu", &["httpd"], &["1", "64", "1024"]), To("may_minihttp")),
    target("whole", "CPU a request in all, `httpd` on io_uring to `httpd` on epoll", AtMost(0.95), "", ("cpu", &["httpd, io_uring"], &["64", "1024"]), To("httpd")),
    target("whole", "CPU a request for a file of 4 KiB, to nginx with `sendfile` and `open_file_cache`", AtMost(0.95), "", ("file", &["httpd"], &["4 KiB"]), To("nginx, sendfile")),
    target("whole", "the same for a file of 1 MiB", AtMost(0.95), "", ("file", &["httpd"], &["1 MiB"]), To("nginx, sendfile")),
    target("whole", "user CPU a request to nginx's", AtMost(0.33), "", ("user", &["httpd"], &["1", "64", "1024"]), To("nginx")),
    target("whole", "latency at half of the saturating rate, p50, to nginx", AtMost(1.0), "", ("p50", &["httpd"], &["1", "64", "1024"]), To("nginx")),
    target("whole", "the same, p99", AtMost(1.0), "", ("p99", &["httpd"], &["1", "64", "1024"]), To("nginx")),
    target("whole", "the same, p99.9", AtMost(1.0), "", ("p99.9", &["httpd"], &["1", "64", "1024"]), To("nginx")),
    target("whole", "`.ci/run` on a clean machine", AtMost(20.0), "minutes", ("ci", &["ci"], ALL), Median).because("CI itself takes this time, not this run"),
    target("proxies", "CPU a kept-alive request, `proxy` to HAProxy in TCP mode", AtMost(0.7), "", ("proxy", &["proxy"], KEPT), To("HAProxy, tcp")).because(SAME_CALLS),
    target("proxies", "the same, a connection for each request", AtMost(0.7), "", ("proxy", &["proxy"], CLOSED), To("HAProxy, tcp")).because(SAME_CALLS),
    target("proxies", "the same, a KiB of large bodies, if it splices them, too", AtMost(0.7), "", ("proxied body", &["proxy"], ALL), To("HAProxy, splice")).because(SAME_CALLS),
    target("proxies", "CPU a kept-alive request, `proxy` to HAProxy in HTTP mode", AtMost(0.7), "", ("proxy", &["proxy"], KEPT), To("HAProxy, http")),
    target("proxies", "the same, a connection for each request", AtMost(0.7), "", ("proxy", &["proxy"], CLOSED), To("HAProxy, http")).because("it keeps its connections to the upstream, and a proxy of bytes cannot"),
    target("proxies", "the same, a KiB of large bodies", AtMost(0.7), "", ("proxied body", &["proxy"], ALL), To("HAProxy, http")),
    target("datagrams", "questions of DNS answered a second by the example `udp`, on one core", AtLeast(100.0), "thousand/s", ("answers", &["udp"], ALL), Median),
    target("accept", "Jain index, one at a time, `least-loaded`", AtLeast(0.99), "", ("jain single", LEAST_LOADED, &["2", "4", "8"]), Median),
    target("accept", "Jain index, bursts of 64, `least-loaded`", AtLeast(0.99), "", ("jain burst", LEAST_LOADED, &["2", "4", "8"]), Median),
    target("accept", "Jain index, halfway closed, 4 and 8 workers, `least-loaded`", AtLeast(0.99), "", ("jain halfway", LEAST_LOADED, &["4", "8"]), Median),
    target("accept", "Jain index, uneven lifetimes, `least-loaded`", AtLeast(0.99), "", ("jain uneven", LEAST_LOADED, &["2", "4", "8"]), Median),
    target("accept", "Jain index, one at a time, `mutex` and `exclusive`", AtLeast(0.97), "", ("jain single", TWO_POLICIES, &["2", "4", "8"]), Median),
    target("accept", "Jain index, bursts of 64, `mutex` and `exclusive`", AtLeast(0.97), "", ("jain burst", TWO_POLICIES, &["2", "4", "8"]), Median),
    target("accept", "extra wakes a connection, idle before each step, `least-loaded`", AtMost(0.25), "", ("extra idle", LEAST_LOADED, &["2", "4", "8"]), Median),
    target("accept", "extra wakes a connection, one at a time, `least-loaded`", AtMost(0.25), "", ("extra single", LEAST_LOADED, &["2", "4", "8"]), Median),
    target("accept", "extra wakes a connection, bursts of 64, `least-loaded`", AtMost(0.25), "", ("extra burst", LEAST_LOADED, &["2", "4", "8"]), Median),
    target("accept", "extra wakes a connection, uneven lifetimes, `least-loaded`", AtMost(0.25), "", ("extra uneven", LEAST_LOADED, &["2", "4", "8"]), Median).because("most of it is not for the balance; see the next row"),
    target("accept", "the same, above `reuseport`, whose workers share nothing", AtMost(0.25), "", ("extra uneven", LEAST_LOADED, &["2", "4", "8"]), Above("httpd reuseport")),
    target("accept", "longest wait while a worker is blocked for 2 s, policies that share listeners", WITHIN_THE_DELAY, "ms", ("blocked", SHARING, ALL), Longest),
    target("accept", "the same, `reuseport`", WITHIN_THE_DELAY, "ms", ("blocked", &["httpd reuseport"], ALL), Longest).because(KERNEL_CHOOSES),
    target("kills", "until another worker accepts after a kill, any policy", WITHIN_THE_DELAY, "ms", ("kill", POLICIES, ALL), Longest),
    target("kills", "the same after a stop, policies that share listeners", WITHIN_THE_DELAY, "ms", ("stop", SHARING, ALL), Longest),
    target("kills", "the same after a stop, `reuseport`", WITHIN_THE_DELAY, "ms", ("stop", &["httpd reuseport"], ALL), Longest).because(KERNEL_CHOOSES),
];

/// A target beside what was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The bound, with its unit.
    pub(crate) bound: String,
    pub(crate) reached: String,
    pub(crate) verdict: String,
}

impl Target {
    /// Judges the part's report.
    pub(crate) fn verdict(&self, report: Option<&Report>) -> Verdict {
        let (words, bound) = match self.bound {
            AtMost(bound) => ("at most", bound),
            AtLeast(bound) => ("at least", bound),
        };
        let shown = |value: f64| {
            format!("{} {}", number(value), self.unit)
                .trim_end()
                .to_owned()
        };
        let table = report.and_then(|report| report.find(self.table));
        let value = table.and_then(|table| self.worst(table));
        let because = match self.reason {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        Verdict {
            bound: format!("{words} {}", shown(bound)),
            reached: value.map_or_else(|| "–".to_owned(), shown),
            verdict: match value {
                None => format!("not measured{because}"),
                Some(value) if self.holds(value) => "met".to_owned(),
                Some(value) => format!("**missed** by {}{because}", excess(value, bound)),
            },
        }
    }

    fn holds(&self, value: f64) -> bool {
        // The counted differences are not exact in their last digits.
        match self.bound {
            AtMost(bound) => value <= bound + 1e-6,
            AtLeast(bound) => value >= bound - 1e-6,
        }
    }

    /// The worst of the cells; `None` if one of them is missing.
    fn worst(&self, table: &Table) -> Option<f64> {
        let columns: Vec<&str> = match self.columns {
            [] => table.columns.iter().map(String::as_str).collect(),
            named => named.to_vec(),
        };
        let cells = self.peers.iter().flat_map(|peer| {
            let columns = columns.iter();
            columns.map(|column| self.cell(table, peer, column))
        });
        let values: Vec<f64> = cells.collect::<Option<_>>()?;
        values.into_iter().reduce(match self.bound {
            AtMost(_) => f64::max,
            AtLeast(_) => f64::min,
        })
    }

    fn cell(&self, table: &Table, peer: &str, column: &str) -> Option<f64> {
        match self.figure {
            Median => table.median(peer, column),
            Longest => table.spread(peer, column).map(|spread| spread.most),
            To(other) => table.ratio(peer, other, column),
            Above(other) => Some(table.median(peer, column)? - table.median(other, column)?),
        }
    }
}

/// By how much a bound is missed.
fn excess(value: f64, bound: f64) -> String {
    if bound == 0.0 {
        return number(value);
    }
    let percent = 100.0 * (value / bound - 1.0).abs();
    if percent < 10.0 {
        format!("{percent:.1} %")
    } else if percent < 200.0 {
        format!("{percent:.0} %")
    } else {
        format!("a factor of {}", number(value / bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(what: &str, values: &[(&str, &str, &str, f64)]) -> String {
        let target = TARGETS.iter().find(|target| target.what == what).unwrap();
        let mut report = Report::new(target.part);
        for (table, peer, column, value) in values {
            report.add(table, peer, column, *value);
        }
        target.verdict(Some(&report)).verdict
    }

    #[test]
    fn a_bound_is_met_missed_or_not_measured() {
        let turn = "a turn with one event, `EventLoop`";
        let reached = |value| verdict(turn, &[("turn", "EventLoop", "plain", value)]);
        assert_eq!(reached(400.0), "met");
        assert_eq!(reached(500.0), "**missed** by 25 %");
        assert_eq!(reached(1200.0), "**missed** by a factor of 3");
        assert_eq!(verdict(turn, &[]), "not measured");
    }

    #[test]
    fn the_worst_cell_counts_and_a_missing_one_prevents_a_verdict() {
        let jain = "Jain index, halfway closed, 4 and 8 workers, `least-loaded`";
        let cell = |column, value| ("jain halfway", "httpd least-loaded", column, value);
        assert_eq!(verdict(jain, &[cell("4", 1.0), cell("8", 0.99)]), "met");
        let missed = verdict(jain, &[cell("4", 0.98), cell("8", 0.99)]);
        assert_eq!(missed, "**missed** by 1.0 %");
        assert_eq!(verdict(jain, &[cell("4", 1.0)]), "not measured");
    }

    #[test]
    fn a_figure_above_another_peer_is_a_difference() {
        let cells = ["2", "4", "8"].map(|column| {
            let extra = |peer, value| ("extra uneven", peer, column, value);
            [
                extra("httpd least-loaded", 0.8),
                extra("httpd reuseport", 0.4),
            ]
        });
        let above = "the same, above `reuseport`, whose workers share nothing";
        assert_eq!(verdict(above, cells.as_flattened()), "**missed** by 60 %");
    }

    #[test]
    fn a_limit_of_nature_has_its_reason() {
        let what = "the same, `reuseport`";
        let found = verdict(what, &[("blocked", "httpd reuseport", "2 s", 1996.0)]);
        assert!(found.contains("missed") && found.contains("the kernel"));
    }
}
