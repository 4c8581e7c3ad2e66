//! Becoming two processes.

#![allow(unsafe_code, reason = "fork")]

use std::{
    fs,
    io::{self, Write},
};

use rustix::process::{Pid, getppid};

use crate::{Error, Result, Stop, signals};

/// Which of the two this is.
#[derive(Debug)]
pub(crate) enum Side {
    Parent(Pid),
    /// Its signals are still blocked, and its handlers still those of the parent.
    Child,
}

/// Forks this process, of which this must be the only thread.
///
/// No signal that [`signals`] handles reaches the child before it asks for them.
pub(crate) fn fork() -> io::Result<Side> {
    // What waits in the buffer would be written by both.
    let _ = io::stdout().flush();
    signals::block();
    // SAFETY: there is one thread, as `run` has checked where it can and demands where it cannot.
    // So no lock is held, and the child may do all that the parent could.
    let pid = unsafe { libc::fork() };
    let side = match pid {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(Pid::from_raw(pid).map_or(Side::Child, Side::Parent)),
    };
    if !matches!(side, Ok(Side::Child)) {
        signals::unblock();
    }
    side
}

/// In a child: makes the death of its parent a fast stop, where the system can.
pub(crate) fn follow(parent: Pid) {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        // It refuses nothing but numbers that are no signals.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
    // It may have died before it could be followed. Nobody can tell if it has no number here, as
    // when the child is the first process of a new namespace.
    if getppid().is_some_and(|now| now != parent) {
        signals::note(Stop::Fast);
    }
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
        Some(fs::read_dir("/proc/self/task").ok()?.count())
    } else {
        None
    }
}
