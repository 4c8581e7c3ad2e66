//! A type check for the systems that this machine is not.
//!
//! Nothing is linked and nothing runs, but an interface that a system does not
//! have, or has with other types, shows. The standard library of each target
//! is checked from its source, so no target has to be installed: Debian's
//! compiler brings that source, and `RUSTC_BOOTSTRAP` lets a stable compiler
//! use the flag for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::command::CommandLine;
use crate::schedule::Plan;
use crate::step::Step;
use crate::workspace::Workspace;

/// The systems to check for in CI: kqueue with the fewest calls of Linux, and event ports.
pub(crate) const SOME: &[&str] = &["x86_64-apple-darwin", "x86_64-unknown-illumos"];

/// The systems to check for each night.
pub(crate) const OTHERS: &[&str] = &[
    "x86_64-unknown-freebsd",
    "x86_64-unknown-netbsd",
    "x86_64-unknown-openbsd",
];

/// Where Debian's packages put their programs.
const BIN: &str = "/usr/bin";

pub(crate) fn run(workspace: &Workspace) -> Result {
    let plan = plan(workspace, SOME).and(plan(workspace, OTHERS));
    plan.run(workspace)
}

/// A step for the systems, if Debian's compiler is here.
pub(crate) fn plan(workspace: &Workspace, systems: &[&str]) -> Plan {
    match missing(workspace) {
        None => Plan::of([step(workspace, systems)]),
        Some(missing) => Plan::left_out(format!(
            "targets {}: {missing} (Debian packages rustc-web cargo-web rust-web-src)",
            systems.join(", ")
        )),
    }
}

/// One build for all systems: what runs on this machine meanwhile, such as macros, is built once.
fn step(workspace: &Workspace, systems: &[&str]) -> Step {
    let targets: String = systems.iter().map(|it| format!(" --target {it}")).collect();
    // The tasks and the benchmarks run on the machine that builds; all else runs on the target.
    let line = format!(
        "{BIN}/cargo check -Zbuild-std=std{targets} --workspace --exclude xtask \
         --exclude evcore-bench --all-targets"
    );
    let command = CommandLine::new(&line)
        .env("RUSTC_BOOTSTRAP", "1")
        // Cargo compiles the standard library, and does not only check it: without its code.
        .env("RUSTFLAGS", "-Zno-codegen")
        // Nothing is linked, and there is no C compiler for the targets.
        .env("TARGET_CC", "true")
        .env("TARGET_AR", "true")
        .env("SDKROOT", "/")
        .env("CARGO_TARGET_DIR", workspace.own_target_dir("targets"))
        // rustup's cargo, which runs this program, would lead to rustup's compiler.
        .env("RUSTC", format!("{BIN}/rustc"))
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("RUSTUP_TOOLCHAIN");
    Step::command(format!("targets: {}", systems.join(" ")), command)
}

/// What is missing for the check, if anything.
fn missing(workspace: &Workspace) -> Option<String> {
    let [cargo, rustc] = ["cargo", "rustc"].map(|name| Path::new(BIN).join(name));
    if let Some(program) = [&cargo, &rustc].into_iter().find(|path| !path.exists()) {
        return Some(format!("{} is not installed", program.display()));
    }
    let oldest = workspace.packages.first().map_or("", |p| &p.rust_version);
    let version = printed(&rustc, &["--version"]);
    if minor(&version) < minor(&format!("rustc {oldest}")) {
        return Some(format!(
            "{} is {version}, older than {oldest}",
            rustc.display()
        ));
    }
    let source = PathBuf::from(printed(&rustc, &["--print", "sysroot"]))
        .join("lib/rustlib/src/rust/library/Cargo.lock");
    (!source.exists()).then(|| format!("{} is not installed", source.display()))
}

/// What a program prints; nothing if it cannot be run.
fn printed(program: &Path, args: &[&str]) -> String {
    let mut command = Command::new(program);
    let output = command.args(args).env_remove("LD_LIBRARY_PATH").output();
    let bytes = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// The 85 of `rustc 1.85.0 (...)`.
fn minor(version: &str) -> Option<u32> {
    version.split(['.', ' ']).nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_targets_are_checked_without_what_runs_here() {
        let command = step(&Workspace::fake(Vec::new()), OTHERS).alone();
        let end = " --target x86_64-unknown-openbsd --workspace --exclude xtask --exclude \
                   evcore-bench --all-targets";
        assert!(command.ends_with(end), "{command}");
        assert_eq!(command.matches("--target ").count(), OTHERS.len());
    }

    #[test]
    fn versions_compare_by_their_minor_number() {
        assert_eq!(minor("rustc 1.96.0 (ac68faa20 2026-05-25)"), Some(96));
        assert!(minor("rustc 1.63.0") < minor("rustc 1.85"));
        assert!(minor("") < minor("rustc 1.85"));
    }
}
