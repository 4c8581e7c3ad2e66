//! Forking a process that has one thread.

#![allow(unsafe_code, reason = "fork")]

use std::{
    fs,
    io::{self, Write},
};

use rustix::process::Pid;

use crate::{
    error::{Error, Result},
    liveness_pipe::{ChildEnd, ParentEnd, liveness_pipe},
    signals,
};

/// The side of a fork that this process is on.
#[derive(Debug)]
pub(crate) enum Side {
    Parent(Pid, ParentEnd),
    /// The child. The signals that [`signals`] handles are still blocked, and its handlers are the
    /// parent's.
    Child(ChildEnd),
}

/// Forks this process, whose only thread must be this one.
pub(crate) fn fork() -> io::Result<Side> {
    let (parent, child) = liveness_pipe()?;
    // Without this, both processes would write the bytes that are left in the buffer.
    let _ = io::stdout().flush();
    signals::block();
    // SAFETY: there is one thread. `run` checks this if the system shows the number of threads, and
    // otherwise requires it of the caller. So no lock is held, and the child may do all that the
    // parent may.
    let pid = unsafe { libc::fork() };
    let side = match pid {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(Pid::from_raw(pid).map_or(Side::Child(child), |pid| Side::Parent(pid, parent))),
    };
    if !matches!(side, Ok(Side::Child(_))) {
        signals::unblock();
    }
    side
}

pub(crate) fn require_one_thread() -> Result<()> {
    match threads() {
        Some(count) if count > 1 => Err(Error::Threads { count }),
        _ => Ok(()),
    }
}

/// The number of threads; `None` except on Linux and Android with `/proc`.
fn threads() -> Option<usize> {
    if cfg!(any(target_os = "linux", target_os = "android")) {
        Some(count(fs::read_dir("/proc/self/task").ok()?))
    } else {
        None
    }
}

fn count<T>(entries: impl Iterator<Item = io::Result<T>>) -> usize {
    entries.filter(Result::is_ok).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_entry_is_not_counted_as_a_thread() {
        let entries = [Ok("4711"), Err(io::Error::other("getdents64 failed"))];
        assert_eq!(count(entries.into_iter()), 1);
    }
}
