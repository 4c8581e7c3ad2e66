//! Counting by other programs: instructions by callgrind, allocations by memcheck, system calls by
//! strace.
//!
//! Each runs `evcore-bench count` at two lengths. The difference is what the operations take:
//! neither the start nor the setup is in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::report::Report;
use crate::run::Run;

/// A program that counts, and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// `Ir`: instructions in user mode.
    Callgrind,
    /// Also `D1mr`, `D1mw`, `DLmr`, `DLmw`: misses of simulated data caches. Takes twice as long.
    CacheSim,
    /// `allocs`.
    Memcheck,
    /// The calls by their names.
    Strace,
}

/// How often each event happens.
pub(crate) type Counts = BTreeMap<String, f64>;

impl Tool {
    /// Whether it is not installed, which is recorded.
    pub(crate) fn is_missing(self, report: &mut Report) -> bool {
        let mut version = Command::new(self.program());
        version.arg("--version").stdout(Stdio::null());
        let status = version.status().map_err(|error| error.to_string());
        report.or_absent(self.program(), status).is_none()
    }

    fn program(self) -> &'static str {
        match self {
            Tool::Callgrind | Tool::CacheSim | Tool::Memcheck => "valgrind",
            Tool::Strace => "strace",
        }
    }

    /// Two numbers of operations, which are enough for an exact difference in little time.
    fn lengths(self) -> [u32; 2] {
        match self {
            Tool::Callgrind => [4_000, 24_000],
            Tool::CacheSim => [10_000, 50_000],
            Tool::Memcheck => [2_000, 6_000],
            Tool::Strace => [40, 240],
        }
    }

    /// What each operation takes. The words of `evcore-bench count` have `@` for the peer and `#` for
    /// the number of operations.
    ///
    /// # Panics
    ///
    /// If the program or the tool fails.
    pub(crate) fn each(self, run: &Run, words: &str, peer: &str) -> Counts {
        let lengths = self
            .lengths()
            .map(|it| if run.quick { it.div_ceil(20) } else { it });
        let [few, many] = lengths.map(|times| self.count(run, words, peer, times));
        let names = few.keys().chain(many.keys());
        let each = names.map(|name| {
            let [few, many] = [&few, &many].map(|it| it.get(name).copied().unwrap_or(0.0));
            (
                name.clone(),
                (many - few) / f64::from(lengths[1] - lengths[0]),
            )
        });
        each.collect()
    }

    fn count(self, run: &Run, words: &str, peer: &str, times: u32) -> Counts {
        let out = run.folder.join("counted");
        let mut command = self.command(&out);
        let times = times.to_string();
        let words = words.split(' ').map(|word| match word {
            "@" => peer,
            "#" => &times,
            word => word,
        });
        let this = std::env::current_exe().expect("this program has a path");
        command.arg(this).arg("count").args(words);
        let output = command.output().expect("the tool is installed");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {text}");
        self.parse(&match self {
            Tool::Strace => std::fs::read_to_string(out).expect("strace writes its table"),
            _ => text.into_owned(),
        })
    }

    /// The command, which the program to count follows.
    pub(crate) fn command(self, out: &Path) -> Command {
        let mut command = Command::new(self.program());
        match self {
            Tool::Callgrind | Tool::CacheSim => {
                let out = format!("--callgrind-out-file={}", out.display());
                command.args(["--tool=callgrind", &out]);
                command.args((self == Tool::CacheSim).then_some("--cache-sim=yes"))
            }
            Tool::Memcheck => command.args(["--tool=memcheck", "--leak-check=no"]),
            Tool::Strace => command.args(["-c", "-f", "-o"]).arg(out),
        };
        command
    }

    /// The tool's summary.
    pub(crate) fn parse(self, text: &str) -> Counts {
        match self {
            Tool::Callgrind | Tool::CacheSim => {
                let words = |name: &str| {
                    let line = text.lines().find_map(|line| line.split_once(name));
                    let words = line.map_or("", |(_, rest)| rest).split_whitespace();
                    words.skip(1).collect::<Vec<_>>()
                };
                let counts = words("Events ").into_iter().zip(words("Collected "));
                counts
                    .map(|(name, count)| (name.to_owned(), parsed(count)))
                    .collect()
            }
            Tool::Memcheck => {
                let line = text.split_once("total heap usage: ");
                let count = line.and_then(|(_, rest)| rest.split(' ').next());
                let count = count.expect("memcheck prints it").replace(',', "");
                Counts::from([("allocs".to_owned(), parsed(&count))])
            }
            // Share of the time, seconds, microseconds a call, calls, perhaps errors, name.
            Tool::Strace => {
                let rows = text
                    .lines()
                    .map(|line| line.split_whitespace().collect::<Vec<_>>());
                let rows = rows.filter(|row| row.len() > 4 && row[0].parse::<f64>().is_ok());
                let rows = rows.filter(|row| row[row.len() - 1] != "total");
                let calls = rows.map(|row| (row[row.len() - 1].to_owned(), parsed(row[3])));
                calls.collect()
            }
        }
    }
}

fn parsed(count: &str) -> f64 {
    count.parse().expect("a count is a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts<const N: usize>(counts: [(&str, f64); N]) -> Counts {
        counts.map(|(name, count)| (name.to_owned(), count)).into()
    }

    #[test]
    fn the_summaries_of_the_tools_are_parsed() {
        let callgrind = "==7== Events    : Ir Dr D1mr\n==7== Collected : 900 300 20\n==7== \n";
        let expected = counts([("Ir", 900.0), ("Dr", 300.0), ("D1mr", 20.0)]);
        assert_eq!(Tool::Callgrind.parse(callgrind), expected);
        let memcheck = "==7==   total heap usage: 1,234 allocs, 1,230 frees, 9 bytes allocated\n";
        assert_eq!(Tool::Memcheck.parse(memcheck), counts([("allocs", 1234.0)]));
        let strace = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 57.55    0.149118          45       302           epoll_ctl
 41.23    0.106842          32       101         1 read
------ ----------- ----------- --------- --------- ----------------
100.00    0.259118          39       403         1 total
";
        let expected = counts([("epoll_ctl", 302.0), ("read", 101.0)]);
        assert_eq!(Tool::Strace.parse(strace), expected);
    }
}
