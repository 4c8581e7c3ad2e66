//! The counts that CI asserts: instructions, allocations and system calls, from a release build.

use std::process::{Command, Stdio};

use crate::command::CommandLine;
use crate::schedule::Plan;
use crate::step::Step;
use crate::workspace::Workspace;

/// They count instructions and allocations, and system calls. A count without its tool is listed.
const TOOLS: [&str; 2] = ["valgrind", "strace"];

/// Builds and counts; nothing if no tool is installed, or the system is not Linux.
pub(crate) fn plan(workspace: &Workspace) -> Plan {
    if !cfg!(target_os = "linux") || TOOLS.iter().all(|tool| !is_installed(tool)) {
        let tools = TOOLS.join(" and ");
        return Plan::left_out(format!(
            "counts: {tools} are not installed, or not for this system"
        ));
    }
    let build = "cargo build --release -p evcore-bench -p evcore-httpd";
    // Not `cargo run`: alone, the package has fewer features, and would be built again.
    let count = format!(
        "{}/evcore-bench counts",
        workspace.own_target_dir("release")
    );
    let steps = [("counts: build", build), ("counts", &count)];
    Plan::of(steps.map(|(name, line)| Step::command(name, CommandLine::new(line))))
}

/// Whether a program can be started.
pub(crate) fn is_installed(tool: &str) -> bool {
    let mut version = Command::new(tool);
    version
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok()
}
