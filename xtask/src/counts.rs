//! The counts that CI asserts: instructions, allocations and system calls, from a release build.

use std::process::{Command, Stdio};

use crate::Result;
use crate::command::CommandLine;
use crate::step::{self, Step};
use crate::workspace::Workspace;

/// The tools, and what they count.
const TOOLS: [(&str, &str); 2] = [
    ("valgrind", "instructions and allocations"),
    ("strace", "system calls"),
];

pub(crate) fn run(workspace: &Workspace) -> Result {
    step::run_all(workspace, &steps())?;
    report_missing();
    Ok(())
}

/// Builds and counts; nothing if no tool is installed, or the system is not Linux.
pub(crate) fn steps() -> Vec<Step> {
    if !cfg!(target_os = "linux") || TOOLS.iter().all(|(tool, _)| !is_installed(tool)) {
        return Vec::new();
    }
    let build = "cargo build --release -p evcore-bench -p evcore-httpd";
    let count = "cargo run --release -p evcore-bench -- counts";
    let steps = [("counts: build", build), ("counts", count)];
    let steps = steps.map(|(name, line)| Step::command(name, CommandLine::new(line)));
    steps.into()
}

/// Prints what is not counted for want of a tool.
pub(crate) fn report_missing() {
    for (tool, what) in TOOLS.iter().filter(|(tool, _)| !is_installed(tool)) {
        println!("not counted here: {what}; {tool} is not installed");
    }
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
