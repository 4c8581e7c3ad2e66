//! A type check for the systems that this machine is not.
//!
//! Nothing is linked and nothing runs, but an interface that a system does not have, or has with
//! other types, shows. The standard library of each target is checked from its source, so no target
//! has to be installed: Debian's compiler brings that source, and `RUSTC_BOOTSTRAP` lets a stable
//! compiler use the flag for it.

use crate::plan::Plan;
use crate::workspace::{Workspace, target_dir};

/// The systems to check for in CI: kqueue with the fewest calls of Linux, and event ports with
/// `/dev/poll`.
pub(crate) const SOME: &[&str] = &["x86_64-apple-darwin", "x86_64-unknown-illumos"];

/// The systems to check for each night.
pub(crate) const OTHERS: &[&str] = &[
    "x86_64-unknown-freebsd",
    "x86_64-unknown-netbsd",
    "x86_64-unknown-openbsd",
];

/// Debian's compiler. rustup's cargo, which runs this program, would lead it to rustup's libraries.
const CARGO: &str = "env -u LD_LIBRARY_PATH -u RUSTUP_TOOLCHAIN /usr/bin/cargo";

/// Where it has the source of the standard library.
const SOURCE: &str = "/usr/lib/rustlib/src/rust/library/Cargo.lock";

/// A step for the systems, in one build: what runs on this machine meanwhile, such as macros, is
/// built once.
pub(crate) fn plan(workspace: &Workspace, systems: &[&str]) -> Plan {
    let line = [
        &format!("CARGO_TARGET_DIR={}", target_dir(workspace, "targets")),
        "RUSTC_BOOTSTRAP=1",
        // Cargo compiles the standard library, and does not only check it: without its code.
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
