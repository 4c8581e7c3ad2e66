//! Everything CI runs, as one program: `cargo xtask TASK`.
//!
//! Each task is a module: a plan, which `schedule.rs` runs. A plan is a list of steps (`step.rs`). A
//! step is a command line that can be typed by hand (`command.rs`), or a check of the workspace's
//! metadata (`workspace.rs`) and files (`source_tree.rs`).
//!
//! A step is data: a failed step prints the line that it ran. There is no shell, and no state between
//! tasks.

mod command;
mod schedule;
mod source_tree;
mod step;
mod test_report;
mod workspace;

mod attended;
mod compat;
mod counts;
mod deny;
mod fuzz;
mod layers;
mod loom;
mod manifests;
mod mutants;
mod nightly;
mod packages;
mod targets;
mod test;
mod tidy;

use std::env;
use std::error::Error;
use std::process::ExitCode;

/// Errors are for people to read; no caller distinguishes them.
type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const HELP: &str = "\
Everything CI runs, as one program.

cargo xtask test             all that a change must pass, with only the Rust toolchain
cargo xtask test --quick     what finds most faults, in a few minutes
cargo xtask test --ci        also what needs the network or Debian's compiler
cargo xtask nightly          what takes long and seldom finds anything
cargo xtask injection        each system call of the server fails in turn (needs strace)
cargo xtask layers           the dependencies between crates, and the contents of manifests
cargo xtask tidy             rules that no compiler knows: sizes, names, places, documents
cargo xtask loom             the loom models, in all interleavings that their files ask for
cargo xtask mutants [NAME]   bugs planted into a copy of the tree, each of which a test must find
cargo xtask counts           instructions, allocations and system calls, beside their limits
cargo xtask deny             licences, sources and versions of dependencies (needs cargo-deny)
cargo xtask packages         the published crates, each built from its package (needs the network)
cargo xtask targets          a type check for other systems
cargo xtask fuzz [--seconds N]
                             the fuzz targets, a minute each (needs a nightly compiler and
                             cargo-fuzz)
cargo xtask bench [WORDS]    the parts beside their peers, into docs/performance.md; the words are
                             [--quick] [--missing] [--out DIR] [--docs DIR] [PART...]
cargo xtask soak MINUTES     two servers under a mixed load; one is killed, reloaded and upgraded
cargo xtask demo [--seconds N]
                             the dashboard under a load, while workers are killed
cargo xtask screenshots      the pictures in docs/dashboard (needs chromium, chromium-driver and
                             pngquant)
";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the task that the words after the program's name select.
fn run(words: &[&str]) -> Result {
    if words.iter().any(|word| ["-h", "--help"].contains(word)) {
        print!("{HELP}");
        return Ok(());
    }
    let ws = &workspace::load()?;
    let plan = match words {
        ["test"] => test::plan(ws)?,
        ["test", "--quick"] => test::quick(ws)?,
        ["test", "--ci"] => test::ci(ws)?,
        ["nightly"] => nightly::plan(ws).and(nightly::beyond_the_toolchain(ws)),
        ["injection"] => nightly::injection(),
        ["layers"] => layers::plan(),
        ["tidy"] => tidy::plan(),
        ["loom"] => loom::plan(ws, loom::ALL),
        ["mutants"] => mutants::plan(ws, "")?,
        ["mutants", name] => mutants::plan(ws, name)?,
        ["counts"] => counts::plan(ws),
        ["deny"] => deny::plan().and(deny::advisories()),
        ["packages"] => packages::plan(ws),
        ["targets"] => targets::plan(ws, targets::SOME).and(targets::plan(ws, targets::OTHERS)),
        ["fuzz"] => fuzz::plan(ws, fuzz::SECONDS),
        ["fuzz", "--seconds", seconds] => fuzz::plan(ws, seconds.parse()?),
        ["bench", words @ ..] => return attended::bench(ws, words),
        ["soak", minutes] => return attended::soak(ws, minutes),
        ["demo"] => return attended::demo(ws, "120"),
        ["demo", "--seconds", seconds] => return attended::demo(ws, seconds),
        ["screenshots"] => return attended::demo(ws, "--screenshots docs/dashboard"),
        _ => return Err(format!("no task `{}`\n\n{HELP}", words.join(" ")).into()),
    };
    plan.run(ws)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_wrong_words_run_nothing() {
        assert!(run(&["test", "--help"]).is_ok());
        for line in ["", "tests", "test --ci --quick", "demo 5"] {
            let words: Vec<&str> = line.split_whitespace().collect();
            let error = run(&words).unwrap_err().to_string();
            assert!(error.contains("no task") && error.contains(HELP), "{error}");
        }
    }
}
