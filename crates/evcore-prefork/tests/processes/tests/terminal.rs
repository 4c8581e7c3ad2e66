//! WINCH at a terminal: the size of the window in front, and an order in the background.

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
use crate::{scenes::terminal::TERMINAL, server::Server};

tests! {
    a_window_that_changes_its_size_sends_no_worker_in_front_away
    winch_in_the_background_sends_the_workers_away
}

fn a_window_that_changes_its_size_sends_no_worker_in_front_away() {
    let window = Window::open();
    let mut server = window.play("finish");
    server.expect("ready 0");
    for columns in [100, 120] {
        // The terminal's own signal, and one that somebody sends.
        window.resize(columns);
        server.signal_master(Signal::WINCH);
        // Whoever heeds the second signal has seen the first: so the order would be carried out.
        for _ in 0..2 {
            let reopened = super::count(server.seen(), "reopened");
            server.signal_master(Signal::USR1);
            server.expect_in_all("reopened", reopened + 2);
        }
    }
    assert!(!server.seen().iter().any(|line| line.starts_with("told")));
    server.signal_master(Signal::QUIT);
    server.expect("told 0 Some(Graceful)");
    server.give_byte();
    let lines = server.expect_end();
    assert_eq!(super::count(lines, "started"), 1);
}

fn winch_in_the_background_sends_the_workers_away() {
    let window = Window::open();
    let mut server = window.play("in the background");
    server.expect("ready 0");
    server.signal_master(Signal::WINCH);
    server.expect("told 0 Some(Graceful)");
    server.give_byte();
    server.expect("ended 0");
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(super::count(lines, "started"), 1);
}

/// What shows a terminal. When it is closed, the terminal hangs up.
struct Window(OwnedFd);

impl Window {
    fn open() -> Self {
        let window = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&window).unwrap();
        unlockpt(&window).unwrap();
        Self(window)
    }

    /// Starts a server that leads the session at the terminal.
    fn play(&self, scene: &str) -> Server {
        let terminal = ptsname(&self.0, Vec::new()).unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.env(TERMINAL, OsStr::from_bytes(terminal.as_bytes()));
        Server::spawn(&mut command, scene)
    }

    /// Makes it so wide, of which the terminal tells who is in front.
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
