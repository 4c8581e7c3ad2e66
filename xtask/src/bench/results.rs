//! What a run measured, as `evcore-bench` wrote it: a record a line, its fields between tabs.

use super::counted::Counted;
use super::figures::Figures;
use super::statistics::Spread;
use crate::Result;

/// The name of the loop itself, which is measured like a peer and taken off.
pub(super) const LOOP: &str = "loop";

/// All records of a part's run.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) date: String,
    pub(super) versions: Vec<(String, String)>,
    pub(super) absent: Vec<String>,
    times: Vec<Times>,
    longest: Vec<(Key, f64)>,
    pub(super) figures: Figures,
    pub(super) counted: Counted,
}

/// The workload, its size and the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    workload: String,
    size: u64,
    peer: String,
}

#[derive(Debug)]
struct Times {
    key: Key,
    rounds: Vec<f64>,
}

/// Nanoseconds an operation without the loop, and the ratio to the baseline, round by round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub(super) ns: Spread,
    pub(super) ratio: Spread,
}

impl Results {
    /// Takes in the records, as they were written.
    ///
    /// # Errors
    ///
    /// A line that is no record.
    pub(super) fn read(&mut self, text: &str) -> Result {
        for line in text.lines() {
            self.read_record(line)
                .ok_or_else(|| format!("not a record: {line}"))?;
        }
        Ok(())
    }

    fn read_record(&mut self, line: &str) -> Option<()> {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["date", date] => date.clone_into(&mut self.date),
            ["version", peer, version] => {
                self.versions.push((peer.to_owned(), version.to_owned()));
            }
            ["absent", peer] => self.absent.push(peer.to_owned()),
            ["time", workload, size, peer, rounds] => {
                let rounds: Option<Vec<f64>> =
                    rounds.split(' ').map(|ns| ns.parse().ok()).collect();
                let rounds = rounds.filter(|rounds| !rounds.is_empty())?;
                let key = Key::new(workload, size.parse().ok()?, peer);
                self.times.push(Times { key, rounds });
            }
            ["longest", workload, size, peer, ns] => {
                let key = Key::new(workload, size.parse().ok()?, peer);
                self.longest.push((key, ns.parse().ok()?));
            }
            ["figure", ref fields @ ..] => self.figures.read(fields.try_into().ok()?)?,
            _ => return None,
        }
        Some(())
    }

    /// The sizes that a workload was measured at, ascending.
    pub(super) fn sizes(&self, workload: &str) -> Vec<u64> {
        let of_workload = self.times.iter().filter(|t| t.key.workload == workload);
        let mut sizes: Vec<u64> = of_workload.map(|t| t.key.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The peers of a workload, in the order of the run, without the loop.
    pub(super) fn peers(&self, workload: &str) -> Vec<&str> {
        let mut peers = Vec::new();
        for Times { key, .. } in &self.times {
            let peer = key.peer.as_str();
            if key.workload == workload && peer != LOOP && !peers.contains(&peer) {
                peers.push(peer);
            }
        }
        peers
    }

    /// As [`peers`](Self::peers), as owned strings.
    pub(super) fn owned_peers(&self, workload: &str) -> Vec<String> {
        let peers = self.peers(workload).into_iter();
        peers.map(str::to_owned).collect()
    }

    /// What a peer took; `None` if it was not measured.
    pub(super) fn figure(&self, workload: &str, size: u64, peer: &str) -> Option<Figure> {
        let rounds = self.rounds(workload, size, peer)?;
        let baseline = self.rounds(workload, size, baseline(workload))?;
        let own = self.loop_ns(workload, size);
        // Both of one round, so that what the machine did then is in both.
        let pairs = rounds.iter().zip(baseline);
        Some(Figure {
            ns: Spread::of(rounds.iter().map(|ns| ns - own)),
            ratio: Spread::of(pairs.map(|(ns, base)| (ns - own) / (base - own))),
        })
    }

    /// What the loop itself took, in the median.
    pub(super) fn loop_ns(&self, workload: &str, size: u64) -> f64 {
        let rounds = self.rounds(workload, size, LOOP);
        rounds.map_or(0.0, |rounds| Spread::of(rounds.iter().copied()).median)
    }

    /// The longest call of a peer, in nanoseconds.
    pub(super) fn longest(&self, workload: &str, size: u64, peer: &str) -> Option<f64> {
        let key = Key::new(workload, size, peer);
        let found = self.longest.iter().find(|(other, _)| *other == key);
        found.map(|(_, ns)| *ns)
    }

    fn rounds(&self, workload: &str, size: u64, peer: &str) -> Option<&[f64]> {
        let key = Key::new(workload, size, peer);
        let found = self.times.iter().find(|times| times.key == key);
        found.map(|times| times.rounds.as_slice())
    }
}

impl Key {
    fn new(workload: &str, size: u64, peer: &str) -> Key {
        Key {
            workload: workload.to_owned(),
            size,
            peer: peer.to_owned(),
        }
    }
}

/// The peer that the others of a workload are compared with.
pub(super) fn baseline(workload: &str) -> &'static str {
    let (part, what) = workload.split_once('/').unwrap_or((workload, ""));
    match (part, what) {
        ("timers", _) => "BTreeSet",
        ("pollers", _) => "bare epoll",
        ("posted", "inbox") => "mpsc + eventfd",
        ("posted", _) => "VecDeque",
        // The defaults.
        ("budgets", "accepts") => "64",
        ("budgets", _) => "256",
        _ => "Instant::now",
    }
}

#[cfg(test)]
impl Results {
    /// Re-arming by three, at two sizes.
    pub(super) fn fake() -> Results {
        let mut results = Results::default();
        let text = "date\t2026-01-02T03:04:05+00:00\nversion\tlibev\t4.33\nabsent\tlibuv\n\
                    time\ttimers/rearm\t1000\tloop\t1 1 1\n\
                    time\ttimers/rearm\t1000\tBTreeSet\t101 201 301\n\
                    time\ttimers/rearm\t1000\tTimerWheel\t11 21 31\n\
                    time\ttimers/rearm\t100000\tBTreeSet\t400 400 400\n\
                    time\ttimers/rearm\t100000\tTimerWheel\t8 8 8\n\
                    longest\ttimers/expire\t1000\tTimerWheel\t900\n";
        results.read(text).unwrap();
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_is_taken_off_and_rounds_are_compared_in_pairs() {
        let results = Results::fake();
        let figure = results.figure("timers/rearm", 1_000, "TimerWheel").unwrap();
        assert_eq!((figure.ns.least, figure.ns.median), (10.0, 20.0));
        assert!((figure.ratio.least - 0.1).abs() < 1e-9);
        assert!((figure.ratio.most - 0.1).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_measured_has_no_figure() {
        let results = Results::fake();
        assert!(results.figure("timers/rearm", 10, "TimerWheel").is_none());
        assert!(results.longest("timers/expire", 1_000, "libev").is_none());
        assert_eq!(results.peers("timers/rearm"), ["BTreeSet", "TimerWheel"]);
        assert_eq!(results.sizes("timers/rearm"), [1_000, 100_000]);
    }

    #[test]
    fn another_line_is_an_error() {
        for line in [
            "",
            "time\ta\tb\tc\t1",
            "time\ta\t1\tc\t",
            "times\ta\t1\tc\t1",
        ] {
            assert!(
                Results::default().read(&format!("{line}\n")).is_err(),
                "{line}"
            );
        }
    }
}
