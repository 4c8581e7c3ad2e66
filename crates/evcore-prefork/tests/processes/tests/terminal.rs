//! SIGWINCH, which reports a changed window to a master in the foreground of its terminal. In the
//! background it is the command to stop the workers.

use std::{
    env,
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    process::Command,
};

use rustix::{
    process::Signal,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::tests;
use crate::{child_mains::terminal::TERMINAL, server_process::Server};

tests! {
    a_window_that_changes_its_size_stops_no_worker
    winch_in_the_background_stops_the_workers
}

fn a_window_that_changes_its_size_stops_no_worker() {
    let window = Window::open();
    let mut server = window.start("finish");
    server.expect("ready 0");
    for columns in [100, 120] {
        // The terminal sends SIGWINCH to the master, and so does the test.
        window.resize(columns);
        server.signal_master(Signal::WINCH);
        // The second SIGUSR1 is sent when the first is handled. A master that has handled both has
        // also handled SIGWINCH.
        for _ in 0..2 {
            let reopened = super::count(server.seen(), "reopened");
            server.signal_master(Signal::USR1);
            server.expect_in_all("reopened", reopened + 2);
        }
    }
    assert!(!server.seen().iter().any(|line| line.starts_with("stops")));
    server.signal_master(Signal::QUIT);
    server.expect("stops 0 Some(Graceful)");
    server.give_byte();
    let lines = server.expect_end();
    assert_eq!(super::count(lines, "started"), 1);
}

fn winch_in_the_background_stops_the_workers() {
    let window = Window::open();
    let mut server = window.start("in the background");
    server.expect("ready 0");
    server.signal_master(Signal::WINCH);
    server.expect("stops 0 Some(Graceful)");
    server.give_byte();
    server.expect("ended 0");
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(super::count(lines, "started"), 1);
}

/// The window of a terminal: the controlling end of a pseudo-terminal.
struct Window(OwnedFd);

impl Window {
    fn open() -> Self {
        let window = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&window).unwrap();
        unlockpt(&window).unwrap();
        Self(window)
    }

    /// Starts a server that leads the session of the terminal.
    fn start(&self, main: &str) -> Server {
        let terminal = ptsname(&self.0, Vec::new()).unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.env(TERMINAL, OsStr::from_bytes(terminal.as_bytes()));
        Server::spawn(&mut command, main)
    }

    /// Changes the width of the window, which the terminal reports to the processes in its
    /// foreground.
    fn resize(&self, columns: u16) {
        let size = Winsize {
            ws_row: 24,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.0, size).unwrap();
    }
}
