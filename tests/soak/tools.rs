//! Load generators of other projects, and their reports.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

use evcore_tests::not_run;

#[derive(Debug)]
pub(super) struct HttpReport {
    pub(super) requests: u64,
    /// Number of requests that the tool reports as failed.
    pub(super) errors: u64,
}

#[derive(Debug)]
pub(super) struct Iperf3Report {
    /// Bytes of all streams.
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) error: Option<String>,
}

/// Starts wrk with 32 connections, unless the options have another number. Returns `None` if wrk is
/// not installed.
pub(super) fn wrk(
    server: SocketAddr,
    seconds: usize,
    options: &[&str],
) -> Option<Receiver<HttpReport>> {
    let mut command = installed("wrk")?;
    command.args(["-t1", "-c32", "--timeout", "60", "-d", &seconds.to_string()]);
    command.args(options).arg(format!("http://{server}/"));
    Some(report(command, |text| HttpReport {
        requests: number_in(text, " requests in ").expect("wrk has run"),
        errors: ["Socket errors: ", "Non-2xx or 3xx responses: "]
            .into_iter()
            .filter_map(|name| number_in(text, name))
            .sum(),
    }))
}

/// Starts ab with this many kept connections. Returns `None` if ab is not installed. ab fails at
/// the first reset.
pub(super) fn ab(
    server: SocketAddr,
    seconds: usize,
    connections: usize,
) -> Option<Receiver<HttpReport>> {
    let mut command = installed("ab")?;
    command.args(["-q", "-k", "-c", &connections.to_string()]);
    // ab allocates memory for the number of requests (`-n`) at its start. `-n` comes last, because
    // `-t` sets this number too.
    command.args(["-t", &seconds.to_string(), "-n2000000"]);
    command.arg(format!("http://{server}/"));
    Some(report(command, |text| HttpReport {
        requests: number_in(text, "Complete requests:").expect("ab has run to its end"),
        errors: ["Failed requests:", "Non-2xx responses:"]
            .into_iter()
            .filter_map(|name| number_in(text, name))
            .sum(),
    }))
}

/// The sum of the numbers after this text in its line, or before it if the text does not begin the
/// line.
fn number_in(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(name))?;
    let (before, after) = line.split_once(name)?;
    let words = if before.trim().is_empty() {
        after
    } else {
        before
    };
    let words = words.split(|letter: char| !letter.is_ascii_digit());
    Some(words.filter_map(|word| word.parse::<u64>().ok()).sum())
}

/// The receiving side of iperf3. The process ends when this value is dropped.
pub(super) struct Iperf3Server {
    process: Child,
    pub(super) address: SocketAddr,
}

impl Iperf3Server {
    /// Starts the server, and waits until it listens; `None` if iperf3 is not installed.
    pub(super) fn start() -> Option<Self> {
        let mut command = installed("iperf3")?;
        // iperf3 cannot print a port that the kernel has chosen.
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = address.expect("a free port");
        command.args(["-s", "--forceflush", "-p", &address.port().to_string()]);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let log = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut lines = log.lines().map_while(Result::ok);
        let listens = lines.any(|line| line.contains("listening on"));
        // iperf3 may write more until it ends.
        thread::spawn(move || lines.for_each(drop));
        let server = Self { process, address };
        assert!(listens, "iperf3 has ended");
        Some(server)
    }
}

impl Drop for Iperf3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts the sending side of iperf3, with 8 streams.
pub(super) fn iperf3(server: SocketAddr, seconds: usize) -> Receiver<Iperf3Report> {
    let mut command = Command::new("iperf3");
    command.args([
        "-c",
        &server.ip().to_string(),
        "-p",
        &server.port().to_string(),
    ]);
    command.args(["-P", "8", "-J", "-t", &seconds.to_string()]);
    report(command, |text| {
        // The last sums cover the whole run.
        let bytes = |name| {
            let (_, rest) = text.rsplit_once(name)?;
            let (_, rest) = rest.split_once("\"bytes\":")?;
            rest.split(',').next()?.trim().parse().ok()
        };
        let error = text.lines().find(|line| line.contains("\"error\":"));
        Iperf3Report {
            sent: bytes("\"sum_sent\":").unwrap_or(0),
            received: bytes("\"sum_received\":").unwrap_or(0),
            error: error.map(|line| line.trim().to_owned()),
        }
    })
}

/// The most bytes that two connections and a pipe between them hold.
pub(super) fn bytes_on_the_way() -> u64 {
    let most = |name| {
        // The file has the least, the initial and the greatest size.
        let sizes = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        let sizes = sizes.expect("the system has IPv4");
        let most = sizes.split_whitespace().next_back();
        most.and_then(|size| size.parse::<u64>().ok())
            .expect("a size")
    };
    2 * (most("tcp_rmem") + most("tcp_wmem")) + (64 << 10)
}

pub(super) fn installed(program: &str) -> Option<Command> {
    let mut version = Command::new(program);
    version.arg("-V").stdin(Stdio::null());
    version.stdout(Stdio::null()).stderr(Stdio::null());
    if version.status().is_err() {
        not_run(&format!("{program} is not installed"));
        return None;
    }
    Some(Command::new(program))
}

fn report<T: Send + 'static>(
    mut command: Command,
    parse: impl FnOnce(&str) -> T + Send + 'static,
) -> Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let output = command.stdin(Stdio::null()).output().expect("it starts");
        let _ = sender.send(parse(&String::from_utf8_lossy(&output.stdout)));
    });
    receiver
}
