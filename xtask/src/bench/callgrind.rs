//! Instructions and cache misses in user mode, by callgrind: the difference of two run lengths, so
//! that neither the start nor what is set up is in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// The events of callgrind that are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Events {
    pub(super) instructions: f64,
    pub(super) first_level_misses: f64,
    pub(super) last_level_misses: f64,
}

/// Runs `evcore-bench count` under callgrind.
#[derive(Debug)]
pub(super) struct Callgrind<'a> {
    program: &'a Path,
    /// Where callgrind writes what is not read.
    out: PathBuf,
}

impl<'a> Callgrind<'a> {
    /// For the program, with a folder for what it leaves; `None` where valgrind is not installed.
    pub(super) fn new(program: &'a Path, folder: &Path) -> Option<Callgrind<'a>> {
        let version = Command::new("valgrind").arg("--version").output();
        version.ok().map(|_| Callgrind {
            program,
            out: folder.join("callgrind.out"),
        })
    }

    /// What one operation takes, where the words are followed by how many there are.
    pub(super) fn each(&self, words: &[&str], [few, many]: [u32; 2]) -> Result<Events> {
        let (few_events, many_events) = (self.events(words, few)?, self.events(words, many)?);
        Ok(many_events.less(few_events).each(f64::from(many - few)))
    }

    fn events(&self, words: &[&str], times: u32) -> Result<Events> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--cache-sim=yes"])
            .arg(format!("--callgrind-out-file={}", self.out.display()))
            .arg(self.program)
            .arg("count")
            .args(words)
            .arg(times.to_string())
            .output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        let events = parse(&text).filter(|_| output.status.success());
        events.ok_or_else(|| format!("callgrind with {words:?}: {text}").into())
    }
}

/// The summary of callgrind: a line of names, a line of numbers.
fn parse(text: &str) -> Option<Events> {
    let line = |word: &str| {
        let line = text.lines().find_map(|line| line.split_once(word));
        line.map(|(_, rest)| rest.split_whitespace().skip(1))
    };
    let mut events = Events::default();
    for (name, count) in line("Events ")?.zip(line("Collected ")?) {
        let count: f64 = count.parse().ok()?;
        match name {
            "Ir" => events.instructions += count,
            "D1mr" | "D1mw" => events.first_level_misses += count,
            "DLmr" | "DLmw" => events.last_level_misses += count,
            _ => {}
        }
    }
    Some(events)
}

impl Events {
    pub(super) fn less(self, other: Events) -> Events {
        Events {
            instructions: self.instructions - other.instructions,
            first_level_misses: self.first_level_misses - other.first_level_misses,
            last_level_misses: self.last_level_misses - other.last_level_misses,
        }
    }

    fn each(self, operations: f64) -> Events {
        Events {
            instructions: self.instructions / operations,
            first_level_misses: self.first_level_misses / operations,
            last_level_misses: self.last_level_misses / operations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_callgrind_are_read() {
        let text = "==7== Events    : Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n\
                    ==7== Collected : 900 300 200 9 30 20 9 3 2\n==7== \n";
        let expected = Events {
            instructions: 900.0,
            first_level_misses: 50.0,
            last_level_misses: 5.0,
        };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse("Segmentation fault"), None);
    }

    #[test]
    fn the_difference_of_two_runs_is_told_an_operation() {
        let run = |n: f64| Events {
            instructions: 1_000.0 + 7.0 * n,
            first_level_misses: 10.0 + n,
            last_level_misses: 5.0,
        };
        let each = run(300.0).less(run(100.0)).each(200.0);
        assert_eq!((each.instructions, each.first_level_misses), (7.0, 1.0));
    }
}
