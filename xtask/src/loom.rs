//! The loom models: `tests/loom_*.rs` of any crate, in one build.
//!
//! A target directory of their own, since the flag is another build of all
//! dependencies; optimised, since loom runs each model some 100,000 times.

use crate::Result;
use crate::command::CommandLine;
use crate::schedule::Plan;
use crate::source_tree::Tree;
use crate::step::Step;
use crate::workspace::{Package, Workspace};

/// The name that chooses loom's types. Private, so that it does not reach other crates.
const CFG: &str = "--cfg evcore_loom";

/// Which interleavings of a model run.
#[derive(Clone, Copy)]
pub(crate) struct Interleavings {
    name: &'static str,
    /// The greatest number of preemptions. A model may have a smaller one.
    preemptions: Option<&'static str>,
}

/// Those with few preemptions, which find nearly all faults: for CI.
pub(crate) const SOME: Interleavings = Interleavings {
    name: "loom",
    preemptions: Some("3"),
};

/// Those that the models ask for.
pub(crate) const ALL: Interleavings = Interleavings {
    name: "loom with all interleavings",
    preemptions: None,
};

pub(crate) fn run(workspace: &Workspace) -> Result {
    let tree = Tree::read(&workspace.root)?;
    plan(workspace, &tree, ALL).run(workspace)
}

/// A step for all models, if there are any.
pub(crate) fn plan(workspace: &Workspace, tree: &Tree, which: Interleavings) -> Plan {
    let arguments: String = workspace
        .packages
        .iter()
        .map(|it| models(it, tree))
        .collect();
    if arguments.is_empty() {
        return Plan::default();
    }
    let command = CommandLine::new(&format!("cargo test --profile loom{arguments}"))
        .env("CARGO_TARGET_DIR", workspace.own_target_dir("loom"))
        .env("RUSTFLAGS", CFG);
    let command = match which.preemptions {
        Some(most) => command.env("LOOM_MAX_PREEMPTIONS", most),
        None => command,
    };
    Plan::of([Step::command(which.name, command).all_have_tests()])
}

/// What names the models of a crate: ` -p NAME --test loom_a --test loom_b`; nothing without any.
fn models(package: &Package, tree: &Tree) -> String {
    let tests = tree
        .files
        .iter()
        .filter_map(|file| model(package, &file.path));
    let tests: String = tests.map(|test| format!(" --test {test}")).collect();
    match tests.as_str() {
        "" => tests,
        _ => format!(" -p {}{tests}", package.name),
    }
}

/// The name of the model at `path`, if it is one of `package`.
fn model<'a>(package: &Package, path: &'a str) -> Option<&'a str> {
    let tests = path.strip_prefix(&package.dir)?.strip_prefix("/tests/")?;
    let name = tests.strip_suffix(".rs")?;
    (name.starts_with("loom_") && !name.contains('/')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_their_files_and_run_with_their_cfg() {
        let tree = Tree::fake(&[
            ("crates/evcore-clock/tests/loom_shared.rs", ""),
            ("crates/evcore-posted/tests/loom_drain.rs", ""),
            ("crates/evcore-posted/tests/loom_inbox.rs", ""),
            ("crates/evcore-posted/tests/oracle.rs", ""),
            ("crates/evcore-token/src/loom_no.rs", ""),
        ]);
        let names = ["evcore-clock", "evcore-posted", "evcore-token"];
        let workspace = Workspace::fake(names.map(Package::fake).into());
        let command = |which| plan(&workspace, &tree, which).steps[0].alone();
        let all = "CARGO_TARGET_DIR=target/loom RUSTFLAGS=\"--cfg evcore_loom\" \
                   cargo test --profile loom -p evcore-clock --test loom_shared -p evcore-posted \
                   --test loom_drain --test loom_inbox";
        assert_eq!(command(ALL), all);
        assert!(command(SOME).contains("LOOM_MAX_PREEMPTIONS=3 cargo test"));
    }
}
