//! The loom models: `tests/loom_*.rs` of any crate.
//!
//! A target directory of their own, since the flag is another build of all
//! dependencies; optimised, since loom runs each model some 100,000 times.

use std::collections::BTreeMap;

use crate::Result;
use crate::command::CommandLine;
use crate::source_tree::Tree;
use crate::step::{self, Step};
use crate::workspace::{Package, Workspace};

/// The name that chooses loom's types. Private, so that it does not reach other crates.
const CFG: &str = "--cfg evcore_loom";

pub(crate) fn run(workspace: &Workspace) -> Result {
    let tree = Tree::read(&workspace.root)?;
    let steps = steps(workspace, &tree);
    if steps.is_empty() {
        println!("no crate has tests/loom_*.rs");
    }
    step::run_all(workspace, &steps)
}

/// A step for each crate with models.
pub(crate) fn steps(workspace: &Workspace, tree: &Tree) -> Vec<Step> {
    let target_dir = workspace.own_target_dir("loom");
    let models = models(workspace, tree).into_iter();
    models
        .map(|(name, models)| {
            let line = format!("cargo test --profile loom -p {name}{models}");
            let command = CommandLine::new(&line)
                .env("CARGO_TARGET_DIR", &target_dir)
                .env("RUSTFLAGS", CFG);
            Step::command(format!("loom: {name}"), command)
        })
        .collect()
}

/// The crates that have models, with the arguments that name them: ` --test loom_a --test loom_b`.
fn models<'a>(workspace: &'a Workspace, tree: &Tree) -> BTreeMap<&'a str, String> {
    let mut models = BTreeMap::<_, String>::new();
    for package in &workspace.packages {
        for test in tree
            .files
            .iter()
            .filter_map(|file| model(package, &file.path))
        {
            let args = models.entry(package.name.as_str()).or_default();
            args.push_str(&format!(" --test {test}"));
        }
    }
    models
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
        let commands: Vec<_> = steps(&workspace, &tree).iter().map(Step::alone).collect();
        let before = "CARGO_TARGET_DIR=target/loom RUSTFLAGS=\"--cfg evcore_loom\" \
                      cargo test --profile loom -p";
        assert_eq!(
            commands,
            [
                format!("{before} evcore-clock --test loom_shared"),
                format!("{before} evcore-posted --test loom_drain --test loom_inbox"),
            ]
        );
    }
}
