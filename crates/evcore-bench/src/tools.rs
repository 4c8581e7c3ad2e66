//! Counting by other programs: instructions by callgrind, allocations by memcheck, system calls by
//! strace.
//!
//! Each tool runs `evcore-bench count` with two numbers of operations. The difference between the
//! two counts is the cost of the additional operations, without the start and the setup.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::report::Report;
use crate::run::{Run, shell};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// `Ir`: instructions in user mode.
    Callgrind,
    /// `Ir`, and `D1mr`, `D1mw`, `DLmr`, `DLmw`: misses of simulated data caches. The run takes
    /// longer.
    CacheSim,
    /// `allocs`: allocations.
    Memcheck,
    /// The number of each system call, by its name.
    Strace,
}

pub(crate) type Counts = BTreeMap<String, f64>;

const CALLGRIND: &str = "valgrind --tool=callgrind --callgrind-out-file=/dev/null";
const CACHE_SIM: &str = "valgrind --tool=callgrind --callgrind-out-file=/dev/null --cache-sim=yes";
const MEMCHECK: &str = "valgrind --tool=memcheck --leak-check=no";
const STRACE: &str = "strace -c -f";

impl Tool {
    /// The programs of the tools, as a report names those that are missing.
    pub(crate) const PROGRAMS: [&str; 2] = ["valgrind", "strace"];

    /// The command that precedes the counted program, and the two numbers of operations.
    fn command(self) -> (&'static str, [u32; 2]) {
        match self {
            Tool::Callgrind => (CALLGRIND, [4_000, 24_000]),
            Tool::CacheSim => (CACHE_SIM, [10_000, 50_000]),
            Tool::Memcheck => (MEMCHECK, [2_000, 6_000]),
            Tool::Strace => (STRACE, [40, 240]),
        }
    }

    /// Returns whether the tool is not installed, and records that.
    pub(crate) fn is_missing(self, report: &mut Report) -> bool {
        let (command, _) = self.command();
        let program = command.split(' ').next().unwrap_or_default();
        let version = Command::new(program).arg("--version").output();
        report.or_absent(program, version).is_none()
    }

    /// The cost of each operation. `words` are the arguments of `evcore-bench count`, with `@` for
    /// the peer and `#` for the number of operations.
    ///
    /// # Panics
    ///
    /// If the program or the tool fails.
    pub(crate) fn each(self, run: &Run, words: &str, peer: &str) -> Counts {
        let this = std::env::current_exe().expect("this program has a path");
        self.each_of(run, &this, &format!("count {words}"), peer)
    }

    pub(crate) fn each_of(self, run: &Run, program: &Path, words: &str, peer: &str) -> Counts {
        let (_, lengths) = self.command();
        let lengths = lengths.map(|length| {
            if run.quick {
                length.div_ceil(20)
            } else {
                length
            }
        });
        // Both runs take place at the same time, because a load of the machine does not change a
        // count.
        let [few, many] = thread::scope(|scope| {
            let runs = lengths.map(|times| {
                scope.spawn(move || self.count(program, words, peer, &times.to_string()))
            });
            runs.map(|run| run.join().expect("the tool and its program do not fail"))
        });
        difference(lengths, [few, many])
    }

    fn count(self, program: &Path, words: &str, peer: &str, times: &str) -> Counts {
        let words = words.split(' ').map(|word| match word {
            "@" => peer,
            "#" => times,
            word => word,
        });
        // The tool prints its summary to the standard error.
        let mut command = shell(&format!("{} \"$0\" \"$@\"", self.command().0));
        let output = command.arg(program).args(words).output();
        let output = output.expect("a shell is installed");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {text}");
        self.parse(&text)
    }

    /// Parses the tool's summary.
    ///
    /// # Panics
    ///
    /// If the text has no count, because a missing count would pass for zero.
    pub(crate) fn parse(self, text: &str) -> Counts {
        let after = |name: &str| {
            let line = text.lines().find_map(|line| line.split_once(name));
            line.map_or("", |(_, rest)| rest).split_whitespace()
        };
        let counts: Vec<(&str, &str)> = match self {
            Tool::Callgrind | Tool::CacheSim => {
                after("Events    : ").zip(after("Collected : ")).collect()
            }
            Tool::Memcheck => after("total heap usage: ")
                .take(1)
                .map(|count| ("allocs", count))
                .collect(),
            // The columns are: share of the time, seconds, microseconds per call, calls, perhaps
            // errors, name.
            Tool::Strace => {
                let rows = text.lines().map(|line| line.split_whitespace().collect());
                let rows =
                    rows.filter(|row: &Vec<&str>| row.len() > 4 && row[0].parse::<f64>().is_ok());
                let counts = rows.map(|row| (row[row.len() - 1], row[3]));
                counts.filter(|(name, _)| *name != "total").collect()
            }
        };
        assert!(!counts.is_empty(), "no summary of {self:?}: {text}");
        let counts = counts.into_iter().map(|(name, count)| {
            let count = count.replace(',', "").parse().expect("a number");
            (name.to_owned(), count)
        });
        counts.collect()
    }
}

/// The cost of each operation, from the counts of few and of many operations.
pub(crate) fn each(lengths: [u32; 2], count: impl FnMut(u32) -> Counts) -> Counts {
    difference(lengths, lengths.map(count))
}

fn difference(lengths: [u32; 2], [few, many]: [Counts; 2]) -> Counts {
    let operations = f64::from(lengths[1] - lengths[0]);
    let each = many.into_iter().map(|(name, count)| {
        let count = count - few.get(&name).unwrap_or(&0.0);
        (name, count / operations)
    });
    each.collect()
}
