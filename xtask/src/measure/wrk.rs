//! The client: wrk, pinned to CPU 1.

use std::process::{Child, Command, Stdio};

use crate::Result;

/// The figures of a run of wrk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) requests: u64,
    pub(super) socket_errors: u64,
    pub(super) bad_answers: u64,
}

/// Runs to its end.
pub(super) fn run(address: &str, connections: u32, seconds: u32) -> Result<Report> {
    finish(start(address, connections, seconds)?)
}

/// Starts wrk, and does not wait for its end.
pub(super) fn start(address: &str, connections: u32, seconds: u32) -> Result<Child> {
    let mut command = Command::new("taskset");
    command.args(["-c", "1", "wrk", "-t1"]);
    command
        .arg(format!("-c{connections}"))
        .arg(format!("-d{seconds}s"));
    command.arg(format!("http://{address}/"));
    Ok(command.stdout(Stdio::piped()).spawn()?)
}

pub(super) fn finish(wrk: Child) -> Result<Report> {
    let output = wrk.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse(&text).ok_or_else(|| format!("unexpected output of wrk: {text}").into())
}

fn parse(text: &str) -> Option<Report> {
    let mut report = Report::default();
    let mut counted = false;
    for line in text.lines().map(str::trim) {
        if let Some((requests, _)) = line.split_once(" requests in ") {
            report.requests = requests.parse().ok()?;
            counted = true;
        } else if let Some(errors) = line.strip_prefix("Socket errors: ") {
            report.socket_errors = numbers(errors).sum();
        } else if let Some(bad) = line.strip_prefix("Non-2xx or 3xx responses: ") {
            report.bad_answers = bad.parse().ok()?;
        }
    }
    counted.then_some(report)
}

fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text =
            "Running 3s test @ http://127.0.0.1:1/\n  59265 requests in 3.05s, 7.40MB read\n";
        assert_eq!(
            parse(text),
            Some(Report {
                requests: 59_265,
                ..Report::default()
            })
        );
    }

    #[test]
    fn what_went_wrong_is_read() {
        let text = "  10 requests in 1.00s, 1MB read\n  \
                    Socket errors: connect 1, read 2, write 0, timeout 4\n  \
                    Non-2xx or 3xx responses: 5\n";
        let report = Report {
            requests: 10,
            socket_errors: 7,
            bad_answers: 5,
        };
        assert_eq!(parse(text), Some(report));
    }

    #[test]
    fn another_text_is_no_report() {
        assert_eq!(parse("unable to connect"), None);
    }
}
