//! The loom models: `tests/loom_*.rs` of any crate, in one build.
//!
//! A target directory of their own, since the flag is another build of all dependencies; optimised,
//! since loom runs each model some 100,000 times.

use crate::schedule::Plan;
use crate::workspace::{Workspace, target_dir};

/// Which interleavings of a model run: the name of the step, and its variable.
pub(crate) type Interleavings = (&'static str, &'static str);

/// Those with at most 3 preemptions, which find nearly all faults: for CI. A model may allow fewer.
pub(crate) const SOME: Interleavings = ("loom", "LOOM_MAX_PREEMPTIONS=3 ");

/// Those that the models ask for.
pub(crate) const ALL: Interleavings = ("loom with all interleavings", "");

/// A step for all models.
pub(crate) fn plan(workspace: &Workspace, (name, variable): Interleavings) -> Plan {
    let mut models = String::new();
    for package in &workspace.packages {
        let tests = package.targets.iter().filter(|target| target.is_test());
        let tests = tests.filter(|target| target.name.starts_with("loom_"));
        let tests: String = tests.map(|it| format!(" --test {}", it.name)).collect();
        if !tests.is_empty() {
            models += &format!(" -p {}{tests}", package.name);
        }
    }
    let dir = target_dir(workspace, "loom");
    // The name of the cfg is private, so that it does not reach other crates.
    let line = format!(
        "CARGO_TARGET_DIR={dir} RUSTFLAGS=--cfg=evcore_loom {variable}cargo test --profile loom{models}"
    );
    Plan::default().command(name, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_their_files_and_run_with_their_cfg() {
        let plan = plan(&crate::workspace::load().unwrap(), SOME);
        let line = &plan.steps[0].line;
        let model = " -p evcore-balancer --test loom_group --test loom_lock";
        assert!(
            line.contains("--cfg=evcore_loom LOOM_MAX_PREEMPTIONS=3 cargo test"),
            "{line}"
        );
        assert!(
            line.contains(model) && !line.contains("evcore-token"),
            "{line}"
        );
    }
}
