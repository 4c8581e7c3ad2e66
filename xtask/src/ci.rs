//! What CI runs: `test`, and what needs the network or more than the Rust toolchain.

use crate::schedule::Plan;
use crate::source_tree::Tree;
use crate::workspace::Workspace;
use crate::{Result, deny, packages, targets, test};

pub(crate) fn run(workspace: &Workspace) -> Result {
    let tree = Tree::read(&workspace.root)?;
    let others = targets::OTHERS.join(" ");
    let nightly = format!("targets {others}: left to `cargo xtask nightly`");
    test::plan(workspace, &tree)
        .and(deny::plan())
        .and(packages::plan(workspace))
        .and(targets::plan(workspace, targets::SOME))
        .and(Plan::left_out(nightly))
        .run(workspace)
}
