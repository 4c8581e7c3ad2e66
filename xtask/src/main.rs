//! Everything that CI runs, as one program: `cargo xtask TASK`.
//!
//! Most tasks are plans (`plan.rs`): lists of steps, each a command line that can be typed by hand
//! (`command.rs`). Some check files in this process, and may be steps of a plan. The rest run a
//! program that a person watches (`attended.rs`).
//!
//! A failed step prints the line that it ran. Lines are run without a shell.

mod command;
mod plan;
mod test_report;
mod workspace;

mod api;
mod attended;
mod compat;
mod counts;
mod deny;
mod documents;
mod fuzz;
mod installed;
mod layers;
mod loom;
mod modules;
mod mutants;
mod nightly;
mod packages;
mod pictures;
mod readmes;
mod targets;
mod test;
mod test_programs;
mod tidy;

use std::env;
use std::error::Error;
use std::fs;
use std::process::ExitCode;
use std::sync::LazyLock;

use crate::test_programs::Share;

/// Errors are for people to read, so no caller distinguishes them.
type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    LazyLock::force(&command::THIS);
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

fn run(words: &[&str]) -> Result {
    if words.iter().any(|word| ["-h", "--help"].contains(word)) {
        print!("{}", help());
        return Ok(());
    }
    let ws = &workspace::load()?;
    let plan = match words {
        ["test"] => test::plan(ws)?,
        ["test", "--ci"] => return installed::check(&test::ci(ws)?.run(ws)?),
        ["tests"] => return test_programs::run(Share::All),
        ["tests", "--some"] => return test_programs::run(Share::Some),
        ["nightly"] => nightly::plan(ws).and(nightly::beyond_the_toolchain(ws)?),
        ["injection"] => nightly::injection(),
        ["layers"] => return layers::check(ws),
        ["tidy"] => return tidy::check(ws),
        ["loom"] => loom::plan(ws, loom::ALL),
        ["mutants"] => mutants::plan("")?,
        ["mutants", name] if fs::exists(mutants::patch(name))? => {
            return mutants::check(ws, name);
        }
        ["mutants", part] => mutants::plan(part)?,
        ["counts"] => counts::plan(ws),
        ["deny"] => deny::plan().and(deny::advisories()),
        ["packages"] => return packages::check(ws),
        ["api"] => return api::check(ws),
        ["api", "--update"] => return api::update(ws),
        ["pictures"] => return pictures::write(),
        ["readmes"] => return readmes::check(ws),
        ["targets"] => targets::plan(ws, targets::SOME).and(targets::plan(ws, targets::OTHERS)),
        ["fuzz"] => fuzz::plan(ws, fuzz::SECONDS)?,
        ["fuzz", "--seconds", seconds] => fuzz::plan(ws, seconds.parse()?)?,
        ["bench", words @ ..] => return attended::bench(ws, words),
        ["soak", minutes] => return attended::soak(minutes),
        ["demo"] => return attended::demo(),
        ["screenshots"] => return attended::screenshots(ws),
        _ => return Err(format!("no task `{}`\n{}", words.join(" "), help()).into()),
    };
    plan.run(ws).map(drop)
}

/// The list of tasks in the README.
fn help() -> &'static str {
    let mut parts = include_str!("../README.md").split("```");
    let list = parts.nth(1).unwrap_or_default();
    list.trim_start_matches("text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_wrong_words_run_nothing() {
        assert!(run(&["test", "--help"]).is_ok());
        for line in ["", "all", "test --ci all", "demo 5"] {
            let words: Vec<&str> = line.split_whitespace().collect();
            let error = run(&words).unwrap_err().to_string();
            assert!(
                error.contains("no task") && error.contains("\ncargo xtask test "),
                "{error}"
            );
        }
    }
}
