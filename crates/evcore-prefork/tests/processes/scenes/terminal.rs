//! A terminal that this process leads a session at.

use std::{env, fs::File, os::unix::process::CommandExt, process::Command};

use rustix::{
    process::{Pid, ioctl_tiocsctty, setsid},
    termios::tcsetpgrp,
};

use crate::server::SCENE_FLAG;

/// The environment variable that holds the terminal's path.
pub(crate) const TERMINAL: &str = "EVCORE_TEST_TERMINAL";

/// Makes the terminal that the test has given this process's own, with this process in front.
pub(super) fn take_if_given() {
    let Some(path) = env::var_os(TERMINAL) else {
        return;
    };
    setsid().unwrap();
    let terminal = File::options().read(true).write(true).open(path).unwrap();
    ioctl_tiocsctty(terminal).unwrap();
}

/// Puts another process in front, as a shell does when this one is to run in the background.
#[expect(
    clippy::zombie_processes,
    reason = "as a zombie it keeps its group, whether it has ended or not"
)]
pub(super) fn give_to_another() {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([SCENE_FLAG, "exit with 7"]);
    command.env_remove(TERMINAL).process_group(0);
    let another = command.spawn().unwrap();
    let terminal = File::open("/dev/tty").unwrap();
    tcsetpgrp(terminal, Pid::from_child(&another)).unwrap();
}
