//! Who may depend on whom, and what a manifest must say.
//!
//! The tables are in `table.rs`, so that a new dependency is a deliberate act
//! with a reason; the rules that read them in `dependencies.rs`; what each
//! manifest must hold in `manifest.rs`.

mod dependencies;
mod manifest;
mod table;

use crate::Result;
use crate::fault::Fault;
use crate::part::{self, Part};
use crate::workspace::{Package, Workspace};

/// The rules of one package each.
const RULES: &[fn(&Package) -> Vec<Fault>] = &[
    dependencies::ours_follow_the_layers,
    dependencies::others_are_allowed_by_name,
    dependencies::loom_stays_behind_its_cfg,
    dependencies::our_dev_dependencies_are_paths_alone,
    manifest::the_common_fields_are_inherited,
    manifest::versions_come_from_the_workspace,
    manifest::a_published_crate_describes_itself,
];

pub(crate) fn run(workspace: &Workspace) -> Result {
    part::run_all(workspace, &[part()])
}

pub(crate) fn part() -> Part {
    Part::check("layers", "layers", check)
}

fn check(workspace: &Workspace) -> Result<Vec<Fault>> {
    let mut faults = dependencies::nothing_published_needs_the_unpublished(workspace);
    for package in &workspace.packages {
        faults.extend(RULES.iter().flat_map(|rule| rule(package)));
    }
    Ok(faults)
}
