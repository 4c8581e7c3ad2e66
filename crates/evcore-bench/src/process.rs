//! Other processes: their state and CPU time in `/proc`, and signals to them.
//!
//! A process may end at any time. A process that cannot be read counts as asleep, without children
//! and without CPU time.

use std::time::Duration;

use procfs::process::{Process, Stat};
use procfs::{Current, ProcResult, Uptime};
use rustix::process::{Pid, Signal, kill_process};

/// Nanoseconds in a clock tick of `/proc`. Linux reports 100 ticks a second to programs.
const TICK_NS: u64 = 10_000_000;

pub(crate) fn children(pid: u32) -> Vec<u32> {
    let children = of(pid).and_then(|process| process.task_main_thread()?.children());
    children.unwrap_or_default()
}

/// Returns whether the process sleeps, is stopped by a signal, or is gone. A process that strace
/// has stopped at a system call (`t`) counts as awake.
pub(crate) fn is_asleep(pid: u32) -> bool {
    stat(pid).map_or(true, |stat| !['R', 'D', 't'].contains(&stat.state))
}

/// Number of times that the process has gone to sleep: the number of its wakes, plus one while it
/// sleeps.
///
/// A wait that finds an event at once does not count. Unlike strace, this costs the process
/// nothing.
pub(crate) fn sleeps(pid: u32) -> u64 {
    let status = of(pid).and_then(|process| process.status()).ok();
    let switches = status.and_then(|status| status.voluntary_ctxt_switches);
    switches.unwrap_or(0)
}

pub(crate) fn age(pid: u32) -> Duration {
    let began = stat(pid).map_or(0, |stat| stat.starttime);
    let now = Uptime::current().map_or(Duration::ZERO, |uptime| uptime.uptime_duration());
    now.saturating_sub(Duration::from_nanos(began * TICK_NS))
}

/// Nanoseconds of CPU time that all threads of a process have used: in user mode, and in total.
///
/// User time is sampled. The total is the scheduler's own count, which is exact.
pub(crate) fn cpu_ns(pid: u32) -> [u64; 2] {
    let user = stat(pid).map_or(0, |stat| stat.utime);
    let threads = of(pid)
        .and_then(|process| process.tasks())
        .into_iter()
        .flatten();
    let ns = threads.filter_map(|thread| Some(thread.ok()?.schedstat().ok()?.sum_exec_runtime));
    [user * TICK_NS, ns.sum()]
}

/// Sends a signal, if the process still exists.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let _ = pid.map(|pid| kill_process(pid, signal));
}

fn stat(pid: u32) -> ProcResult<Stat> {
    of(pid)?.stat()
}

fn of(pid: u32) -> ProcResult<Process> {
    Process::new(pid.try_into().expect("a process id"))
}
