//! Everything CI runs, as one program: `cargo xtask <task>`.
//!
//! Each task is a module: a list of steps (`step.rs`), which `schedule.rs` runs. A step is either a
//! command that can be typed by hand (`command.rs`), or a check that returns diagnostics
//! (`diagnostic.rs`) about the workspace's metadata (`workspace.rs`) and files (`source_tree.rs`).
//!
//! A step is data: a failed step prints the command that it ran. There is no shell, and no state
//! between tasks.

mod cli;
mod command;
mod diagnostic;
mod schedule;
mod source_tree;
mod step;
mod test_report;
mod workspace;

mod bench;
mod ci;
mod compat;
mod counts;
mod demo;
mod deny;
mod layers;
mod loom;
mod mutants;
mod nightly;
mod packages;
mod targets;
mod test;
mod tidy;

use std::error::Error;
use std::process::ExitCode;

use cli::{Xtask, XtaskCmd};
use workspace::Workspace;

/// Errors are for people to read; no caller distinguishes them.
type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let task = Xtask::from_env_or_exit().subcommand;
    match run(&task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &XtaskCmd) -> Result {
    let workspace = Workspace::load()?;
    match task {
        XtaskCmd::Test(test) if test.ci && test.quick => Err("--ci or --quick, not both".into()),
        XtaskCmd::Test(test) if test.ci => ci::run(&workspace),
        XtaskCmd::Test(test) => test::run(&workspace, test.quick),
        XtaskCmd::Nightly(_) => nightly::run(&workspace),
        XtaskCmd::Layers(_) => layers::run(&workspace),
        XtaskCmd::Tidy(_) => tidy::run(&workspace),
        XtaskCmd::Loom(_) => loom::run(&workspace),
        XtaskCmd::Mutants(mutants) => {
            mutants::run(&workspace, mutants.name.as_deref().unwrap_or(""))
        }
        XtaskCmd::Counts(_) => counts::plan(&workspace).run(&workspace),
        XtaskCmd::Deny(_) => deny::run(&workspace),
        XtaskCmd::Packages(_) => packages::plan(&workspace).run(&workspace),
        XtaskCmd::Targets(_) => targets::run(&workspace),
        XtaskCmd::Bench(bench) => bench::run(&workspace, &bench.words()),
        XtaskCmd::Demo(demo) => demo::run(&workspace, demo.seconds.unwrap_or(120)),
        XtaskCmd::Screenshots(_) => demo::take_screenshots(&workspace),
    }
}
