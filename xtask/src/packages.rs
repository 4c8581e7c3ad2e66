//! The packages that a registry would get: each is built from its archive, after those that it
//! depends on.
//!
//! A published version never changes, so cargo keeps what it has once unpacked and built of it, also
//! of this local build. To repeat the check after a change, remove `target/packages` and the
//! directories `registry/src/-*` of cargo's home.

use crate::Result;
use crate::command::CommandLine;
use crate::step::{self, Step};
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> Result {
    step::run_all(workspace, &[step(workspace)])
}

fn step(workspace: &Workspace) -> Step {
    let unpublished = workspace.packages.iter().filter(|p| !p.published);
    let exclude: String = unpublished
        .map(|p| format!(" --exclude {}", p.name))
        .collect();
    let line = format!("cargo package --workspace --allow-dirty{exclude}");
    let command = CommandLine::new(&line);
    let target_dir = workspace.own_target_dir("packages");
    Step::command("packages", command.env("CARGO_TARGET_DIR", target_dir))
}
