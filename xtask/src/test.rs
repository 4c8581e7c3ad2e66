//! The checks that a change must pass. `ci` adds those that take longer and find less: clippy and
//! tests with all features, documentation and READMEs, each crate alone, fuzz targets, counts,
//! models, `tests/compat`, `cargo deny`, packages, other systems, and mutants.
//!
//! Cheap steps come first, so that many failures show in seconds. A build of the whole workspace
//! unifies features, and so hides that a crate depends on the features of another. So `ci` checks
//! each published crate alone.

use crate::plan::Plan;
use crate::workspace::{self, Workspace};
use crate::{Result, compat, counts, deny, fuzz, loom, mutants, nightly, targets};

const LEFT: &str = "left to `cargo xtask nightly`";

/// The checks that find most faults. They need only the Rust toolchain and git.
pub(crate) fn plan(workspace: &Workspace) -> Result<Plan> {
    let plan = first().command("test", "cargo xtask tests --some");
    let mut plan = plan.without(&ci(workspace)?, "left to `cargo xtask test --ci`");
    let rest = "test: the soak, and three quarters of the random cases and seeds: left to \
                `cargo xtask test --ci`";
    plan.left_out.push(rest.to_owned());
    Ok(plan)
}

/// The checks that decide whether a change lands. The mutants come last, because they reuse the
/// builds of the dependencies.
pub(crate) fn ci(workspace: &Workspace) -> Result<Plan> {
    let some = "cargo test --workspace --all-features --test tracing_events --test log_level --test tokio_traits";
    let clippy = "cargo clippy --workspace --all-features --all-targets -- -D warnings";
    let plan = first()
        .command("clippy with all features", clippy)
        .command("test", "cargo xtask tests")
        .command(
            "docs",
            "RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps",
        )
        .command("readmes", "cargo xtask readmes")
        .and(alone(workspace, "check"))
        .command("test with all features", some)
        .and(fuzz::check(workspace))
        .and(counts::plan(workspace))
        .and(loom::plan(workspace, loom::SOME))
        .and(compat::plan(workspace))
        .and(deny::plan())
        .command("packages", "cargo xtask packages")
        .and(targets::plan(workspace, targets::SOME))
        .and(mutants::all_but_slow()?);
    let plan = plan.without(&nightly::plan(workspace), LEFT);
    Ok(plan.without(&nightly::beyond_the_toolchain(workspace)?, LEFT))
}

/// The checks that need no build.
fn first() -> Plan {
    Plan::default()
        .command("tidy", "cargo xtask tidy")
        .command("layers", "cargo xtask layers")
        .command("fmt", "cargo fmt --all -- --check")
}

/// Checks or tests each published crate alone, and a crate with default features also without them.
pub(crate) fn alone(workspace: &Workspace, command: &str) -> Plan {
    let add = |plan: Plan, package: &workspace::Package| {
        let name = &package.name;
        let line = format!("cargo {command} -p {name}");
        let bare = format!("{line} --no-default-features");
        let plan = plan.command(format!("{command} alone: {name}"), line);
        match workspace::has_default_features(package) {
            true => plan.command(format!("{command} without features: {name}"), bare),
            false => plan,
        }
    };
    workspace::published(workspace).fold(Plan::default(), add)
}
