//! Reloads of the example server under load: what wrk and ab lose meanwhile, policy by policy.
//!
//! Each tool keeps 20 connections busy with requests, one after the other. The master gets HUP
//! again and again, each time as soon as the reload before is done. Whatever a tool counts as an
//! error is counted here, and so is a tool that gives up.

mod reloaded_server;
mod tool;

use std::process::Command;

use self::reloaded_server::Server;
use self::tool::{Report, Tool};
use crate::workspace::Workspace;
use crate::{Result, bench};

/// The values of `--accept`.
const POLICIES: &[&str] = &["off", "mutex", "exclusive", "least-loaded", "reuseport"];

/// How many reloads each tool goes through, by default.
const RELOADS: u32 = 1000;

/// Reloads the server that often under each tool and policy, and prints what they counted.
///
/// # Errors
///
/// If a tool counted an error, or something could not be run.
pub(crate) fn run(workspace: &Workspace, reloads: Option<u32>) -> Result {
    let reloads = reloads.unwrap_or(RELOADS);
    let httpd = bench::build(workspace, "evcore-httpd", "httpd")?;
    let mut errors = 0;
    println!("{reloads} reloads each of httpd --workers 2, 20 connections");
    for policy in POLICIES {
        for tool in [Tool::Wrk, Tool::Ab] {
            if !tool.is_there() {
                println!("  {policy:<13}{tool:<5}not run: it is not installed");
                continue;
            }
            let server = Server::start(&httpd, &["--workers", "2", "--accept", policy])?;
            match under_load(server, tool, reloads) {
                Ok(report) => {
                    println!("  {policy:<13}{tool:<5}{report}");
                    errors += report.errors;
                }
                Err(error) => {
                    println!("  {policy:<13}{tool:<5}{error}");
                    errors += 1;
                }
            }
        }
    }
    match errors {
        0 => Ok(()),
        _ => Err(format!("{errors} errors in all").into()),
    }
}

/// Reloads while the tool runs; ends the tool, and returns its report.
fn under_load(mut server: Server, tool: Tool, reloads: u32) -> Result<Report> {
    let mut load = tool.start(&server.address)?;
    for reload in 0..reloads {
        if load.try_wait()?.is_some() {
            println!("  {tool} ended after {reload} reloads");
            break;
        }
        signal("HUP", server.pid())?;
        server.wait_for("reload: Done")?;
    }
    // Both print what they have counted so far.
    if load.try_wait()?.is_none() {
        signal("INT", load.id())?;
    }
    tool.finish(load)
}

fn signal(name: &str, pid: u32) -> Result {
    let status = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("process {pid} is gone").into()),
    }
}
