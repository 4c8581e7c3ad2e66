//! A check that strace can be used.

use std::process::{Command, Stdio};

/// Returns whether strace is installed and may trace processes here.
///
/// Runs `true` under strace. `true` never fails, so a failure means that strace has failed.
#[must_use]
pub fn strace_works() -> bool {
    Command::new("strace")
        .args(["-f", "-e", "trace=futex", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
