//! Everything that a change must pass, with only the Rust toolchain.
//!
//! Cheap steps come first, so that most failures show in seconds. Each published crate is tested
//! alone: a build of the whole workspace unifies features, and hides that a crate depends on those of
//! another. Clippy and the tests of the unpublished crates build the workspace as a whole.

use crate::command::CommandLine;
use crate::source_tree::Tree;
use crate::step::{self, Step};
use crate::workspace::{Package, Workspace};
use crate::{Result, compat, counts, layers, loom, mutants, tidy};

pub(crate) fn run(workspace: &Workspace) -> Result {
    let tree = Tree::read(&workspace.root)?;
    let mut steps = steps(workspace, &tree);
    steps.extend(counts::steps());
    step::run_all(workspace, &steps)?;
    counts::report_missing();
    report_missing_browser();
    Ok(())
}

/// Prints that the dashboard is not tested if its tests have no browser.
fn report_missing_browser() {
    for program in ["chromium", "chromedriver"] {
        if !counts::is_installed(program) {
            println!("not tested here: the dashboard in a browser; {program} is not installed");
        }
    }
}

fn steps(workspace: &Workspace, tree: &Tree) -> Vec<Step> {
    let mut steps = vec![tidy::step(), layers::step(), fmt()];
    steps.extend(clippy(workspace));
    steps.push(docs());
    steps.extend(example_server(workspace));
    steps.push(unpublished(workspace));
    steps.extend(workspace.published().flat_map(alone));
    steps.extend(all_features(workspace));
    steps.extend(compat::steps(workspace));
    steps.extend(loom::steps(workspace, tree));
    steps.extend(mutants::steps(tree));
    steps
}

fn fmt() -> Step {
    cargo("fmt", "fmt --all -- --check")
}

fn clippy(workspace: &Workspace) -> impl Iterator<Item = Step> {
    let all = cargo("clippy", "clippy --workspace --all-targets -- -D warnings");
    let bare = workspace.packages.iter().filter(|p| p.default_features);
    let bare = bare.map(|Package { name, .. }| {
        let line = format!("clippy -p {name} --no-default-features --all-targets -- -D warnings");
        cargo(&format!("clippy without features: {name}"), &line)
    });
    std::iter::once(all).chain(bare)
}

fn docs() -> Step {
    let doc = CommandLine::new("cargo doc --workspace --no-deps");
    Step::command("docs", doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Builds `httpd`, which the tests of the whole start. Cargo builds programs only for the tests of
/// their own package.
fn example_server(workspace: &Workspace) -> Option<Step> {
    let package = workspace.package("evcore-httpd")?;
    let has_it = package.bins.iter().any(|bin| bin == "httpd");
    has_it.then(|| cargo("httpd", "build -p evcore-httpd --bin httpd"))
}

/// Tests the crates that are not published, in one build. They depend on all others.
fn unpublished(workspace: &Workspace) -> Step {
    let names = workspace.packages.iter().filter(|p| !p.published);
    let args: String = names.map(|p| format!(" -p {}", p.name)).collect();
    cargo("test", &format!("test{args}"))
}

/// Checks and tests a crate alone, also without its default features, if it has any.
///
/// The tests do not imply the check: dev-dependencies unify their features with those of the crate.
fn alone(package: &Package) -> Vec<Step> {
    let name = &package.name;
    let step = |what: &str, line: &str| cargo(&format!("{what}: {name}"), line);
    let mut steps = vec![
        step("check alone", &format!("check -p {name}")),
        step("test alone", &format!("test -p {name}")),
    ];
    if package.default_features {
        let bare = format!("-p {name} --no-default-features");
        steps.push(step("check without features", &format!("check {bare}")));
        steps.push(step("test without features", &format!("test {bare}")));
    }
    steps
}

/// Lints and tests the crates that have features which are off by default, with all features.
fn all_features(workspace: &Workspace) -> impl Iterator<Item = Step> {
    let packages = workspace.packages.iter().filter(|p| p.optional_features);
    packages.flat_map(|Package { name, .. }| {
        let all = format!("-p {name} --all-features");
        let clippy = format!("clippy {all} --all-targets -- -D warnings");
        [
            cargo(&format!("clippy with all features: {name}"), &clippy),
            cargo(
                &format!("test with all features: {name}"),
                &format!("test {all} --tests"),
            ),
        ]
    })
}

fn cargo(name: &str, args: &str) -> Step {
    Step::command(name, CommandLine::new(&format!("cargo {args}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        let evcore = Package {
            default_features: true,
            optional_features: true,
            ..Package::fake("evcore")
        };
        let httpd = Package {
            published: false,
            bins: vec!["httpd".to_owned()],
            ..Package::fake("evcore-httpd")
        };
        let tests = Package {
            published: false,
            ..Package::fake("evcore-tests")
        };
        let workspace = Workspace::fake(vec![evcore, Package::fake("evcore-token"), httpd, tests]);
        let tree = Tree::fake(&[
            ("crates/evcore-token/tests/loom_table.rs", ""),
            ("tests/mutants/early_timers.mutant", ""),
        ]);
        let steps = steps(&workspace, &tree);
        steps.iter().map(|step| step.name.clone()).collect()
    }

    #[test]
    fn the_parts_come_in_order_of_cost() {
        assert_eq!(
            names(),
            [
                "tidy",
                "layers",
                "fmt",
                "clippy",
                "clippy without features: evcore",
                "docs",
                "httpd",
                "test",
                "check alone: evcore",
                "test alone: evcore",
                "check without features: evcore",
                "test without features: evcore",
                "check alone: evcore-token",
                "test alone: evcore-token",
                "clippy with all features: evcore",
                "test with all features: evcore",
                "compat: fmt",
                "compat: clippy",
                "compat: test",
                "loom: evcore-token",
                "mutant: early_timers",
            ]
        );
    }
}
