//! A type check for the systems that this machine is not.
//!
//! Nothing is linked and nothing runs, but an interface that a system does not have, or has with
//! other types, shows. The standard library of each target is checked from its source, so no target
//! has to be installed: Debian's compiler brings that source, and `RUSTC_BOOTSTRAP` lets a stable
//! compiler use the flag for it.

use std::path::Path;

use crate::command::printed;
use crate::schedule::Plan;
use crate::workspace::{Workspace, rust_minor, target_dir};

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
const RUSTC: &str = "env -u LD_LIBRARY_PATH -u RUSTUP_TOOLCHAIN /usr/bin/rustc";

/// A step for the systems, if Debian's compiler is here.
pub(crate) fn plan(workspace: &Workspace, systems: &[&str]) -> Plan {
    let name = format!("targets: {}", systems.join(" "));
    match missing(workspace) {
        None => Plan::default().command(name, line(workspace, systems)),
        Some(missing) => Plan::default().left_out(format!(
            "{name}: {missing} (Debian packages rustc-web cargo-web rust-web-src)"
        )),
    }
}

/// One build for all systems: what runs on this machine meanwhile, such as macros, is built once.
fn line(workspace: &Workspace, systems: &[&str]) -> String {
    [
        &format!("CARGO_TARGET_DIR={}", target_dir(workspace, "targets")),
        "RUSTC_BOOTSTRAP=1",
        // Cargo compiles the standard library, and does not only check it: without its code.
        "RUSTFLAGS=-Zno-codegen",
        // Nothing is linked, and there is no C compiler for the targets.
        "TARGET_CC=true TARGET_AR=true SDKROOT=/",
        "RUSTC=/usr/bin/rustc",
        &RUSTC.replace("rustc", "cargo"),
        "check -Zbuild-std=std --target",
        &systems.join(" --target "),
        // The tasks and the benchmarks run on the machine that builds; all else runs on the target.
        "--workspace --exclude xtask --exclude evcore-bench --all-targets",
    ]
    .join(" ")
}

/// What is missing for the check, if anything.
fn missing(workspace: &Workspace) -> Option<String> {
    let oldest = rust_minor(workspace);
    let version = printed(&format!("{RUSTC} --version"));
    if version.as_deref().and_then(minor) < Some(oldest) {
        let version = version.unwrap_or_else(|| "not installed".to_owned());
        return Some(format!(
            "/usr/bin/rustc 1.{oldest} is needed, and it is {version}"
        ));
    }
    let sysroot = printed(&format!("{RUSTC} --print sysroot")).unwrap_or_default();
    let source = format!("{sysroot}/lib/rustlib/src/rust/library/Cargo.lock");
    let mut files = ["/usr/bin/cargo", &source].into_iter();
    let missing = files.find(|file| !Path::new(file).exists())?;
    Some(format!("{missing} is not installed"))
}

/// The 85 of `rustc 1.85.0 (...)`.
fn minor(version: &str) -> Option<u64> {
    version.split('.').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_targets_are_checked_without_what_runs_here() {
        let line = line(&crate::workspace::load().unwrap(), OTHERS);
        assert!(line.contains("/targets RUSTC_BOOTSTRAP=1 "), "{line}");
        assert!(line.contains(" env -u LD_LIBRARY_PATH -u RUSTUP_TOOLCHAIN /usr/bin/cargo check"));
        assert!(line.ends_with("--exclude xtask --exclude evcore-bench --all-targets"));
        assert_eq!(line.matches("--target ").count(), OTHERS.len());
    }

    #[test]
    fn versions_compare_by_their_minor_number() {
        assert_eq!(minor("rustc 1.96.0 (ac68faa20 2026-05-25)"), Some(96));
        assert!(minor("") < Some(85));
    }
}
