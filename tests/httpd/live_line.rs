//! The line that a terminal shows while the server runs.

use std::{
    fs::File,
    io::Read,
    process::{Child, Command},
    time::{Duration, Instant},
};

use evcore_tests::{PATIENCE, Server, eventually, httpd};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags, open},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

#[test]
fn a_terminal_shows_one_line_that_changes() {
    let (mut screen, mut server) = on_a_terminal();
    let mut shown = String::new();
    let deadline = Instant::now() + PATIENCE;
    while shown.matches(" requests/s, turn p99 ").count() < 2 {
        shown += &read_some(&mut screen, deadline);
    }
    kill_process(Pid::from_child(&server), Signal::TERM).expect("it runs");
    server.wait().expect("it is our child");
    assert!(
        shown.contains("\r\x1b[K0 connections (0 0), 0 requests/s"),
        "{shown:?}"
    );
    assert!(shown.contains("\r\x1b[Klistening on "), "{shown:?}");
}

#[test]
fn a_redirected_log_has_no_live_line() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.connect();
    // Each sample was a chance to write the line.
    eventually("three samples", || {
        let page = client.get("/history.json");
        page.text().matches("time_ms").count() > 3
    });
    assert!(!server.log().contains("requests/s"), "{}", server.log());
}

/// The other side of a terminal, and a server whose standard error is the terminal.
fn on_a_terminal() -> (File, Child) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&screen).expect("ours");
    unlockpt(&screen).expect("ours");
    let path = ptsname(&screen, Vec::new()).expect("it has a name");
    let terminal = open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("it is there");
    let mut command = Command::new(httpd());
    command
        .args(["--listen", "127.0.0.1:0", "--workers", "2"])
        .stderr(terminal);
    (
        File::from(screen),
        command.spawn().expect("the server starts"),
    )
}

fn read_some(screen: &mut File, deadline: Instant) -> String {
    let left = deadline.saturating_duration_since(Instant::now());
    assert_ne!(left, Duration::ZERO, "the line does not come");
    let left = Timespec::try_from(left).expect("it fits");
    let mut fds = [PollFd::new(screen, PollFlags::IN)];
    poll(&mut fds, Some(&left)).expect("a terminal");
    let mut buffer = [0; 4096];
    let n = screen.read(&mut buffer).expect("it is open");
    String::from_utf8_lossy(&buffer[..n]).into_owned()
}
