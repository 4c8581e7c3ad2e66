//! The demonstration: builds `httpd` and the program `demo` of the tests, which loads it.

use std::process::Command;

use crate::Result;
use crate::bench::build;
use crate::workspace::Workspace;

/// Shows the dashboard for this long.
pub(crate) fn run(workspace: &Workspace, seconds: u64) -> Result {
    start(workspace, &[&seconds.to_string()])
}

/// Takes the pictures of the dashboard.
pub(crate) fn take_screenshots(workspace: &Workspace) -> Result {
    let directory = workspace.root.join("docs/dashboard").display().to_string();
    start(workspace, &["--screenshots", &directory])
}

fn start(workspace: &Workspace, words: &[&str]) -> Result {
    let httpd = build(workspace, "evcore-httpd", "httpd")?;
    let mut demo = Command::new(build(workspace, "evcore-tests", "demo")?);
    match demo.arg(httpd).args(words).status()?.success() {
        true => Ok(()),
        false => Err("the demonstration failed".into()),
    }
}
