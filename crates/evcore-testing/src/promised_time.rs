//! Promises with a time: when a test fails, and when it may try again.

use std::time::{Duration, Instant};

use crate::not_run;

/// What a test adds to each time that is promised, such as the delay after which another worker accepts.
///
/// It is for what no promise includes: the turn under way, the start of a process in place of a dead
/// one, and a machine that runs other programs meanwhile. The same slice is added everywhere. It is
/// far below the minute of [`PATIENCE`](crate::PATIENCE), because a promise that is broken by a minute
/// must not pass for kept.
pub const SLICE: Duration = Duration::from_secs(5);

/// The time after which a promise is broken: the promised time and [`SLICE`].
#[must_use]
pub const fn within(promised: Duration) -> Duration {
    promised.saturating_add(SLICE)
}

/// Asserts that a promise was kept, by now.
///
/// # Panics
///
/// If more than the promised time and [`SLICE`] have passed `since`.
#[track_caller]
pub fn assert_within(what: &str, promised: Duration, since: Instant) {
    let took = since.elapsed();
    let most = within(promised);
    assert!(took <= most, "{what}: after {took:?}, of {most:?} at most");
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
pub fn in_time(limit: Duration, attempt: impl Fn() -> (Duration, Result<(), String>)) {
    for nth in 1..=ATTEMPTS_MAX {
        let (took, result) = attempt();
        if took <= limit {
            return result.unwrap_or_else(|failure| panic!("{failure}"));
        }
        not_run(&format!(
            "attempt {nth} took {took:?}, of {limit:?} at most"
        ));
    }
    panic!("{ATTEMPTS_MAX} attempts took more than {limit:?} each");
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    #[test]
    fn a_late_attempt_is_repeated_whatever_its_result() {
        let attempts = Cell::new(0);
        in_time(LIMIT, || {
            attempts.set(attempts.get() + 1);
            match attempts.get() {
                1 => (2 * LIMIT, Err("late".to_owned())),
                2 => (2 * LIMIT, Ok(())),
                _ => (LIMIT, Ok(())),
            }
        });
        assert_eq!(attempts.get(), 3);
    }

    #[test]
    #[should_panic(expected = "broken")]
    fn a_failure_in_time_is_not_repeated() {
        in_time(LIMIT, || (LIMIT, Err("broken".to_owned())));
    }

    #[test]
    #[should_panic(expected = "20 attempts")]
    fn attempts_are_counted() {
        in_time(LIMIT, || (2 * LIMIT, Ok(())));
    }

    #[test]
    #[should_panic(expected = "accepts: after")]
    fn a_promise_is_broken_after_its_time_and_the_slice() {
        let Some(long_ago) = Instant::now().checked_sub(within(LIMIT)) else {
            panic!("accepts: after all, the machine has just started");
        };
        assert_within("it accepts", LIMIT, long_ago);
    }
}
