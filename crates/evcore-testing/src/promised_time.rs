//! Promises with a time: when a test fails, and when it may try again.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::not_run;

/// What a test adds to each time that is promised, such as the delay after which another worker accepts.
///
/// It is for what no promise includes: the turn under way, and the start of a process in place of a dead
/// one. The same slice is added everywhere. Time in which some process of the machine waited for a
/// processor does not count (Linux's pressure stall information). Without that time, no promise of
/// `tests/prefork` and `tests/faults` was exceeded by more than 10 ms, at a load of 12 on two cores.
pub const SLICE: Duration = Duration::from_millis(250);

/// What a test adds at most, on the busiest machine. It is far below the minute of
/// [`PATIENCE`](crate::PATIENCE), because a promise that is broken by a minute must not pass for kept.
pub const BUSY_SLICE: Duration = Duration::from_secs(5);

/// The time after which a promise is broken on any machine: the promised time and [`BUSY_SLICE`].
#[must_use]
pub const fn within(promised: Duration) -> Duration {
    promised.saturating_add(BUSY_SLICE)
}

/// A moment, from which the time of a promise counts.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    at: Instant,
    contended: Option<Duration>,
}

impl Moment {
    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        Self {
            at: Instant::now(),
            contended: contended(),
        }
    }

    /// Whether a promise from this moment on is broken by now: [`within`] its time and [`BUSY_SLICE`]
    /// have passed, or more than its time and [`SLICE`] in which no process waited for a processor.
    ///
    /// # Errors
    ///
    /// It is broken. The text has both times.
    pub fn kept(&self, promised: Duration) -> Result<(), String> {
        let took = self.at.elapsed();
        if took <= promised {
            return Ok(());
        }
        let busy = match (self.contended, contended()) {
            (Some(then), Some(now)) => now.saturating_sub(then),
            // The kernel does not count it: any process may have waited all the time.
            _ => took,
        };
        kept(promised, took, busy)
    }
}

fn kept(promised: Duration, took: Duration, busy: Duration) -> Result<(), String> {
    let at_rest = took.saturating_sub(busy);
    if took <= within(promised) && at_rest <= promised.saturating_add(SLICE) {
        return Ok(());
    }
    Err(format!(
        "after {took:?}, {at_rest:?} of it on a machine at rest; {promised:?} was promised"
    ))
}

/// How long some process of this machine has waited for a processor, since the machine has started.
/// `None` if the kernel does not count it.
fn contended() -> Option<Duration> {
    let pressure = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    let total = some.rsplit_once("total=")?.1.parse().ok()?;
    Some(Duration::from_micros(total))
}

/// Asserts that a promise was kept, by now.
///
/// # Panics
///
/// If it was not [kept](Moment::kept).
#[track_caller]
pub fn assert_within(what: &str, promised: Duration, since: Moment) {
    if let Err(late) = since.kept(promised) {
        panic!("{what}: {late}");
    }
}

/// How often an attempt is repeated at most.
const ATTEMPTS_MAX: u32 = 20;

/// Makes an attempt that shows something only if it takes at most `limit`, such as the use of a second
/// that a server grants.
///
/// This is the one rule by which a test tries again. An attempt returns how long it took, and its
/// result. If it was in time, the result counts, and there is no other attempt. If it was late, the
/// result does not count: the attempt is listed in the summary of `cargo xtask test`, and repeated.
///
/// # Panics
///
/// With the failure of the attempt that was in time, or after 20 late ones.
#[track_caller]
pub fn in_time(limit: Duration, attempt: impl FnMut() -> (Duration, Result<(), String>)) {
    attempts(limit, attempt, not_run);
}

#[track_caller]
fn attempts(
    limit: Duration,
    mut attempt: impl FnMut() -> (Duration, Result<(), String>),
    mut report_late: impl FnMut(&str),
) {
    for nth in 1..=ATTEMPTS_MAX {
        let (took, result) = attempt();
        if took <= limit {
            return result.unwrap_or_else(|failure| panic!("{failure}"));
        }
        report_late(&format!(
            "attempt {nth} took {took:?}, of {limit:?} at most"
        ));
    }
    panic!("{ATTEMPTS_MAX} attempts took more than {limit:?} each");
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);
    const TICK: Duration = Duration::from_millis(1);

    #[test]
    fn a_late_attempt_is_listed_and_repeated_whatever_its_result() {
        let late = Duration::from_millis(1500);
        let results = [
            (late, Err("late".to_owned())),
            (late, Ok(())),
            (LIMIT, Ok(())),
        ];
        let (mut results, mut listed) = (results.into_iter(), Vec::new());
        attempts(
            LIMIT,
            || results.next().expect("the third is in time"),
            |it| listed.push(it.to_owned()),
        );
        let line = |nth| format!("attempt {nth} took 1.5s, of 1s at most");
        assert_eq!(listed, [line(1), line(2)]);
        assert_eq!(results.next(), None);
    }

    #[test]
    #[should_panic(expected = "broken")]
    fn a_failure_in_time_is_not_repeated() {
        in_time(LIMIT, || (LIMIT, Err("broken".to_owned())));
    }

    #[test]
    #[should_panic(expected = "20 attempts")]
    fn no_attempt_is_repeated_for_ever() {
        attempts(LIMIT, || (2 * LIMIT, Ok(())), |_| {});
    }

    #[test]
    fn a_promise_is_broken_after_its_time_and_a_slice_at_rest() {
        let kept = |took, busy| kept(LIMIT, took, busy).is_ok();
        assert!(kept(LIMIT + SLICE, Duration::ZERO));
        assert!(!kept(LIMIT + SLICE + TICK, Duration::ZERO));
        // What the machine did meanwhile does not count, up to a limit.
        assert!(kept(LIMIT + BUSY_SLICE, BUSY_SLICE));
        assert!(!kept(LIMIT + BUSY_SLICE, BUSY_SLICE - SLICE - TICK));
        assert!(!kept(LIMIT + BUSY_SLICE + TICK, LIMIT + BUSY_SLICE));
    }

    #[test]
    fn a_moment_counts_until_it_is_asked() {
        let mut long_ago = Moment::now();
        long_ago.at = long_ago.at.checked_sub(within(LIMIT)).expect("it has run");
        assert!(long_ago.kept(LIMIT).is_err());
        assert_eq!(Moment::now().kept(LIMIT), Ok(()));
    }
}
