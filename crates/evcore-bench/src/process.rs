//! Other processes: their state and CPU time in `/proc`, and signals to them.
//!
//! A process may end at any time, so a process that is gone has no children and has used nothing.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Nanoseconds in a clock tick of `/proc`, of which Linux has 100 a second for programs.
const TICK_NS: u64 = 10_000_000;

/// The children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let list = read(pid, &format!("task/{pid}/children"));
    let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.collect()
}

/// Whether it sleeps, is stopped or is gone. strace stops it before and after each call: `t`.
pub(crate) fn is_asleep(pid: u32) -> bool {
    !status(pid, "State:").starts_with(['R', 'D', 't'])
}

/// How often it has gone to sleep: as often as it was woken, and once more while it sleeps.
///
/// A wait that finds something at once does not count. It costs the process nothing, unlike strace.
pub(crate) fn sleeps(pid: u32) -> u64 {
    let sleeps = status(pid, "voluntary_ctxt_switches:");
    sleeps.parse().unwrap_or(0)
}

/// How long it exists.
pub(crate) fn age(pid: u32) -> Duration {
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let uptime = uptime.split(' ').next().and_then(|it| it.parse().ok());
    let uptime = Duration::from_secs_f64(uptime.unwrap_or(0.0));
    uptime.saturating_sub(Duration::from_nanos(stat(pid, 22) * TICK_NS))
}

/// Nanoseconds of CPU time that it has used, all threads together: the user's, and all.
///
/// The user's is sampled. All is the scheduler's own count, which is exact.
pub(crate) fn cpu_ns(pid: u32) -> [u64; 2] {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let ns = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    [stat(pid, 14) * TICK_NS, ns.sum()]
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

/// What follows a name at the beginning of a line of `status`.
fn status(pid: u32, name: &str) -> String {
    let status = read(pid, "status");
    let mut values = status.lines().filter_map(|line| line.strip_prefix(name));
    values.next().unwrap_or_default().trim().to_owned()
}

/// A number of `stat`, counted from 1. The second field is the program's name in brackets, which may
/// contain anything.
fn stat(pid: u32, field: usize) -> u64 {
    let stat = read(pid, "stat");
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let value = fields.split(' ').nth(field - 3);
    value.and_then(|it| it.parse().ok()).unwrap_or(0)
}
