//! Whether this process is what its terminal shows: then a WINCH says that the window has changed
//! its size, and is no order.

use std::fs::File;

use rustix::{process::getpgrp, termios::tcgetpgrp};

/// Whether this process is in the foreground of the terminal that controls it.
pub(crate) fn is_ours() -> bool {
    // Without a terminal it cannot be opened, and one that hangs up has no foreground.
    let Ok(terminal) = File::open("/dev/tty") else {
        return false;
    };
    tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
}
