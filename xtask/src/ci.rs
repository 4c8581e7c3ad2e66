//! What CI runs: `test`, then what needs the network or more than the Rust toolchain.

use crate::workspace::Workspace;
use crate::{Result, packages, targets, test};

pub(crate) fn run(workspace: &Workspace) -> Result {
    test::run(workspace)?;
    packages::run(workspace)?;
    targets::run(workspace)
}

/// Whether this runs in CI, where a check that cannot be made is a failure.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}
