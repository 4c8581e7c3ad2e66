//! Programs that a person watches: the benchmarks, the demonstration and the screenshots, in
//! release builds, and the soak, in a debug build, which has assertions.

use crate::Result;
use crate::command::{become_command, run_attended};
use crate::workspace::{Workspace, target_dir};

/// Runs the benchmarks, and writes their page. `words` are the arguments of `evcore-bench run`.
pub(crate) fn bench(workspace: &Workspace, words: &[&str]) -> Result {
    let words = format!("run {}", words.join(" "));
    run(workspace, "evcore-bench", "evcore-bench", &words)
}

pub(crate) fn demo() -> Result {
    become_command("cargo run --release --bin httpd -- --demo --workers 4")
}

pub(crate) fn screenshots(workspace: &Workspace) -> Result {
    let words = format!("{}/httpd docs/dashboard", target_dir(workspace, "release"));
    run(workspace, "evcore-tests", "screenshots", &words)
}

/// Runs the soak, a test in `tests/soak`, for `minutes` minutes.
pub(crate) fn soak(minutes: &str) -> Result {
    let seconds = 60 * minutes.parse::<u64>()?;
    let line = format!(
        "SOAK_SECONDS={seconds} cargo test -p evcore-tests --test soak mixed_load -- --nocapture"
    );
    run_attended(&line)
}

/// Builds a program and the server `httpd` next to it, and runs the program.
fn run(workspace: &Workspace, package: &str, program: &str, words: &str) -> Result {
    for line in [
        "cargo build --release -p evcore-httpd --bin httpd",
        &format!("cargo build --release -p {package} --bin {program}"),
        &format!("{}/{program} {words}", target_dir(workspace, "release")),
    ] {
        run_attended(line)?;
    }
    Ok(())
}
