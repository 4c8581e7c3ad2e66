//! `tests/compat`: other people's programs on our poller.
//!
//! A workspace of its own, so cargo reaches none of it from the root, and each part names its
//! manifest. `--locked`: what is run against is what was committed, the patched crate included.

use crate::command::CommandLine;
use crate::part::Part;
use crate::workspace::Workspace;

const MANIFEST: &str = "tests/compat/Cargo.toml";

/// Formatted, without warnings, and green.
pub(crate) fn parts(workspace: &Workspace) -> Vec<Part> {
    let target_dir = workspace.own_target_dir("compat");
    let part = |what: &str, line: &str| {
        let command = CommandLine::new(&format!("cargo {line}"));
        let command = command.env("CARGO_TARGET_DIR", &target_dir);
        Part::command(format!("compat: {what}"), command)
    };
    let all = format!("--manifest-path {MANIFEST} --workspace --locked");
    // Not `fmt --all`: that goes into the crates of the root, too.
    let fmt = format!("fmt --manifest-path {MANIFEST} -p evcore-compat -p polling -- --check");
    vec![
        part("fmt", &fmt),
        part(
            "clippy",
            &format!("clippy {all} --all-targets -- -D warnings"),
        ),
        part("test", &format!("test {all}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_run_as_locked_in_a_target_directory_of_their_own() {
        let parts = parts(&Workspace::made_up(Vec::new()));
        assert_eq!(
            parts[2].alone(),
            "CARGO_TARGET_DIR=target/compat cargo test --manifest-path tests/compat/Cargo.toml \
             --workspace --locked"
        );
    }
}
