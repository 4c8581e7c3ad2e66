//! The check for the foreground of a terminal. A process there gets WINCH when the window changes
//! its size, so WINCH is not a command there.

use std::fs::File;

use rustix::{process::getpgrp, termios::tcgetpgrp};

pub(crate) fn is_ours() -> bool {
    // Without a terminal, opening this file fails. A terminal that has hung up has no foreground.
    let Ok(terminal) = File::open("/dev/tty") else {
        return false;
    };
    tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
}
