//! The parts beside their peers: runs `evcore-bench`, and writes the page.
//!
//! No figure is written by hand. A part that is measured gets its section of the page anew; the
//! sections of the others stay as they were.

mod callgrind;
mod count;
mod counted;
mod figures;
mod machine;
mod page;
mod plot;
mod results;
mod statistics;
mod strace;
mod targets;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::machine::Machine;
use self::page::Page;
use self::results::Results;
use crate::Result;
use crate::measure::serving;
use crate::workspace::Workspace;

/// All parts, in the order of the page.
const PARTS: &[&str] = &[
    "timers", "clock", "pollers", "posted", "budgets", "accept", "kills", "shortage",
];

/// Where the page and the plot go, from the root.
const PAGE: &str = "docs/performance.md";
const PLOT: &str = "docs/timers.svg";

/// Parts whose peers are servers: they get the path of the example server, and how thorough to
/// be.
const OF_SERVERS: &[&str] = &["accept", "kills", "shortage"];

/// Measures the parts, all if none is named; prints and writes the section of each as it is done.
///
/// `full`: those that have a short run and a thorough one make the thorough one.
pub(crate) fn run(workspace: &Workspace, parts: &[String], full: bool) -> Result {
    let parts = chosen(parts)?;
    let program = build(workspace)?;
    for part in parts {
        let mut machine = Machine::look(&workspace.root, part)?;
        let mut results = Results::default();
        let mut command = Command::new(&program);
        command.arg(part);
        if OF_SERVERS.contains(&part) {
            command.arg(serving::build(workspace)?);
            command.args(full.then_some("full"));
        }
        results.read(&measured(command)?)?;
        machine.load_after = machine::load();
        count::part(part, workspace, &program, &mut results)?;
        if part == "timers" {
            fs::write(workspace.root.join(PLOT), plot::timers(&results))?;
        }
        let section = page::section(part, &results, &machine);
        print!("{section}");
        rewrite(&workspace.root.join(PAGE), part, section)?;
    }
    Ok(())
}

/// Puts a part's section in its place.
fn rewrite(path: &Path, part: &'static str, section: String) -> Result {
    // The first run of all finds no page.
    let mut page = Page::read(&fs::read_to_string(path).unwrap_or_default());
    page.put(part, section);
    Ok(fs::write(path, page.text())?)
}

/// The named parts in the order of the page.
fn chosen(named: &[String]) -> Result<Vec<&'static str>> {
    if let Some(other) = named.iter().find(|name| !PARTS.contains(&name.as_str())) {
        return Err(format!("no part `{other}`; there are: {}", PARTS.join(", ")).into());
    }
    let is_named = |part: &&str| named.is_empty() || named.iter().any(|name| name == *part);
    Ok(PARTS.iter().copied().filter(is_named).collect())
}

fn build(workspace: &Workspace) -> Result<PathBuf> {
    let words = ["build", "--release", "-p", "evcore-bench"];
    let status = Command::new("cargo")
        .args(words)
        .current_dir(&workspace.root)
        .status()?;
    if !status.success() {
        return Err("evcore-bench does not build".into());
    }
    Ok(workspace.target_dir.join("release/evcore-bench"))
}

/// The records that a command prints. Its progress goes to the screen.
fn measured(mut command: Command) -> Result<String> {
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_the_order_of_the_page_and_none_is_all() {
        let named = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            chosen(&names)
        };
        assert_eq!(named(&[]).unwrap(), PARTS);
        assert_eq!(
            named(&["accept", "clock", "timers"]).unwrap(),
            ["timers", "clock", "accept"]
        );
        assert_eq!(named(&["clock"]).unwrap(), ["clock"]);
        assert!(named(&["cloc"]).is_err());
    }
}
