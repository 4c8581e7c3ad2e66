//! What takes long and seldom finds anything: `cargo xtask test --ci` leaves it out.

use crate::command::CommandLine;
use crate::schedule::Plan;
use crate::source_tree::Tree;
use crate::step::Step;
use crate::workspace::Workspace;
use crate::{Result, compat, deny, loom, targets};

pub(crate) fn run(workspace: &Workspace) -> Result {
    let tree = Tree::read(&workspace.root)?;
    Plan::of(steps(workspace, &tree))
        .and(targets::plan(workspace, targets::OTHERS))
        .and(deny::advisories())
        .run(workspace)
}

/// The steps that need only the Rust toolchain.
pub(crate) fn steps(workspace: &Workspace, tree: &Tree) -> Vec<Step> {
    let default_features = "clippy --workspace --all-targets -- -D warnings";
    let mut steps = vec![Step::cargo(
        "clippy with default features",
        default_features,
    )];
    steps.extend(alone(workspace));
    let all_features = "test --workspace --all-features --tests";
    steps.push(Step::cargo("all tests with all features", all_features));
    steps.extend(long_runs());
    steps.extend(loom::plan(workspace, tree, loom::ALL).steps);
    steps.push(compat::clippy(workspace));
    steps
}

/// Tests each published crate alone, with the features that only its own manifest asks for.
fn alone(workspace: &Workspace) -> Vec<Step> {
    let steps = workspace.published().flat_map(|package| {
        let name = &package.name;
        let alone = Step::cargo(&format!("alone: {name}"), &format!("test -p {name}"));
        let bare = package.default_features.then(|| {
            let line = format!("test -p {name} --no-default-features");
            Step::cargo(&format!("alone without features: {name}"), &line)
        });
        [Some(alone), bare].into_iter().flatten()
    });
    steps.collect()
}

/// Random tests with more cases, and loads that last longer.
fn long_runs() -> [Step; 2] {
    let cases = CommandLine::new("cargo test --workspace --lib").env("PROPTEST_CASES", "2000");
    let loads = CommandLine::new("cargo test --workspace --test simulation --test soak")
        .env("EVCORE_SIM_SEEDS", "5000")
        .env("SOAK_SECONDS", "20");
    [
        Step::command("long runs: cases", cases),
        Step::command("long runs: loads", loads),
    ]
}
