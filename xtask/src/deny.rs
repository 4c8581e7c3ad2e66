//! The checks of cargo-deny with `deny.toml`: licences, sources and duplicate versions of
//! dependencies, and advisories about them.

use std::env;

use crate::plan::Plan;

/// The step for the checks that need no database.
pub(crate) fn plan() -> Plan {
    check("deny", "check bans licenses sources")
}

/// The step for the advisories, if this machine has their database, which cargo-deny clones from
/// GitHub.
pub(crate) fn advisories() -> Plan {
    let home = env::var("CARGO_HOME").or_else(|_| env::var("HOME").map(|home| home + "/.cargo"));
    let list = format!("ls {}/advisory-dbs", home.unwrap_or_default());
    let reason = "their database is not here (`cargo deny fetch` gets it)";
    check("deny: advisories", "check --disable-fetch advisories").needs(&list, reason)
}

fn check(name: &str, words: &str) -> Plan {
    // cargo-deny builds nothing. In a directory of its own, it does not wait for another step's
    // build.
    let line = format!("CARGO_TARGET_DIR=target/deny cargo deny --all-features {words}");
    let plan = Plan::default().command(name, line);
    plan.needs("cargo deny --version", "cargo-deny is not installed")
}
