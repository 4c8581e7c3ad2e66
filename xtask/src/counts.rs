//! The counts that CI asserts: instructions, allocations and system calls, from a release build.

use crate::plan::Plan;
use crate::workspace::{Workspace, target_dir};

/// The steps that build and count. They need strace, which exists only for Linux.
pub(crate) fn plan(workspace: &Workspace) -> Plan {
    // `cargo run` would build the package again, because a package that is built alone has fewer
    // features.
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
