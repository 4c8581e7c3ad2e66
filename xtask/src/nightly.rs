//! The steps that `cargo xtask test --ci` leaves out, because they take long and seldom find
//! anything.

use crate::plan::Plan;
use crate::workspace::{self, Workspace};
use crate::{Result, api, compat, deny, fuzz, loom, mutants, targets, test};

pub(crate) fn plan(workspace: &Workspace) -> Plan {
    let cases = "PROPTEST_CASES=2000 cargo test --workspace --lib";
    let on_a_ring = "EVCORE_HTTPD_POLLER=io_uring cargo test --workspace \
                     --test httpd --test prefork --test faults --test hostile --test store";
    let loads = "EVCORE_SIM_SEEDS=5000 SOAK_SECONDS=20 cargo test --workspace --test simulation --test soak";
    let seeds = "EVCORE_SIM_SEEDS=10000 cargo test --release -p evcore-tests \
                 --test simulated_hyper --test simulated_httpd --test simulated_moves";
    let stores = "STORE_SOAK_SECONDS=600 cargo test --release -p evcore-tests --test store soak";
    let reloads =
        "SOAK_RELOADS=1000 cargo test --release -p evcore-tests --test async_examples reloads";
    let recordings = "EVCORE_RECORD_SECONDS=60 cargo test --release -p evcore-tests \
                      --test hostile four_workers -- --nocapture";
    let packages = workspace.packages.iter();
    let optional = packages.filter(|package| workspace::has_default_features(package));
    let optional: String = optional
        .map(|package| format!(" -p {}", package.name))
        .collect();
    let bare = format!("cargo clippy{optional} --no-default-features --all-targets -- -D warnings");
    Plan::default()
        .command(
            "clippy with default features",
            "cargo clippy --workspace --all-targets -- -D warnings",
        )
        .command("clippy without features", bare)
        .and(test::alone(workspace, "test"))
        .command(
            "all tests with all features",
            "cargo test --workspace --all-features --tests",
        )
        .command("long runs: cases", cases)
        .command("long runs: loads", loads)
        .command("long runs: seeds", seeds)
        .command("long runs: stores", stores)
        .command("long runs: recordings", recordings)
        .and(moves())
        .command("long runs: reloads of hyper", reloads)
        .command("httpd on io_uring", on_a_ring)
        .and(injection())
        .and(loom::plan(workspace, loom::ALL))
        .and(mutants::slow())
        .and(compat::clippy(workspace))
}

/// Tests of connections that move, with 1,000 reloads, 100 upgrades and 1,000 kills. A step may
/// last half an hour, so each test is a step of its own.
fn moves() -> Plan {
    let add = |plan: Plan, test: &str| {
        let line = format!(
            "SOAK_RELOADS=1000 SOAK_UPGRADES=100 SOAK_KILLS=1000 \
             cargo test --release -p evcore-tests --test soak moves_{test} -- --test-threads 1"
        );
        plan.command(format!("long runs: moves {test}"), line)
    };
    let tests = [
        "at_reloads",
        "at_upgrades",
        "on_other",
        "under_wrk",
        "under_ab",
        "during_kills_of_workers",
        "during_kills_of_masters",
    ];
    tests.into_iter().fold(Plan::default(), add)
}

/// All runs of `tests/injection`, of which `cargo xtask test` makes some.
pub(crate) fn injection() -> Plan {
    let line = "cargo test --workspace --test injection -- --ignored";
    Plan::default().command("injection", line)
}

pub(crate) fn beyond_the_toolchain(workspace: &Workspace) -> Result<Plan> {
    Ok(targets::plan(workspace, targets::OTHERS)
        .and(deny::advisories())
        .and(api::plan())
        .and(fuzz::plan(workspace, fuzz::SECONDS)?))
}
