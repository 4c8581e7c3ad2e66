//! The loom models: `tests/loom_*.rs` of any crate, in one build.
//!
//! They have a target directory of their own, because their flag makes another build of all
//! dependencies. The build is optimised, because loom runs a model many thousands of times.

use crate::plan::Plan;
use crate::workspace::{Workspace, target_dir};

/// The name of CI's step, and its variable: interleavings with at most 3 preemptions find nearly
/// all faults.
pub(crate) const SOME: (&str, &str) = ("loom", "LOOM_MAX_PREEMPTIONS=3 ");

/// The name of the nightly step, which leaves the limit to the models.
pub(crate) const ALL: (&str, &str) = ("loom with all interleavings", "");

pub(crate) fn plan(workspace: &Workspace, (name, variable): (&str, &str)) -> Plan {
    let dir = target_dir(workspace, "loom");
    // The name of the cfg is the project's own, because `--cfg=loom` would change other crates too.
    let flags = "RUSTFLAGS=--cfg=evcore_loom";
    let models = "cargo test --profile loom --workspace --test loom_*";
    Plan::default().command(
        name,
        format!("CARGO_TARGET_DIR={dir} {flags} {variable}{models}"),
    )
}
