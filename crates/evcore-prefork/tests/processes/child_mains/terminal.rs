//! The controlling terminal of a server under test.

use std::{env, fs::File, os::unix::process::CommandExt, process::Command};

use rustix::{
    process::{Pid, ioctl_tiocsctty, setsid},
    termios::tcsetpgrp,
};

use crate::server_process::MAIN_FLAG;

/// The environment variable that holds the terminal's path.
pub(crate) const TERMINAL: &str = "EVCORE_TEST_TERMINAL";

/// Gives this process a controlling terminal, if the test has passed one. The process is then in
/// the foreground.
pub(super) fn take_if_passed() {
    let Some(path) = env::var_os(TERMINAL) else {
        return;
    };
    setsid().unwrap();
    let terminal = File::options().read(true).write(true).open(path).unwrap();
    ioctl_tiocsctty(terminal).unwrap();
}

/// Puts another process in the foreground, as a shell does to run this one in the background.
#[expect(
    clippy::zombie_processes,
    reason = "as a zombie it keeps its group, whether it has ended or not"
)]
pub(super) fn pass_to_another() {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([MAIN_FLAG, "exit with 7"]);
    command.env_remove(TERMINAL).process_group(0);
    let another = command.spawn().unwrap();
    let terminal = File::open("/dev/tty").unwrap();
    tcsetpgrp(terminal, Pid::from_child(&another)).unwrap();
}
