//! The public items of each published crate, as lists in `docs/api`, so that a review sees what a
//! change adds to them or takes away. cargo-public-api makes the lists, from documentation that a
//! nightly compiler writes.

use std::collections::BTreeSet;
use std::fs;

use crate::Result;
use crate::command::output_of;
use crate::plan::Plan;
use crate::workspace::{self, Workspace, target_dir};

const DIR: &str = "docs/api";

pub(crate) fn plan() -> Plan {
    Plan::default().command("api", "cargo xtask api").needs(
        "cargo +nightly public-api --version",
        "there is no nightly toolchain, or cargo-public-api is not installed",
    )
}

/// Compares the public items with the lists in `docs/api`.
///
/// # Errors
///
/// If they differ. The error has the lines that differ.
pub(crate) fn check(workspace: &Workspace) -> Result {
    let mut report = String::new();
    for name in libraries(workspace) {
        let (listed, found) = (
            fs::read_to_string(list(name)).unwrap_or_default(),
            items(workspace, name)?,
        );
        let [listed, found] = [&listed, &found].map(|text| text.lines().collect::<BTreeSet<_>>());
        let gone = listed.difference(&found).map(|line| format!("- {line}\n"));
        let new = found.difference(&listed).map(|line| format!("+ {line}\n"));
        report.extend(gone.chain(new));
    }
    match report.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the public items differ from {DIR}. If that is intended, run `cargo xtask api \
             --update`. The differences:\n{report}"
        )
        .into()),
    }
}

pub(crate) fn update(workspace: &Workspace) -> Result {
    fs::create_dir_all(DIR)?;
    for name in libraries(workspace) {
        fs::write(list(name), items(workspace, name)?)?;
    }
    Ok(())
}

fn libraries(workspace: &Workspace) -> impl Iterator<Item = &str> {
    workspace::published(workspace).map(|package| package.name.as_str())
}

fn list(name: &str) -> String {
    format!("{DIR}/{name}.txt")
}

/// A line for each public item, without blanket, automatic and derived implementations.
fn items(workspace: &Workspace, name: &str) -> Result<String> {
    let dir = target_dir(workspace, "api");
    output_of(&format!(
        "CARGO_TARGET_DIR={dir} cargo +nightly public-api -p {name} --all-features -sss --color never"
    ))
}
