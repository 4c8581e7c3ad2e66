//! `tests/fuzz/`: fuzz targets, which need a nightly compiler and cargo-fuzz.

use crate::Result;
use crate::plan::Plan;
use crate::workspace::{Workspace, names_in, target_dir};

/// Number of seconds for which each target runs, unless another number is given.
pub(crate) const SECONDS: u32 = 60;

/// A step for each target, which runs it for `seconds` seconds. The inputs that a run finds are
/// kept in the target's corpus, with which the next run begins.
pub(crate) fn plan(workspace: &Workspace, seconds: u32) -> Result<Plan> {
    let dir = target_dir(workspace, "fuzz");
    let add = |plan: Plan, target: String| {
        let line = format!(
            "CARGO_TARGET_DIR={dir} cargo +nightly fuzz run --fuzz-dir tests/fuzz {target} {dir}/corpus/{target} \
             tests/fuzz/seeds/{target} -- -create_missing_dirs=1 -max_total_time={seconds} -max_len=65536"
        );
        plan.command(format!("fuzz: {target}"), line)
    };
    let targets = names_in("tests/fuzz/fuzz_targets/", ".rs")?.into_iter();
    Ok(targets.fold(Plan::default(), add).needs(
        "cargo +nightly fuzz --version",
        "there is no nightly toolchain, or cargo-fuzz is not installed",
    ))
}

/// A type check of the targets by the workspace's compiler, in the common target directory, where
/// most of their dependencies are checked already.
pub(crate) fn check(workspace: &Workspace) -> Plan {
    let line = [
        // The root's profile has the same value, so cargo shares the checks of the dependencies.
        "CARGO_PROFILE_DEV_DEBUG=none",
        // Nothing is linked, so libFuzzer, whose C++ takes long to compile, is left out.
        "CUSTOM_LIBFUZZER_PATH=none/libfuzzer.a",
        "cargo check --locked --manifest-path tests/fuzz/Cargo.toml --target-dir",
        &target_dir(workspace, ""),
    ];
    Plan::default().command("check fuzz targets", line.join(" "))
}
