//! The example server.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStderr, Stdio};
use std::thread;

use super::launch::Launch;
use super::server::Server;

/// Starts it with a policy, and waits until it serves.
///
/// # Errors
///
/// The error when it does not start, such as an unknown policy.
pub(super) fn start(
    program: &Path,
    policy: &str,
    launch: Launch,
    workers: usize,
) -> Result<Server, String> {
    let mut command = launch.command(program);
    command
        .args(["--listen", "127.0.0.1:0", "--accept", policy])
        .args(["--workers", &workers.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut master = command.spawn().map_err(|error| error.to_string())?;
    match listening_address(master.stderr.take().expect("it was just set")) {
        Ok(address) => Server::with_master(master, address, workers).ready(),
        Err(last_line) => {
            let _ = master.kill();
            let _ = master.wait();
            Err(last_line)
        }
    }
}

/// The address from the log, or the last line of the log. Goes on reading the log.
pub(crate) fn listening_address(log: ChildStderr) -> Result<SocketAddr, String> {
    let mut log = BufReader::new(log);
    let address = address(&mut log);
    // A server that cannot write its log would block.
    thread::spawn(move || log.read_to_end(&mut Vec::new()));
    address
}

fn address(log: &mut impl BufRead) -> Result<SocketAddr, String> {
    let mut last = String::new();
    loop {
        let mut line = String::new();
        if !matches!(log.read_line(&mut line), Ok(1..)) {
            return Err(last);
        }
        line.truncate(line.trim_end().len());
        let address = line.strip_prefix("listening on ");
        if let Some(Ok(address)) = address.map(str::parse) {
            return Ok(address);
        }
        last = line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_after_other_lines_or_not_at_all() {
        let log = "httpd: few descriptors\nlistening on 127.0.0.1:1234\nmore\n";
        let found = address(&mut log.as_bytes()).unwrap();
        assert_eq!(found.port(), 1234);
        let refused = "httpd: --accept x is not built yet\n";
        assert_eq!(
            address(&mut refused.as_bytes()),
            Err(refused.trim_end().to_owned())
        );
    }
}
