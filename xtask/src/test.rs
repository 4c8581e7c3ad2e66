//! Everything that a change must pass; `ci` adds what needs the network or more than the Rust
//! toolchain, and `quick` leaves out what finds few faults.
//!
//! Cheap steps come first, so that most failures show in seconds. Tests run in one build of the
//! whole workspace. Such a build unifies features, and hides that a crate depends on the features
//! of another, so each published crate is also checked alone. `nightly.rs` has the steps that take
//! long.

use crate::plan::Plan;
use crate::workspace::{self, Workspace};
use crate::{Result, compat, counts, deny, fuzz, loom, mutants, nightly, targets};

const LEFT: &str = "left to `cargo xtask nightly`";

/// The steps that need only the Rust toolchain and git.
pub(crate) fn plan(workspace: &Workspace) -> Result<Plan> {
    // The mutants come last, because they use what `cargo test` has built of the dependencies.
    let plan = most(workspace).and(mutants::everyday()?);
    Ok(plan.without(&nightly::plan(workspace), LEFT))
}

/// All steps except the mutants. Steps that build in the common directory run in this order, and
/// the others next to them.
fn most(workspace: &Workspace) -> Plan {
    let some = "cargo test --workspace --all-features --test tracing_events --test log_level";
    first()
        .command(
            "docs",
            "RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps",
        )
        .command("readmes", "cargo xtask readmes")
        .command(
            "test",
            "PROPTEST_CASES=128 RUST_TEST_THREADS=4 cargo test --workspace",
        )
        .and(alone(workspace, "check"))
        .command("test with all features", some)
        .and(fuzz::check(workspace))
        .and(counts::plan(workspace))
        .and(loom::plan(workspace, loom::SOME))
        .and(compat::plan(workspace))
}

pub(crate) fn ci(workspace: &Workspace) -> Result<Plan> {
    let plan = most(workspace)
        .and(deny::plan())
        .command("packages", "cargo xtask packages")
        .and(targets::plan(workspace, targets::SOME))
        .and(mutants::everyday()?);
    let plan = plan.without(&nightly::plan(workspace), LEFT);
    Ok(plan.without(&nightly::beyond_the_toolchain(workspace)?, LEFT))
}

pub(crate) fn quick(workspace: &Workspace) -> Result<Plan> {
    let in_crates =
        "PROPTEST_CASES=16 cargo test --workspace --exclude evcore-tests --lib --bins --tests";
    let in_whole = "PROPTEST_CASES=16 EVCORE_SIM_SEEDS=50 cargo test --workspace \
                    --test conformance --test simulation";
    // Tests run examples, which cargo builds only if no kind of target is named.
    let mut plan = first()
        .command("examples", "cargo build --workspace --examples")
        .command("test: crates", in_crates)
        .command("test: whole", in_whole);
    let mut packages = workspace.packages.iter();
    let tests = packages.find(|package| package.name == "evcore-tests");
    let tests = tests.into_iter().flat_map(|package| &package.targets);
    let tests = tests.filter(|target| target.is_test() && !in_whole.contains(&target.name));
    let tests: Vec<&str> = tests.map(|target| target.name.as_str()).collect();
    let reason = "left out by `--quick`";
    let line = format!("test: {}, doctests: {reason}", tests.join(", "));
    plan.left_out.push(line);
    Ok(plan.without(&self::plan(workspace)?, reason))
}

/// The steps that are cheap and find most mistakes.
fn first() -> Plan {
    let clippy = "cargo clippy --workspace --all-features --all-targets -- -D warnings";
    Plan::default()
        .command("tidy", "cargo xtask tidy")
        .command("layers", "cargo xtask layers")
        .command("fmt", "cargo fmt --all -- --check")
        .command("clippy", clippy)
}

/// Checks or tests each published crate alone, and without its default features, if it has any.
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
