//! Counting by other programs: instructions by callgrind, allocations by memcheck, system calls by
//! strace.
//!
//! Each runs `evcore-bench count` at two lengths. The difference is what the operations take:
//! neither the start nor the setup is in it.

use std::collections::BTreeMap;
use std::process::Command;

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
        let command = self.command();
        let program = command.get_program();
        let version = Command::new(program).arg("--version").output();
        let version = version.map_err(|error| error.to_string());
        report
            .or_absent(&program.to_string_lossy(), version)
            .is_none()
    }

    /// What each operation takes. The words of `evcore-bench count` have `@` for the peer and `#` for
    /// the number of operations.
    ///
    /// # Panics
    ///
    /// If the program or the tool fails.
    pub(crate) fn each(self, run: &Run, words: &str, peer: &str) -> Counts {
        // Two numbers of operations, which are enough for an exact difference in little time.
        let lengths = match self {
            Tool::Callgrind => [4_000, 24_000],
            Tool::CacheSim => [10_000, 50_000],
            Tool::Memcheck => [2_000, 6_000],
            Tool::Strace => [40, 240],
        };
        let lengths = lengths.map(|it: u32| if run.quick { it.div_ceil(20) } else { it });
        let [few, many] = lengths.map(|times| self.count(words, peer, &times.to_string()));
        let operations = f64::from(lengths[1] - lengths[0]);
        let each = many.into_iter().map(|(name, count)| {
            let count = count - few.get(&name).unwrap_or(&0.0);
            (name, count / operations)
        });
        each.collect()
    }

    fn count(self, words: &str, peer: &str, times: &str) -> Counts {
        let words = words.split(' ').map(|word| match word {
            "@" => peer,
            "#" => times,
            word => word,
        });
        let this = std::env::current_exe().expect("this program has a path");
        let mut command = self.command();
        let output = command.arg(this).arg("count").args(words).output();
        let output = output.expect("the tool is installed");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {text}");
        self.parse(&text)
    }

    /// The command, which the program to count follows. Both print to the standard error.
    pub(crate) fn command(self) -> Command {
        let words = match self {
            Tool::Callgrind => "valgrind --tool=callgrind --callgrind-out-file=/dev/null",
            Tool::CacheSim => {
                "valgrind --tool=callgrind --callgrind-out-file=/dev/null --cache-sim=yes"
            }
            Tool::Memcheck => "valgrind --tool=memcheck --leak-check=no",
            Tool::Strace => "strace -c -f",
        };
        let mut words = words.split(' ');
        let mut command = Command::new(words.next().expect("the program"));
        command.args(words);
        command
    }

    /// The tool's summary.
    ///
    /// # Panics
    ///
    /// If there is none: no count would pass for one of zero.
    pub(crate) fn parse(self, text: &str) -> Counts {
        let counts = self.counts(text);
        assert!(!counts.is_empty(), "no summary of {self:?}: {text}");
        counts
    }

    fn counts(self, text: &str) -> Counts {
        let after = |name: &str| {
            let line = text.lines().find_map(|line| line.split_once(name));
            line.map_or("", |(_, rest)| rest).split_whitespace()
        };
        let parsed = |count: &str| count.replace(',', "").parse().expect("a number");
        let counted = |name: &str, count: &str| (name.to_owned(), parsed(count));
        match self {
            Tool::Callgrind | Tool::CacheSim => {
                let counts = after("Events    : ").zip(after("Collected : "));
                counts.map(|(name, it)| counted(name, it)).collect()
            }
            Tool::Memcheck => {
                let counts = after("total heap usage: ").take(1);
                counts.map(|it| counted("allocs", it)).collect()
            }
            // Share of the time, seconds, microseconds a call, calls, perhaps errors, name.
            Tool::Strace => {
                let rows = text.lines().map(|line| line.split_whitespace().collect());
                let rows = rows.filter(|row: &Vec<&str>| {
                    row.len() > 4 && row[0].parse::<f64>().is_ok() && row[row.len() - 1] != "total"
                });
                let counts = rows.map(|row| counted(row[row.len() - 1], row[3]));
                counts.collect()
            }
        }
    }
}
