//! The benchmarks: builds `evcore-bench` and what it starts, and runs it. It writes the page.

use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::workspace::Workspace;

/// Measures, with the words that `evcore-bench run` takes.
pub(crate) fn run(workspace: &Workspace, words: &[String]) -> Result {
    let httpd = build(workspace, "evcore-httpd", "httpd")?;
    let mut command = Command::new(build(workspace, "evcore-bench", "evcore-bench")?);
    command.arg("run").arg("--httpd").arg(httpd).args(words);
    match command.status()?.success() {
        true => Ok(()),
        false => Err("the benchmarks failed".into()),
    }
}

/// The release build of a program.
pub(crate) fn build(workspace: &Workspace, package: &str, program: &str) -> Result<PathBuf> {
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "-p", package, "--bin", program]);
    match command.current_dir(&workspace.root).status()?.success() {
        true => Ok(workspace.target_dir.join("release").join(program)),
        false => Err(format!("{program} does not build").into()),
    }
}
