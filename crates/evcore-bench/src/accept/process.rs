//! Other processes: their state in `/proc`, and signals to them.
//!
//! A process may end at any time, so a process that is gone has no children and has never slept.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let list = read(pid, &format!("task/{pid}/children"));
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// Whether it sleeps, or is gone.
pub(crate) fn is_asleep(pid: u32) -> bool {
    let status = read(pid, "status");
    let state = value(&status, "State:");
    !state.is_some_and(|state| state.starts_with('R') || state.starts_with('D'))
}

/// Whether it waits in a system call, also under strace, which stops it before and after each.
pub(crate) fn waits(pid: u32) -> bool {
    let status = read(pid, "status");
    value(&status, "State:").is_some_and(|state| state.starts_with('S'))
}

/// How often it has gone to sleep: as often as it was woken, and once more while it sleeps.
///
/// A wait that finds something at once does not count. It costs the process nothing, unlike strace.
pub(crate) fn sleeps(pid: u32) -> u64 {
    let status = read(pid, "status");
    let sleeps = value(&status, "voluntary_ctxt_switches:");
    sleeps.and_then(|sleeps| sleeps.parse().ok()).unwrap_or(0)
}

/// Sends a signal, if the process still exists.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

fn read(pid: u32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
}

/// What stands behind a name at the beginning of a line.
fn value<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut values = status.lines().filter_map(|line| line.strip_prefix(name));
    values.next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_has_used_time() {
        let me = std::process::id();
        // Of the thread that was first, which is not the one of the test.
        assert!(sleeps(me) > 0);
        assert!(children(me).is_empty() || children(me)[0] > 0);
        assert_eq!(
            value("State:\tS (sleeping)\n", "State:"),
            Some("S (sleeping)")
        );
    }

    #[test]
    fn a_process_that_is_gone_has_nothing() {
        let gone = u32::MAX;
        assert!(is_asleep(gone) && children(gone).is_empty());
        assert_eq!(sleeps(gone), 0);
        signal(gone, Signal::KILL);
    }
}
