//! The loom models: `tests/loom_*.rs` of any crate, in one build.
//!
//! A target directory of their own, since the flag is another build of all dependencies; optimised,
//! since loom runs each model some 100,000 times.

use crate::plan::Plan;
use crate::workspace::{Workspace, target_dir};

/// The step, and its variable, for the interleavings with at most 3 preemptions, which find nearly
/// all faults: for CI. A model may allow fewer.
pub(crate) const SOME: (&str, &str) = ("loom", "LOOM_MAX_PREEMPTIONS=3 ");

/// The step for those that the models ask for.
pub(crate) const ALL: (&str, &str) = ("loom with all interleavings", "");

/// A step for all models.
pub(crate) fn plan(workspace: &Workspace, (name, variable): (&str, &str)) -> Plan {
    let dir = target_dir(workspace, "loom");
    // The name of the cfg is private, so that it does not reach other crates.
    let flags = "RUSTFLAGS=--cfg=evcore_loom";
    let models = "cargo test --profile loom --workspace --test loom_*";
    Plan::default().command(
        name,
        format!("CARGO_TARGET_DIR={dir} {flags} {variable}{models}"),
    )
}
