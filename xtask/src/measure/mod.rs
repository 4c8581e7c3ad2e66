//! The figures of the example server: what it asks of the kernel, and what CPU it takes beside
//! nginx in the same run.
//!
//! The server under test is pinned to CPU 0, the client to CPU 1. Peers take turns, and medians are
//! compared. What is missing on this machine is named, and the rest is measured.

mod calls;
mod cpu;
mod load;
pub(crate) mod serving;
mod wrk;

use std::process::{Command, Stdio};

use crate::Result;
use crate::workspace::Workspace;

/// Measures, and prints.
pub(crate) fn run(workspace: &Workspace) -> Result {
    let httpd = serving::build(workspace)?;
    if let Some(missing) = missing(&["wrk", "taskset"]) {
        println!("not measured here: {missing} is missing, which makes the load");
        return Ok(());
    }
    load::run(&httpd)?;
    match missing(&["strace"]) {
        None => calls::run(&httpd)?,
        Some(missing) => println!("\nsystem calls: not measured here, {missing} is missing"),
    }
    match missing(&["nginx"]) {
        None => cpu::run(&httpd, workspace)?,
        Some(missing) => println!("\nCPU beside nginx: not measured here, {missing} is missing"),
    }
    Ok(())
}

/// The first of these programs that is not there.
fn missing<'a>(programs: &[&'a str]) -> Option<&'a str> {
    programs.iter().copied().find(|program| !is_there(program))
}

fn is_there(program: &str) -> bool {
    let mut version = Command::new(program);
    version
        .arg("-v")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    version.status().is_ok()
}
