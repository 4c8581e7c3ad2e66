//! The loom models: `tests/loom_*.rs` of any crate, in one build.
//!
//! They have a target directory of their own, because their flag makes another build of all
//! dependencies. The build is optimised, because loom runs each model some 100,000 times.

use crate::plan::Plan;
use crate::workspace::{Workspace, target_dir};

/// The name of CI's step, and its variable. The step runs the interleavings with at most 3
/// preemptions, which find nearly all faults. A model may allow fewer preemptions.
pub(crate) const SOME: (&str, &str) = ("loom", "LOOM_MAX_PREEMPTIONS=3 ");

/// The name of the nightly step, which runs all interleavings that the models allow.
pub(crate) const ALL: (&str, &str) = ("loom with all interleavings", "");

/// A step for all models.
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
