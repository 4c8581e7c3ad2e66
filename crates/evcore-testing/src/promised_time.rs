//! Checks that an event came within a promised time. A busy machine gets more time.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crate::not_run;

/// The time that [`assert_within`] adds to a promised time, for example to the delay after which
/// another worker accepts.
///
/// It covers delays that no promise includes, such as the rest of the event loop's present
/// iteration. On a busy machine everything takes longer, so the sum is multiplied by 1 plus the
/// number of runnable threads per processor. The result exceeds the promised time by at most
/// [`SLICES_MAX`].
pub const SLICE: Duration = Duration::from_millis(250);

/// The maximum that is added to a promised time. It is far below [`PATIENCE`](crate::PATIENCE), so
/// that a test fails if the promised event is a minute late.
pub const SLICES_MAX: Duration = Duration::from_secs(5);

fn longest(promised: Duration, threads_per_processor: Option<f64>) -> Duration {
    let most = promised + SLICES_MAX;
    let busy = threads_per_processor.map(|threads| (promised + SLICE).mul_f64(1.0 + threads));
    busy.map_or(most, |busy| busy.min(most))
}

/// Returns whether more than two threads per processor want to run, or their number is unknown. On
/// such a machine, a test of an idle server cannot succeed.
#[must_use]
pub fn is_busy() -> bool {
    threads_per_processor().is_none_or(|threads| threads > 2.0)
}

/// The number of threads per processor that run or could run: now, or the average of the last
/// minute, whichever is more. `None` without Linux's `/proc/loadavg`.
fn threads_per_processor() -> Option<f64> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let mut words = load.split_whitespace();
    let average: f64 = words.next()?.parse().ok()?;
    let now: f64 = words.nth(2)?.split_once('/')?.0.parse().ok()?;
    let processors = thread::available_parallelism().ok()?.get();
    Some(average.max(now) / processors as f64)
}

/// Asserts that an event that has just happened came within the `promised` time after `since`.
///
/// # Panics
///
/// If it came later than the longest time that [`SLICE`] describes.
#[track_caller]
pub fn assert_within(what: &str, promised: Duration, since: Instant) {
    let took = since.elapsed();
    if took > promised + SLICE {
        let most = longest(promised, threads_per_processor());
        assert!(took <= most, "{what}: took {took:?}; the limit is {most:?}");
    }
}

const ATTEMPTS_MAX: u32 = 20;

/// Makes attempts until one takes at most `limit`, and fails if that attempt failed. Use it if an
/// attempt must act in time, for example send a request before the server closes the connection.
///
/// `attempt` returns the time that it took, and its result. An attempt that took longer than
/// `limit` is repeated, and listed in the summary of `cargo xtask test`.
///
/// # Panics
///
/// With the failure of the attempt that was in time, or after 20 late attempts.
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
            "attempt {nth} took {took:?}; the limit is {limit:?}"
        ));
    }
    panic!("{ATTEMPTS_MAX} attempts took more than {limit:?} each");
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

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
            |line| listed.push(line.to_owned()),
        );
        let line = |nth| format!("attempt {nth} took 1.5s; the limit is 1s");
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
    fn a_promise_is_broken_after_its_time_and_the_slices() {
        let is_kept = |promised: Duration| {
            let long_ago = Instant::now().checked_sub(LIMIT + SLICES_MAX);
            let long_ago = long_ago.expect("the machine has run for some seconds");
            std::panic::catch_unwind(|| assert_within("it accepts", promised, long_ago)).is_ok()
        };
        assert!(!is_kept(LIMIT));
        assert!(is_kept(60 * LIMIT));
    }

    #[test]
    fn a_busy_machine_gets_more_time_up_to_a_limit() {
        assert_eq!(longest(LIMIT, Some(0.0)), LIMIT + SLICE);
        assert_eq!(longest(LIMIT, Some(3.0)), 4 * (LIMIT + SLICE));
        assert_eq!(longest(LIMIT, Some(1000.0)), LIMIT + SLICES_MAX);
        assert_eq!(longest(LIMIT, None), LIMIT + SLICES_MAX);
        if cfg!(target_os = "linux") {
            assert!(threads_per_processor().is_some_and(|threads| threads > 0.0));
        }
    }
}
