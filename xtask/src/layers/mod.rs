//! The allowed dependencies of each crate, and the required contents of manifests.
//!
//! `table.rs` lists the dependencies with their reasons, `dependencies.rs` has the rules about them,
//! and `manifest.rs` those about manifests.

mod allowed_dependencies;
mod dependencies;
mod manifest;

use crate::Result;
use crate::diagnostic::Diagnostic;
use crate::schedule::Plan;
use crate::step::Step;
use crate::workspace::{Package, Workspace};

/// The rules about manifests.
const RULES: &[fn(&Package) -> Vec<Diagnostic>] = &[
    manifest::the_common_fields_are_inherited,
    manifest::versions_come_from_the_workspace,
    manifest::a_published_crate_describes_itself,
];

pub(crate) fn run(workspace: &Workspace) -> Result {
    Plan::of([step()]).run(workspace)
}

pub(crate) fn step() -> Step {
    Step::check("layers", "layers", check)
}

fn check(workspace: &Workspace) -> Result<Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    for package in &workspace.packages {
        diagnostics.extend(dependencies::are_allowed(package, workspace));
        diagnostics.extend(RULES.iter().flat_map(|rule| rule(package)));
    }
    Ok(diagnostics)
}
