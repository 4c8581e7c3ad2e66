//! Waits that are longer than one call accepts.

use std::time::Duration;

/// The longest wait in milliseconds that fits into a C `int`: 24 days.
pub(super) const LONGEST_IN_MS: Duration = Duration::from_millis(i32::MAX as u64);

/// Waits in calls of at most `longest`, so that a timeout that is too long for one call causes
/// neither an error nor an early end. `None` waits without limit.
///
/// `wait` returns how many descriptors are ready. Its first error or first number above 0 ends the
/// wait.
pub(super) fn chunked_wait<E>(
    timeout: Option<Duration>,
    longest: Duration,
    mut wait: impl FnMut(Option<Duration>) -> Result<usize, E>,
) -> Result<usize, E> {
    let mut left = timeout;
    loop {
        let ready = wait(left.map(|left| left.min(longest)))?;
        match left {
            Some(whole) if ready == 0 && whole > longest => left = Some(whole - longest),
            _ => return Ok(ready),
        }
    }
}

/// Converts `timeout` to milliseconds, rounded up so that no wait ends early, and limited to
/// [`LONGEST_IN_MS`]. `None` becomes -1, which waits without limit.
// Linux, Android and FreeBSD have `ppoll`, and need no milliseconds.
#[cfg(any(
    test,
    not(any(target_os = "linux", target_os = "android", target_os = "freebsd"))
))]
pub(super) fn in_ms(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |timeout| {
        // Computed in 64 bits, because a division of 128 bits is a function call.
        let ms = timeout.subsec_nanos().div_ceil(1_000_000);
        let ms = timeout
            .as_secs()
            .saturating_mul(1000)
            .saturating_add(ms.into());
        i32::try_from(ms).unwrap_or(i32::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_rounded_up_and_never_to_zero() {
        assert_eq!(in_ms(None), -1);
        let nanoseconds = [0, 1, 999_999, 1_000_000, 1_000_001, 1_999_000_001];
        let in_ms_of = |ns| in_ms(Some(Duration::from_nanos(ns)));
        assert_eq!(nanoseconds.map(in_ms_of), [0, 1, 1, 1, 2, 2000]);
        assert_eq!(in_ms(Some(LONGEST_IN_MS)), i32::MAX);
        assert_eq!(in_ms(Some(Duration::MAX)), i32::MAX);
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// The timeout of each call, if nothing is ready before call number `ready_at`.
    fn calls(timeout: Option<Duration>, ready_at: usize) -> Vec<Option<Duration>> {
        let mut calls = Vec::new();
        let ready = chunked_wait(timeout, SECOND, |chunk| {
            calls.push(chunk);
            Ok::<_, ()>(usize::from(calls.len() == ready_at))
        });
        assert_eq!(ready, Ok(usize::from(calls.len() == ready_at)));
        calls
    }

    #[test]
    fn a_timeout_that_fits_is_one_call() {
        assert_eq!(calls(None, 1), [None]);
        assert_eq!(calls(Some(Duration::ZERO), 0), [Some(Duration::ZERO)]);
        assert_eq!(calls(Some(SECOND), 0), [Some(SECOND)]);
    }

    #[test]
    fn a_longer_timeout_is_waited_to_its_end() {
        let timeout = SECOND * 2 + Duration::from_nanos(1);
        let chunks = [SECOND, SECOND, Duration::from_nanos(1)];
        assert_eq!(calls(Some(timeout), 0), chunks.map(Some));
    }

    #[test]
    fn readiness_ends_a_chunked_wait() {
        assert_eq!(calls(Some(Duration::MAX), 3), [Some(SECOND); 3]);
    }

    #[test]
    fn an_error_ends_a_chunked_wait() {
        let result = chunked_wait(Some(Duration::MAX), SECOND, |_| Err("interrupted"));
        assert_eq!(result, Err("interrupted"));
    }
}
