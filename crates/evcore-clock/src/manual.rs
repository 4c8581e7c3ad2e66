//! A time that stands still until it is moved, for tests and simulations.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::time_source::{TimeSource, WallTime};

/// A source of time that a test moves by hand.
///
/// Clones share one time, so a test keeps one and gives another to the clock. They may be used on
/// different threads.
///
/// ```
/// use std::time::Duration;
/// use evcore_clock::{Clock, ManualTimeSource};
///
/// let time = ManualTimeSource::at(23_349_600);
/// let mut clock = Clock::with_source(time.clone());
/// assert_eq!(clock.error_log_time().as_str(), "1970/09/28 06:00:00");
///
/// time.set_offset(6 * 3_600);
/// time.advance(Duration::from_secs(90));
/// clock.update();
/// assert_eq!(clock.monotonic_ms(), 90_000);
/// assert_eq!(clock.error_log_time().as_str(), "1970/09/28 12:01:30");
///
/// time.jump_wall(-60);
/// clock.update();
/// assert_eq!(clock.monotonic_ms(), 90_000);
/// assert_eq!(clock.error_log_time().as_str(), "1970/09/28 12:00:30");
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualTimeSource {
    // The state is under a lock, so that a simulator can run its workers in threads.
    state: Arc<Mutex<State>>,
}

impl ManualTimeSource {
    /// Creates a source at monotonic 0 and 1970-01-01T00:00:00, with local time equal to UTC.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a source at monotonic 0 and `unix_seconds`, with local time equal to UTC.
    #[must_use]
    pub fn at(unix_seconds: i64) -> Self {
        let source = Self::new();
        source.jump_wall(unix_seconds);
        source
    }

    /// Moves both clocks forward by `duration`.
    ///
    /// Monotonic time, and the seconds of the wall clock, stop at the end of their range.
    pub fn advance(&self, duration: Duration) {
        let mut state = self.state();
        let passed_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let subsecond_ns = state.wall.subsecond_ns + duration.subsec_nanos();
        let carried = i64::from(subsecond_ns / 1_000_000_000);
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);

        state.monotonic_ns = state.monotonic_ns.saturating_add(passed_ns);
        state.wall.unix_seconds = state
            .wall
            .unix_seconds
            .saturating_add(seconds)
            .saturating_add(carried);
        state.wall.subsecond_ns = subsecond_ns % 1_000_000_000;
    }

    /// Sets the wall clock forward, or back if `seconds` is negative. Monotonic time is unchanged.
    pub fn jump_wall(&self, seconds: i64) {
        let mut state = self.state();
        state.wall.unix_seconds = state.wall.unix_seconds.saturating_add(seconds);
    }

    /// Sets the offset of local time from UTC, in seconds east, for every instant.
    ///
    /// A clock that has already looked up the offset in this second uses the new one from the next
    /// second on.
    pub fn set_offset(&self, seconds: i32) {
        self.state().offset = seconds;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in another thread cannot leave a partial change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TimeSource for ManualTimeSource {
    fn monotonic_ns(&self) -> u64 {
        self.state().monotonic_ns
    }

    fn wall_time(&self) -> WallTime {
        self.state().wall
    }

    fn offset_at(&self, _unix_seconds: i64) -> i32 {
        self.state().offset
    }
}

#[derive(Debug, Default)]
struct State {
    monotonic_ns: u64,
    wall: WallTime,
    offset: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(time: &ManualTimeSource) -> (u64, WallTime) {
        (time.monotonic_ns(), time.wall_time())
    }

    #[test]
    fn time_stands_still_until_it_is_moved() {
        let time = ManualTimeSource::at(7);
        assert_eq!(read(&time), read(&time));
        assert_eq!(time.wall_time().unix_seconds, 7);
    }

    #[test]
    fn advancing_carries_into_the_next_second() {
        let time = ManualTimeSource::at(7);
        time.advance(Duration::from_millis(1_600));
        time.advance(Duration::from_millis(600));
        let wall = WallTime {
            unix_seconds: 9,
            subsecond_ns: 200_000_000,
        };
        assert_eq!(read(&time), (2_200_000_000, wall));
    }

    #[test]
    fn a_wall_jump_leaves_monotonic_time_unchanged() {
        let time = ManualTimeSource::at(7);
        time.advance(Duration::from_nanos(1));
        time.jump_wall(-9);
        let wall = WallTime {
            unix_seconds: -2,
            subsecond_ns: 1,
        };
        assert_eq!(read(&time), (1, wall));
    }

    #[test]
    fn clones_share_one_time_across_threads() {
        let time = ManualTimeSource::new();
        let other = time.clone();
        std::thread::spawn(move || other.advance(Duration::from_secs(5)))
            .join()
            .unwrap();
        assert_eq!(time.wall_time().unix_seconds, 5);
    }

    #[test]
    fn both_clocks_stop_at_the_end_of_their_range() {
        let time = ManualTimeSource::at(i64::MAX);
        time.advance(Duration::MAX);
        time.advance(Duration::MAX);
        time.jump_wall(1);
        assert_eq!(time.monotonic_ns(), u64::MAX);
        assert_eq!(time.wall_time().unix_seconds, i64::MAX);
    }
}
