//! A type check for systems other than this one.
//!
//! Nothing is linked and nothing runs, but the check finds interfaces that a system lacks, or has
//! with other types. The standard library of each target is checked from its source, so no target
//! has to be installed: Debian's compiler brings that source, and `RUSTC_BOOTSTRAP` lets a stable
//! compiler use the flag for it.

use crate::plan::Plan;
use crate::workspace::{Workspace, target_dir};

/// The systems for which CI checks: macOS, the system with kqueue that has the fewest of Linux's
/// calls, and illumos, which has event ports and `/dev/poll`.
pub(crate) const SOME: &[&str] = &["x86_64-apple-darwin", "x86_64-unknown-illumos"];

pub(crate) const OTHERS: &[&str] = &[
    "x86_64-unknown-freebsd",
    "x86_64-unknown-netbsd",
    "x86_64-unknown-openbsd",
];

/// Debian's cargo and compiler, without the path to rustup's libraries that rustup's cargo sets.
const CARGO: &str = "env -u LD_LIBRARY_PATH -u RUSTUP_TOOLCHAIN /usr/bin/cargo";

/// A file of the standard library's source, as Debian's package installs it.
const SOURCE: &str = "/usr/lib/rustlib/src/rust/library/Cargo.lock";

/// A step for all systems in one build, so that procedural macros, which run on this machine, are
/// built once.
pub(crate) fn plan(workspace: &Workspace, systems: &[&str]) -> Plan {
    let line = [
        &format!("CARGO_TARGET_DIR={}", target_dir(workspace, "targets")),
        "RUSTC_BOOTSTRAP=1",
        // Cargo compiles the standard library instead of only checking it. This flag skips the
        // generation of code.
        "RUSTFLAGS=-Zno-codegen",
        // Nothing is linked, and there is no C compiler for the targets.
        "TARGET_CC=true TARGET_AR=true SDKROOT=/",
        "RUSTC=/usr/bin/rustc",
        CARGO,
        "check -Zbuild-std=std --target",
        &systems.join(" --target "),
        // The tasks and the benchmarks run on the machine that builds; all else runs on the target.
        "--workspace --exclude xtask --exclude evcore-bench --all-targets",
    ];
    let reason = "Debian's packages rustc-web cargo-web rust-web-src are not installed";
    Plan::default()
        .command(format!("targets: {}", systems.join(" ")), line.join(" "))
        .needs(&format!("{CARGO} --version"), reason)
        .needs(&format!("ls {SOURCE}"), reason)
}
