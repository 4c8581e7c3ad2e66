//! `tests/compat`: other people's programs on our poller.
//!
//! It is a workspace of its own, so each step names its manifest. `--locked`: the dependencies are
//! those of the committed lock file.

use crate::command::CommandLine;
use crate::schedule::Plan;
use crate::step::Step;
use crate::workspace::Workspace;

const MANIFEST: &str = "tests/compat/Cargo.toml";
const ALL: &str = "--manifest-path tests/compat/Cargo.toml --workspace --locked";

/// Formatted and green.
pub(crate) fn test(workspace: &Workspace) -> Plan {
    // Not `fmt --all`: that goes into the crates of the root, too.
    let fmt = format!(
        "fmt --manifest-path {MANIFEST} -p evcore-compat -p evcore-nginx -p polling -- --check"
    );
    let test = format!("test {ALL}");
    Plan::of(
        [("fmt", fmt), ("test", test)]
            .map(|(what, line)| step(workspace, &format!("compat: {what}"), &line)),
    )
}

pub(crate) fn clippy(workspace: &Workspace) -> Step {
    let line = format!("clippy {ALL} --all-targets -- -D warnings");
    step(workspace, "compat clippy", &line)
}

fn step(workspace: &Workspace, name: &str, line: &str) -> Step {
    let command = CommandLine::new(&format!("cargo {line}"));
    let command = command.env("CARGO_TARGET_DIR", workspace.own_target_dir("compat"));
    Step::command(name, command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compat_runs_locked_in_its_own_target_directory() {
        let plan = test(&Workspace::fake(Vec::new()));
        assert_eq!(
            plan.steps[1].alone(),
            "CARGO_TARGET_DIR=target/compat cargo test --manifest-path tests/compat/Cargo.toml \
             --workspace --locked"
        );
    }
}
