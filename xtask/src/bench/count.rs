//! Instructions and cache misses, by callgrind: the difference of two run lengths, so that neither
//! the start nor the first arming is in it.

use std::path::Path;
use std::process::Command;

use super::results::{Count, LOOP, Results};
use crate::Result;
use crate::workspace::Workspace;

/// Timers that are armed.
pub(super) const IDS: u64 = 100_000;

const FEW_STEPS: u32 = 50_000;
const MANY_STEPS: u32 = 150_000;

/// What callgrind counts that is told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Events {
    instructions: f64,
    first_level_misses: f64,
    last_level_misses: f64,
}

/// Counts what re-arming takes, for all who did it.
pub(super) fn timers(workspace: &Workspace, program: &Path, results: &mut Results) -> Result {
    if Command::new("valgrind").arg("--version").output().is_err() {
        results.uncounted = Some("valgrind is not installed here".to_owned());
        return Ok(());
    }
    let out = workspace.target_dir.join("xtask/callgrind.out");
    std::fs::create_dir_all(workspace.target_dir.join("xtask"))?;
    let each = |peer: &str| -> Result<Events> {
        let few = events(program, &out, peer, FEW_STEPS)?;
        let many = events(program, &out, peer, MANY_STEPS)?;
        Ok(many.less(few).each(f64::from(MANY_STEPS - FEW_STEPS)))
    };
    let own = each(LOOP)?;
    let peers: Vec<String> = results
        .peers("timers/rearm")
        .iter()
        .map(ToString::to_string)
        .collect();
    for peer in peers {
        eprintln!("timers: counting {peer}");
        let events = each(&peer)?.less(own);
        results.counts.push(Count {
            peer,
            instructions: events.instructions,
            first_level_misses: events.first_level_misses,
            last_level_misses: events.last_level_misses,
        });
    }
    Ok(())
}

fn events(program: &Path, out: &Path, peer: &str, steps: u32) -> Result<Events> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--cache-sim=yes"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args(["count", peer, &IDS.to_string(), &steps.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let events = parse(&text).filter(|_| output.status.success());
    events.ok_or_else(|| format!("callgrind with {peer}: {text}").into())
}

/// What callgrind says at its end: a line of names, a line of numbers.
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
    fn less(self, other: Events) -> Events {
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
