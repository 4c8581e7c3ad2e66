//! The steps for `tests/compat`: programs of other projects, run on `evcore-poller`.
//!
//! `tests/compat` is a workspace of its own, so each line names its manifest. `--locked` takes the
//! dependencies of the committed lock file.

use crate::plan::Plan;
use crate::workspace::{Workspace, target_dir};

const ALL: &str = "--manifest-path tests/compat/Cargo.toml --workspace --locked";
// `--all` would format the crates of the root, too.
const FMT: &str = "fmt --manifest-path tests/compat/Cargo.toml -p evcore-compat -p evcore-nginx \
                   -p polling -- --check";

/// The steps of CI: formatting and tests.
pub(crate) fn plan(workspace: &Workspace) -> Plan {
    let plan = Plan::default().command("compat: fmt", line(workspace, FMT));
    plan.command("compat: test", line(workspace, &format!("test {ALL}")))
}

pub(crate) fn clippy(workspace: &Workspace) -> Plan {
    let clippy = format!("clippy {ALL} --all-targets -- -D warnings");
    Plan::default().command("compat clippy", line(workspace, &clippy))
}

fn line(workspace: &Workspace, line: &str) -> String {
    let dir = target_dir(workspace, "compat");
    format!("CARGO_TARGET_DIR={dir} cargo {line}")
}
