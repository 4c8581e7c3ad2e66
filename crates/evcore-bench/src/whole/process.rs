//! The CPU time of a process, from `/proc`.

use std::fs;
use std::ops::Sub;

/// Nanoseconds in a clock tick of `/proc`, of which Linux has 100 a second for programs.
const TICK_NS: u64 = 10_000_000;

/// What a process has used so far, all threads together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    pub(super) user_ns: u64,
    /// User and system time.
    pub(super) all_ns: u64,
}

impl Cpu {
    /// Zero if there is no such process.
    pub(super) fn of(pid: u32) -> Cpu {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        Cpu {
            user_ns: user_ticks(&stat).unwrap_or(0) * TICK_NS,
            all_ns: scheduled_ns(pid),
        }
    }
}

impl Sub for Cpu {
    type Output = Cpu;

    fn sub(self, before: Cpu) -> Cpu {
        Cpu {
            user_ns: self.user_ns - before.user_ns,
            all_ns: self.all_ns - before.all_ns,
        }
    }
}

/// The 14th field. The second is the program's name in brackets, which may contain anything.
fn user_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(11)?.parse().ok()
}

/// The scheduler's own count, which is exact, unlike the ticks.
fn scheduled_ns(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let ns = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    ns.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_time_is_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 99 0 0 0 123 45 0 0 20 0 1 0 5\n";
        assert_eq!(user_ticks(stat), Some(123));
        assert_eq!(user_ticks(""), None);
    }

    #[test]
    fn this_process_has_used_time_and_one_that_is_gone_has_none() {
        assert!(Cpu::of(std::process::id()).all_ns > 0);
        assert_eq!(Cpu::of(u32::MAX).all_ns, 0);
    }
}
