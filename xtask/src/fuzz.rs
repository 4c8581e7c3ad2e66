//! `fuzz/`: fuzz targets, which need a nightly compiler and cargo-fuzz.

use std::fs;

use crate::command::printed;
use crate::schedule::Plan;
use crate::workspace::{Workspace, target_dir};

/// How long each target runs at night.
pub(crate) const SECONDS: u32 = 60;

/// A step for each target, which takes this many seconds.
pub(crate) fn plan(workspace: &Workspace, seconds: u32) -> Plan {
    if printed("cargo +nightly fuzz --version").is_none() {
        return Plan::default()
            .left_out("fuzz: there is no nightly toolchain, or cargo-fuzz is not installed");
    }
    let targets = targets(workspace);
    targets.iter().fold(Plan::default(), |plan, target| {
        plan.command(format!("fuzz: {target}"), line(workspace, target, seconds))
    })
}

/// A type check of the targets by the compiler of all else, in the common directory: most of their
/// dependencies are checked there already.
pub(crate) fn check(workspace: &Workspace) -> Plan {
    let line = [
        // As in the root's profile, whose checks it shares.
        "CARGO_PROFILE_DEV_DEBUG=none",
        // Nothing is linked: without libFuzzer, whose C++ takes long to compile.
        "CUSTOM_LIBFUZZER_PATH=none/libfuzzer.a",
        "cargo check --locked --manifest-path fuzz/Cargo.toml --target-dir",
        &target_dir(workspace, ""),
    ];
    Plan::default().command("check fuzz targets", line.join(" "))
}

fn targets(workspace: &Workspace) -> Vec<String> {
    let files = fs::read_dir(workspace.workspace_root.join("fuzz/fuzz_targets"));
    let names = files.into_iter().flatten().flatten();
    let names = names.filter_map(|file| file.file_name().into_string().ok());
    let mut targets: Vec<_> = names
        .filter_map(|name| name.strip_suffix(".rs").map(str::to_owned))
        .collect();
    targets.sort();
    targets
}

/// What a run finds is kept in the first directory, where the next run begins.
fn line(workspace: &Workspace, target: &str, seconds: u32) -> String {
    let dir = target_dir(workspace, "fuzz");
    format!(
        "CARGO_TARGET_DIR={dir} cargo +nightly fuzz run {target} {dir}/corpus/{target} \
         fuzz/seeds/{target} -- -create_missing_dirs=1 -max_total_time={seconds}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_shares_the_common_directory() {
        let plan = check(&crate::workspace::load().unwrap());
        let step = &plan.steps[0];
        assert_eq!(step.build_dir(), "debug", "{}", step.line);
    }

    #[test]
    fn each_target_has_seeds() {
        let workspace = &crate::workspace::load().unwrap();
        let targets = targets(workspace);
        assert!(targets.len() > 3, "{targets:?}");
        for target in targets {
            let seeds = workspace.workspace_root.join("fuzz/seeds").join(&target);
            assert!(seeds.exists(), "{target}");
            let line = line(workspace, &target, 60);
            assert!(line.ends_with("-max_total_time=60"), "{line}");
        }
    }
}
