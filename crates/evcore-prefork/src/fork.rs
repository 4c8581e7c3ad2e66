//! Becoming two processes.

#![allow(unsafe_code, reason = "fork")]

use std::{
    fs,
    io::{self, Write},
};

use rustix::process::Pid;

use crate::{
    Error, Result,
    leash::{Held, Worn, leash},
    signals,
};

/// Which of the two this is, and its end of the leash between them.
#[derive(Debug)]
pub(crate) enum Side {
    Parent(Pid, Held),
    /// Its signals are still blocked, and its handlers still those of the parent.
    Child(Worn),
}

/// Forks this process, of which this must be the only thread.
///
/// No signal that [`signals`] handles reaches the child before it asks for them.
pub(crate) fn fork() -> io::Result<Side> {
    let (held, worn) = leash()?;
    // What waits in the buffer would be written by both.
    let _ = io::stdout().flush();
    signals::block();
    // SAFETY: there is one thread, as `run` has checked where it can and demands where it cannot.
    // So no lock is held, and the child may do all that the parent could.
    let pid = unsafe { libc::fork() };
    let side = match pid {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(Pid::from_raw(pid).map_or(Side::Child(worn), |pid| Side::Parent(pid, held))),
    };
    if !matches!(side, Ok(Side::Child(_))) {
        signals::unblock();
    }
    side
}

/// An error if the process is known to have other threads.
pub(crate) fn require_one_thread() -> Result<()> {
    match threads() {
        Some(count) if count > 1 => Err(Error::Threads { count }),
        _ => Ok(()),
    }
}

/// How many threads there are, where the system tells: on Linux, with /proc mounted.
fn threads() -> Option<usize> {
    if cfg!(any(target_os = "linux", target_os = "android")) {
        Some(count(fs::read_dir("/proc/self/task").ok()?))
    } else {
        None
    }
}

/// The entries that can be read: an error is no thread.
fn count<T>(entries: impl Iterator<Item = io::Result<T>>) -> usize {
    entries.filter(Result::is_ok).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_cannot_be_read_is_not_counted_as_a_thread() {
        let entries = [Ok("4711"), Err(io::Error::other("getdents64 failed"))];
        assert_eq!(count(entries.into_iter()), 1);
    }
}
