//! The workers that live: signalled, reaped, and not left behind.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus, time::Instant};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process, waitpid},
};

use crate::{WorkerExit, roster::Roster};

/// The roster, and the processes it speaks of.
///
/// Only this reaps them, so a process id on the roster cannot have passed to another process.
/// If the master leaves early, by an error or by a panic in a hook, its workers are killed.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) roster: Roster,
}

impl Crew {
    /// Sends a signal to every worker that is not yet reaped.
    pub(crate) fn signal(&self, signal: Signal) {
        for (_, pid) in self.roster.running() {
            // A worker that has died and waits to be reaped is signalled without effect.
            let _ = kill_process(pid, signal);
        }
    }

    /// Takes one dead worker off the roster. None: no other is dead.
    ///
    /// Asks for each worker by its id, one `waitpid` each, and so leaves the application's other
    /// children alone.
    pub(crate) fn reap(&mut self, now: Instant) -> Option<WorkerExit> {
        let dead = |(index, pid)| Some((index, pid, death(pid, WaitOptions::NOHANG)?));
        let (index, pid, status) = self.roster.running().find_map(dead)?;
        self.roster.ended(index, status, now);
        Some(WorkerExit {
            index,
            pid: pid.as_raw_nonzero().unsigned_abs(),
            status,
        })
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        for (_, pid) in self.roster.running() {
            death(pid, WaitOptions::empty());
        }
    }
}

/// How the worker ended, if it has: the inner None where somebody else has waited for it.
fn death(pid: Pid, options: WaitOptions) -> Option<Option<ExitStatus>> {
    loop {
        match waitpid(Some(pid), options) {
            Ok(None) => return None,
            Ok(Some((_, status))) => return Some(Some(ExitStatus::from_raw(status.as_raw()))),
            Err(Errno::INTR) => {}
            Err(_) => return Some(None),
        }
    }
}
