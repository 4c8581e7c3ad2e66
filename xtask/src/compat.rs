//! `tests/compat`: other people's programs on our poller.
//!
//! It is a workspace of its own, so each step names its manifest. `--locked`: the dependencies are
//! those of the committed lock file.

use crate::command::CommandLine;
use crate::step::Step;
use crate::workspace::Workspace;

const MANIFEST: &str = "tests/compat/Cargo.toml";

/// Formatted, without warnings, and green.
pub(crate) fn steps(workspace: &Workspace) -> Vec<Step> {
    let target_dir = workspace.own_target_dir("compat");
    let step = |what: &str, line: &str| {
        let command = CommandLine::new(&format!("cargo {line}"));
        let command = command.env("CARGO_TARGET_DIR", &target_dir);
        Step::command(format!("compat: {what}"), command)
    };
    let all = format!("--manifest-path {MANIFEST} --workspace --locked");
    // Not `fmt --all`: that goes into the crates of the root, too.
    let fmt = format!("fmt --manifest-path {MANIFEST} -p evcore-compat -p polling -- --check");
    vec![
        step("fmt", &fmt),
        step(
            "clippy",
            &format!("clippy {all} --all-targets -- -D warnings"),
        ),
        step("test", &format!("test {all}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compat_runs_locked_in_its_own_target_directory() {
        let steps = steps(&Workspace::fake(Vec::new()));
        assert_eq!(
            steps[2].alone(),
            "CARGO_TARGET_DIR=target/compat cargo test --manifest-path tests/compat/Cargo.toml \
             --workspace --locked"
        );
    }
}
