//! The clients: wrk and ab, and what they print.

use std::fmt;
use std::process::{Child, Command, Stdio};

use crate::Result;

/// A program that keeps connections busy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tool {
    Wrk,
    Ab,
}

/// What it counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    requests: u64,
    pub(super) errors: u64,
}

impl Tool {
    pub(super) fn is_there(self) -> bool {
        let mut version = Command::new(self.name());
        version.arg("-V").stdin(Stdio::null());
        version.stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok()
    }

    /// Starts it, until it is interrupted.
    pub(super) fn start(self, address: &str) -> Result<Child> {
        let mut command = Command::new(self.name());
        command.args(match self {
            Self::Wrk => &["-t1", "-c20", "-d24h"][..],
            // It allocates memory for this many requests at its start.
            Self::Ab => &["-q", "-k", "-c20", "-t86400", "-n20000000"][..],
        });
        command.arg(format!("http://{address}/"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(command.stderr(Stdio::piped()).spawn()?)
    }

    /// Reads what it printed when it ended.
    pub(super) fn finish(self, child: Child) -> Result<Report> {
        let output = child.wait_with_output()?;
        let [text, failure_output] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        let report = match self {
            Self::Wrk => wrk(&text),
            Self::Ab => ab(&text),
        };
        let failure_output = failure_output.lines().last().unwrap_or_default();
        report.ok_or_else(|| format!("no report: {failure_output}").into())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::Ab => "ab",
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9} requests {:>6} errors", self.requests, self.errors)
    }
}

fn wrk(text: &str) -> Option<Report> {
    let lines = || text.lines().map(str::trim);
    let requests = lines().find_map(|line| line.split_once(" requests in "))?;
    let errors = ["Socket errors: ", "Non-2xx or 3xx responses: "];
    let errors = errors.map(|words| lines().find_map(|line| line.strip_prefix(words)));
    Some(Report {
        requests: requests.0.parse().ok()?,
        errors: errors.into_iter().flatten().flat_map(numbers).sum(),
    })
}

/// It gives up at the first reset, and then prints nothing.
fn ab(text: &str) -> Option<Report> {
    let count = |words| {
        let line = text.lines().find_map(|line| line.strip_prefix(words));
        line.and_then(|rest| numbers(rest).next())
    };
    Some(Report {
        requests: count("Complete requests:")?,
        errors: count("Failed requests:")? + count("Non-2xx responses:").unwrap_or(0),
    })
}

fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_counts_is_read() {
        let text = "  10 requests in 1.00s, 1MB read\n  \
                    Socket errors: connect 1, read 2, write 0, timeout 4\n  \
                    Non-2xx or 3xx responses: 5\n";
        let [requests, errors] = [10, 12];
        assert_eq!(wrk(text), Some(Report { requests, errors }));
        let errors = 0;
        assert_eq!(
            wrk("10 requests in 1.00s, 1MB read\n"),
            Some(Report { requests, errors })
        );
    }

    #[test]
    fn what_ab_counts_is_read() {
        let text = "Complete requests:      3000\n\
                    Failed requests:        7\n   \
                    (Connect: 0, Receive: 0, Length: 7, Exceptions: 0)\n\
                    Non-2xx responses:      2\n";
        let [requests, errors] = [3000, 9];
        assert_eq!(ab(text), Some(Report { requests, errors }));
        assert_eq!(
            ab("apr_socket_recv: Connection reset by peer (104)\n"),
            None
        );
    }
}
