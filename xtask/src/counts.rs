//! The counts that CI asserts: instructions, allocations and system calls, from a release build.

use crate::plan::Plan;
use crate::workspace::{Workspace, target_dir};

/// Builds and counts. A count without its tool is listed; strace is for Linux alone.
pub(crate) fn plan(workspace: &Workspace) -> Plan {
    // `cargo run` would build the package again, because alone it has fewer features.
    let count = format!("{}/evcore-bench counts", target_dir(workspace, "release"));
    Plan::default()
        .command(
            "counts: build",
            "cargo build --release -p evcore-bench -p evcore-httpd",
        )
        .command("counts: check", count)
        .needs(
            "strace --version",
            "strace is not installed, or not for this system",
        )
}
