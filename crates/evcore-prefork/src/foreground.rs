//! A process in the foreground of its terminal gets WINCH when the window has changed its size.
//! There it is not a command.

use std::fs::File;

use rustix::{process::getpgrp, termios::tcgetpgrp};

/// Returns whether this process is in the foreground of the terminal that controls it.
pub(crate) fn is_ours() -> bool {
    // Without a terminal this cannot be opened. A terminal that hangs up has no foreground.
    let Ok(terminal) = File::open("/dev/tty") else {
        return false;
    };
    tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
}
