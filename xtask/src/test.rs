//! Everything that a change must pass, with only the Rust toolchain.
//!
//! Cheap steps come first, so that most failures show in seconds. Tests run in one build of the whole
//! workspace. Such a build unifies features, and hides that a crate depends on those of another, so
//! each published crate is also checked alone. `nightly.rs` has what takes long.

use crate::schedule::Plan;
use crate::source_tree::Tree;
use crate::step::Step;
use crate::workspace::Workspace;
use crate::{Result, command::CommandLine, compat, counts, layers, loom, mutants, nightly, tidy};

pub(crate) fn run(workspace: &Workspace, is_quick: bool) -> Result {
    let tree = Tree::read(&workspace.root)?;
    let all = plan(workspace, &tree);
    if is_quick {
        return quick(&all).run(workspace);
    }
    all.run(workspace)
}

/// The steps that use the common target directory run in this order; the others beside them.
pub(crate) fn plan(workspace: &Workspace, tree: &Tree) -> Plan {
    let mut steps = vec![tidy::step(), layers::step(), fmt(), clippy()];
    steps.extend(clippy_without_features(workspace));
    steps.push(docs());
    steps.push(Step::cargo("test", "test --workspace"));
    steps.extend(check_alone(workspace));
    steps.extend(all_features(workspace));
    let beside = [
        counts::plan(workspace),
        loom::plan(workspace, tree, loom::SOME),
        Plan::of(mutants::steps(tree)),
    ];
    let beside = beside.into_iter().fold(Plan::default(), Plan::and);
    let mut plan = Plan::of(steps).and(beside).and(compat::test(workspace));
    let nightly = Plan::of(nightly::steps(workspace, tree));
    let nightly = nightly.kinds().into_iter();
    let nightly = nightly.map(|kind| format!("{kind}: left to `cargo xtask nightly`"));
    plan.left_out.extend(nightly);
    plan
}

/// What finds most faults. It names the kinds of steps that it leaves out.
fn quick(all: &Plan) -> Plan {
    let in_crates = "cargo test --workspace --exclude evcore-tests --lib --bins --tests";
    let in_whole = "cargo test --workspace --test conformance --test simulation";
    let few_cases = |line| CommandLine::new(line).env("PROPTEST_CASES", "16");
    let tests = [
        Step::command("test: crates", few_cases(in_crates)),
        Step::command(
            "test: whole",
            few_cases(in_whole).env("EVCORE_SIM_SEEDS", "50"),
        ),
    ];
    let steps = [tidy::step(), layers::step(), fmt(), clippy()];
    let mut plan = Plan::of(steps.into_iter().chain(tests));
    let (kinds, quick) = (all.kinds(), plan.kinds());
    let left_out = kinds.difference(&quick).copied();
    let left_out = left_out.chain(["doctests", "evcore-tests, but conformance and simulation"]);
    let left_out = left_out.map(|it| format!("{it}: left out by `--quick`"));
    plan.left_out = left_out.collect();
    plan
}

fn fmt() -> Step {
    Step::cargo("fmt", "fmt --all -- --check")
}

/// With all features; those without come next.
fn clippy() -> Step {
    let line = "clippy --workspace --all-features --all-targets -- -D warnings";
    Step::cargo("clippy", line)
}

fn clippy_without_features(workspace: &Workspace) -> Option<Step> {
    let packages = workspace.packages.iter().filter(|p| p.default_features);
    let packages: String = packages.map(|p| format!(" -p {}", p.name)).collect();
    let line = format!("clippy{packages} --no-default-features --all-targets -- -D warnings");
    (!packages.is_empty()).then(|| Step::cargo("clippy without features", &line))
}

fn docs() -> Step {
    let doc = CommandLine::new("cargo doc --workspace --no-deps");
    Step::command("docs", doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks each published crate alone, also without its default features, if it has any.
fn check_alone(workspace: &Workspace) -> Vec<Step> {
    let steps = workspace.published().flat_map(|package| {
        let name = &package.name;
        let alone = Step::cargo(&format!("check alone: {name}"), &format!("check -p {name}"));
        let bare = package.default_features.then(|| {
            let line = format!("check -p {name} --no-default-features");
            Step::cargo(&format!("check without features: {name}"), &line)
        });
        [Some(alone), bare].into_iter().flatten()
    });
    steps.collect()
}

/// The tests of what is behind a feature that is off by default.
fn all_features(workspace: &Workspace) -> Option<Step> {
    workspace.package("evcore-httpd")?;
    let line = "test --workspace --all-features --test scripted --test log_level";
    Some(Step::cargo("test with all features", line).all_have_tests())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn all() -> Plan {
        let evcore = Package {
            default_features: true,
            ..Package::fake("evcore")
        };
        let httpd = Package {
            published: false,
            ..Package::fake("evcore-httpd")
        };
        let workspace = Workspace::fake(vec![evcore, Package::fake("evcore-token"), httpd]);
        let tree = Tree::fake(&[
            ("crates/evcore-token/tests/loom_table.rs", ""),
            ("tests/mutants/early_timers.mutant", ""),
        ]);
        plan(&workspace, &tree)
    }

    #[test]
    fn the_parts_come_in_order_of_cost() {
        let all = all();
        let steps = all.steps.iter().filter(|it| !it.name.starts_with("count"));
        let names: Vec<_> = steps.map(|step| step.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "tidy",
                "layers",
                "fmt",
                "clippy",
                "clippy without features",
                "docs",
                "test",
                "check alone: evcore",
                "check without features: evcore",
                "check alone: evcore-token",
                "test with all features",
                "loom",
                "mutant: early_timers",
                "compat: fmt",
                "compat: test",
            ]
        );
    }

    #[test]
    fn what_is_left_out_is_named() {
        let all = all();
        let is_left_out = |plan: &Plan, what: &str| {
            let mut lines = plan.left_out.iter();
            lines.any(|line| line.starts_with(&format!("{what}: ")))
        };
        assert!(is_left_out(&all, "alone"));
        let quick = quick(&all);
        assert!(is_left_out(&quick, "mutant") && is_left_out(&quick, "docs"));
        assert!(!is_left_out(&quick, "test") && !is_left_out(&quick, "clippy"));
    }
}
