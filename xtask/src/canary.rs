//! The canary: bugs are planted into the loop, and the simulation has to find them.
//!
//! A target directory of its own, since the flag is another build.

use crate::Result;
use crate::command::CommandLine;
use crate::part::{self, Part};
use crate::workspace::Workspace;

/// The name that lets a test plant bugs; see `crates/evcore/src/planted.rs`.
const CFG: &str = "--cfg evcore_planted";

pub(crate) fn run(workspace: &Workspace) -> Result {
    part::run_all(workspace, &[part(workspace)])
}

pub(crate) fn part(workspace: &Workspace) -> Part {
    let line = "cargo test -p evcore-tests --test simulation canary";
    let command = CommandLine::new(line)
        .env("CARGO_TARGET_DIR", workspace.own_target_dir("planted"))
        .env("RUSTFLAGS", CFG);
    Part::command("canary", command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canary_is_built_with_its_flag_in_a_target_directory_of_its_own() {
        assert_eq!(
            part(&Workspace::made_up(Vec::new())).alone(),
            "CARGO_TARGET_DIR=target/planted RUSTFLAGS=\"--cfg evcore_planted\" \
             cargo test -p evcore-tests --test simulation canary"
        );
    }
}
