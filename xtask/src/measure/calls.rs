//! System calls a request, in the steady state of keep-alive requests.

use std::path::Path;
use std::process::Command;

use super::{serving::Serving, wrk};
use crate::{Result, strace};

const CONNECTIONS: u32 = 64;

pub(super) fn run(httpd: &Path) -> Result {
    println!("\nsystem calls of the worker: strace -c -f, {CONNECTIONS} keep-alive connections");
    for poller in ["epoll", "poll"] {
        let options = ["--workers", "1", "--poller", poller];
        let serving = Serving::httpd(httpd, &options, true)?;
        let load = wrk::start(&serving.address, CONNECTIONS, 6)?;
        // The connections are made, and strace looks on for a while in the middle.
        #[expect(clippy::disallowed_methods, reason = "a measurement has a duration")]
        std::thread::sleep(std::time::Duration::from_secs(1));
        let calls = trace(serving.worker()?)?;
        wrk::finish(load)?;
        print(poller, &calls)?;
    }
    Ok(())
}

/// How often a process makes each call, in three seconds.
fn trace(pid: u32) -> Result<Vec<(String, u64)>> {
    let mut tracing = Command::new("timeout");
    tracing.args([
        "-s",
        "INT",
        "3",
        "strace",
        "-c",
        "-f",
        "-p",
        &pid.to_string(),
    ]);
    let output = tracing.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let calls: Vec<_> = strace::calls(&text).collect();
    if calls.is_empty() {
        return Err(format!("strace counted nothing: {text}").into());
    }
    Ok(calls)
}

fn print(poller: &str, calls: &[(String, u64)]) -> Result {
    let answers = calls.iter().find(|(name, _)| name == "sendto");
    let (_, answers) = answers.ok_or("nothing was sent")?;
    println!("  {poller}, in {answers} answers:");
    for (name, count) in calls {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let each = *count as f64 / *answers as f64;
        println!("    {name:<16}{count:>8}  {each:.3} an answer");
    }
    Ok(())
}
