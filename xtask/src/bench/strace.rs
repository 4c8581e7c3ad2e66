//! System calls, by strace: the difference of two run lengths, as for instructions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, strace};

/// How often each call is made, an operation; in the order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Calls(BTreeMap<String, f64>);

/// Runs `evcore-bench count` under strace.
#[derive(Debug)]
pub(super) struct Strace<'a> {
    program: &'a Path,
    /// Where strace writes its table.
    out: PathBuf,
}

impl<'a> Strace<'a> {
    /// For the program, with a folder for what it leaves; `None` where strace is not installed.
    pub(super) fn new(program: &'a Path, folder: &Path) -> Option<Strace<'a>> {
        let version = Command::new("strace").arg("--version").output();
        version.ok().map(|_| Strace {
            program,
            out: folder.join("strace.out"),
        })
    }

    /// What one operation takes, where the words are followed by how many there are.
    pub(super) fn each(&self, words: &[&str], [few, many]: [u32; 2]) -> Result<Calls> {
        let (few_calls, many_calls) = (self.calls(words, few)?, self.calls(words, many)?);
        Ok(many_calls.less(&few_calls).each(f64::from(many - few)))
    }

    fn calls(&self, words: &[&str], times: u32) -> Result<Calls> {
        let output = Command::new("strace")
            .args(["-c", "-f", "-o"])
            .arg(&self.out)
            .arg(self.program)
            .arg("count")
            .args(words)
            .arg(times.to_string())
            .output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("strace with {words:?}: {text}").into());
        }
        Ok(parse(&std::fs::read_to_string(&self.out)?))
    }
}

fn parse(table: &str) -> Calls {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let calls = strace::calls(table).map(|(name, calls)| (name, calls as f64));
    Calls(calls.collect())
}

impl Calls {
    /// Without those that are no part of the operation.
    pub(super) fn less(mut self, other: &Calls) -> Calls {
        for (name, calls) in &other.0 {
            *self.0.entry(name.clone()).or_default() -= calls;
        }
        self.0.retain(|_, calls| *calls != 0.0);
        self
    }

    /// Once each of these.
    pub(super) fn once(names: &[&str]) -> Calls {
        Calls(names.iter().map(|name| ((*name).to_owned(), 1.0)).collect())
    }

    /// How many there are in all.
    pub(super) fn in_all(&self) -> f64 {
        // Not `sum`, by which no calls are -0.
        self.0.values().fold(0.0, |sum, calls| sum + calls)
    }

    /// How many in all, and their names, with how often where there are several.
    pub(super) fn shown(&self) -> String {
        let number = format!("**{}**", self.in_all());
        match self.0.len() {
            0 => number,
            1 => format!("{number} {}", self.named(|_| String::new())),
            _ => format!("{number}: {}", self.named(|calls| format!("{calls} "))),
        }
    }

    fn named(&self, often: impl Fn(f64) -> String) -> String {
        let often = |calls| {
            if calls == 1.0 {
                String::new()
            } else {
                often(calls)
            }
        };
        let named = self.0.iter();
        let named = named.map(|(name, calls)| format!("{}`{name}`", often(*calls)));
        named.collect::<Vec<_>>().join(", ")
    }

    fn each(mut self, operations: f64) -> Calls {
        self.0.values_mut().for_each(|calls| *calls /= operations);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 57.55    0.149118          45       302           epoll_ctl
 41.23    0.106842          32       101         1 read
  0.00    0.000000           0         1           close
------ ----------- ----------- --------- --------- ----------------
100.00    0.259118          39       404         1 total
";

    #[test]
    fn the_difference_of_two_tables_is_told_an_operation() {
        let few = Calls::once(&["close", "read"]).less(&Calls::default());
        let each = parse(TABLE).less(&few).each(100.0);
        assert_eq!(each.shown(), "**4.02**: 3.02 `epoll_ctl`, `read`");
        assert!((each.in_all() - 4.02).abs() < 1e-9);
    }

    #[test]
    fn one_call_made_twice_is_told_once() {
        let twice = Calls::once(&["read"]).each(0.5);
        assert_eq!(twice.shown(), "**2** `read`");
    }

    #[test]
    fn what_makes_no_call_has_none() {
        let each = parse(TABLE).less(&parse(TABLE)).each(10.0);
        assert_eq!(each.shown(), "**0**");
    }
}
