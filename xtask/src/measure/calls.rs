//! System calls a request, in the steady state of keep-alive requests.

use std::path::Path;
use std::process::Command;

use super::{serving::Serving, wrk};
use crate::Result;

const CONNECTIONS: u32 = 64;

pub(super) fn run(httpd: &Path) -> Result {
    println!("\nsystem calls of the worker: strace -c -f, {CONNECTIONS} keep-alive connections");
    for poller in ["epoll", "poll"] {
        let options = ["--workers", "1", "--poller", poller];
        let serving = Serving::httpd(httpd, &options, true)?;
        let load = wrk::start(&serving.address, CONNECTIONS, 6)?;
        // The connections are made, and strace looks on for a while in the middle.
        std::thread::sleep(std::time::Duration::from_secs(1));
        let calls = trace(serving.worker()?)?;
        wrk::finish(load)?;
        print(poller, &calls)?;
    }
    Ok(())
}

/// How often a process makes each call, in three seconds.
fn trace(pid: u32) -> Result<Vec<(String, u64)>> {
    let mut strace = Command::new("timeout");
    strace.args([
        "-s",
        "INT",
        "3",
        "strace",
        "-c",
        "-f",
        "-p",
        &pid.to_string(),
    ]);
    let output = strace.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let calls = parse(&text);
    if calls.is_empty() {
        return Err(format!("strace counted nothing: {text}").into());
    }
    Ok(calls)
}

/// The rows of strace's table: share, seconds, microseconds, calls, perhaps errors, name.
fn parse(text: &str) -> Vec<(String, u64)> {
    let rows = text.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let name = *words.last()?;
        let calls = words.get(3)?.parse().ok()?;
        let is_row = words.len() >= 5 && words[0].parse::<f64>().is_ok() && name != "total";
        is_row.then(|| (name.to_owned(), calls))
    });
    rows.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_strace_is_read() {
        let text = "\
strace: Process 1 attached
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 57.55    0.149118          45      3256           sendto
 41.23    0.106842          32      3257         1 recvfrom
------ ----------- ----------- --------- --------- ----------------
100.00    0.259118          39      6564         1 total
";
        let calls = parse(text);
        assert_eq!(
            calls,
            [("sendto".to_owned(), 3256), ("recvfrom".to_owned(), 3257)]
        );
    }
}
