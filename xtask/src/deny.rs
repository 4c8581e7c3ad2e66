//! Licences, sources and duplicate versions of dependencies, and their advisories: cargo-deny, with
//! `deny.toml`.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::command::CommandLine;
use crate::schedule::Plan;
use crate::step::Step;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> Result {
    plan().and(advisories()).run(workspace)
}

/// What needs no database.
pub(crate) fn plan() -> Plan {
    check("deny", "check bans licenses sources")
}

/// The advisories, if their database is here. cargo-deny clones it from GitHub.
pub(crate) fn advisories() -> Plan {
    let home = env::var("CARGO_HOME").or_else(|_| env::var("HOME").map(|it| it + "/.cargo"));
    let is_here = home.is_ok_and(|home| Path::new(&home).join("advisory-dbs").exists());
    match is_here {
        true => check("deny: advisories", "check --disable-fetch advisories"),
        false => Plan::left_out(
            "deny: advisories: their database is not here (`cargo deny fetch` gets it)".to_owned(),
        ),
    }
}

fn check(name: &str, words: &str) -> Plan {
    let mut version = Command::new("cargo");
    version.args(["deny", "--version"]).stderr(Stdio::null());
    let status = version.stdout(Stdio::null()).status();
    if !status.is_ok_and(|status| status.success()) {
        return Plan::left_out(format!("{name}: cargo-deny is not installed"));
    }
    let command = CommandLine::new(&format!("cargo deny --all-features {words}"));
    // It builds nothing, so it waits for no build.
    Plan::of([Step::command(
        name,
        command.env("CARGO_TARGET_DIR", "target/deny"),
    )])
}
