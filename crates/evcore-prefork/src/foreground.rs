//! Checks whether this process is in the foreground of its terminal. If it is, the terminal sends
//! it WINCH when the window changes its size, so the master must not take WINCH for a command.

use std::fs::File;

use rustix::{process::getpgrp, termios::tcgetpgrp};

pub(crate) fn is_ours() -> bool {
    // Without a terminal, opening this file fails. A terminal that has hung up has no foreground.
    let Ok(terminal) = File::open("/dev/tty") else {
        return false;
    };
    tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
}
