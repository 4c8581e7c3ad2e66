//! Licences, sources and duplicate versions of dependencies, and their advisories: cargo-deny, with
//! `deny.toml`.

use std::env;
use std::path::Path;

use crate::command::printed;
use crate::schedule::Plan;

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
        false => Plan::default()
            .left_out("deny: advisories: their database is not here (`cargo deny fetch` gets it)"),
    }
}

fn check(name: &str, words: &str) -> Plan {
    match printed("cargo deny --version") {
        // It builds nothing, so it waits for no build.
        Some(_) => Plan::default().command(
            name,
            format!("CARGO_TARGET_DIR=target/deny cargo deny --all-features {words}"),
        ),
        None => Plan::default().left_out(format!("{name}: cargo-deny is not installed")),
    }
}
