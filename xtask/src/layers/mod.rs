//! The allowed dependencies of each crate, and the required contents of manifests.
//!
//! `table.rs` lists the dependencies with their reasons, `dependencies.rs` has the rules about them,
//! and `manifest.rs` those about manifests.

mod allowed_dependencies;
mod dependencies;
mod manifest;

use crate::Result;
use crate::diagnostic::Diagnostic;
use crate::step::{self, Step};
use crate::workspace::{Package, Workspace};

/// The rules that look at one package.
const RULES: &[fn(&Package) -> Vec<Diagnostic>] = &[
    dependencies::ours_follow_the_layers,
    dependencies::others_are_allowed_by_name,
    dependencies::loom_stays_behind_its_cfg,
    dependencies::our_dev_dependencies_are_paths_alone,
    manifest::the_common_fields_are_inherited,
    manifest::versions_come_from_the_workspace,
    manifest::a_published_crate_describes_itself,
];

pub(crate) fn run(workspace: &Workspace) -> Result {
    step::run_all(workspace, &[step()])
}

pub(crate) fn step() -> Step {
    Step::check("layers", "layers", check)
}

fn check(workspace: &Workspace) -> Result<Vec<Diagnostic>> {
    let mut diagnostics = dependencies::nothing_published_needs_the_unpublished(workspace);
    for package in &workspace.packages {
        diagnostics.extend(RULES.iter().flat_map(|rule| rule(package)));
    }
    Ok(diagnostics)
}
