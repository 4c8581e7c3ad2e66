//! The counts that CI asserts: instructions, allocations and system calls, from a release build.

use crate::command::printed;
use crate::schedule::Plan;
use crate::workspace::{Workspace, target_dir};

/// They count instructions and allocations, and system calls. A count without its tool is listed.
const TOOLS: [&str; 2] = ["valgrind --version", "strace --version"];

/// Builds and counts; nothing if no tool is installed, or the system is not Linux.
pub(crate) fn plan(workspace: &Workspace) -> Plan {
    if !cfg!(target_os = "linux") || TOOLS.iter().all(|tool| printed(tool).is_none()) {
        return Plan::default()
            .left_out("counts: valgrind and strace are not installed, or not for this system");
    }
    // Not `cargo run`: alone, the package has fewer features, and would be built again.
    let count = format!("{}/evcore-bench counts", target_dir(workspace, "release"));
    Plan::default()
        .command(
            "counts: build",
            "cargo build --release -p evcore-bench -p evcore-httpd",
        )
        .command("counts: check", count)
}
