//! The canary: bugs are planted, and the tests that are to find such bugs have to; and workers die
//! inside of the calls by which they meet.
//!
//! A target directory of its own, since the flag is another build.

use crate::Result;
use crate::command::CommandLine;
use crate::part::{self, Part};
use crate::workspace::Workspace;

/// The name that lets a test plant bugs, and end a process at points where none are otherwise; see
/// `planted.rs` in `crates/evcore/src` and `points.rs` in `crates/evcore-balancer/src`.
const CFG: &str = "--cfg evcore_planted";

/// The crates in which something is planted, and the tests of it.
const CLIPPY: &str =
    "cargo clippy -p evcore -p evcore-balancer -p evcore-tests --all-targets -- -D warnings";

/// The tests that do something else under the flag.
const TESTS: [(&str, &str); 2] = [
    ("simulation", "--test simulation canary"),
    ("failpoints", "--test failpoints"),
];

pub(crate) fn run(workspace: &Workspace) -> Result {
    part::run_all(workspace, &parts(workspace))
}

pub(crate) fn parts(workspace: &Workspace) -> Vec<Part> {
    let target_dir = workspace.own_target_dir("planted");
    let part = |name: &str, line: &str| {
        let command = CommandLine::new(line)
            .env("CARGO_TARGET_DIR", &target_dir)
            .env("RUSTFLAGS", CFG);
        Part::command(format!("canary: {name}"), command)
    };
    // The other clippy does not see what is compiled under the flag alone.
    let clippy = part("clippy", CLIPPY);
    let tests =
        TESTS.map(|(name, selected)| part(name, &format!("cargo test -p evcore-tests {selected}")));
    std::iter::once(clippy).chain(tests).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canary_is_built_with_its_flag_in_a_target_directory_of_its_own() {
        let before = "CARGO_TARGET_DIR=target/planted RUSTFLAGS=\"--cfg evcore_planted\" cargo";
        let parts = parts(&Workspace::made_up(Vec::new()));
        let commands: Vec<_> = parts.iter().map(Part::alone).collect();
        assert_eq!(
            commands,
            [
                format!(
                    "{before} clippy -p evcore -p evcore-balancer -p evcore-tests \
                     --all-targets -- -D warnings"
                ),
                format!("{before} test -p evcore-tests --test simulation canary"),
                format!("{before} test -p evcore-tests --test failpoints"),
            ]
        );
    }
}
