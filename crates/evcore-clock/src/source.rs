//! Where a clock has the time from: the one file that asks the operating system.
//!
//! A source only answers.
//! That monotonic time never goes back, and what is kept between two questions, is the clock's
//! affair.

use std::fmt;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::zone::Zone;

/// Something that knows the time.
///
/// The system does ([`SystemTimeSource`]), and so does whoever plays its part in a test
/// ([`ManualTimeSource`](crate::ManualTimeSource)).
/// `Send`, so that a clock can be made in one thread and used in another.
///
/// ```
/// use evcore_clock::{Clock, Reading, TimeSource};
///
/// /// For ever the first second of 2026.
/// struct NewYear;
///
/// impl TimeSource for NewYear {
///     fn read(&self) -> Reading {
///         Reading { monotonic_ns: 0, unix_seconds: 1_767_225_600, subsecond_ns: 0 }
///     }
/// }
///
/// let clock = Clock::with_source(NewYear);
/// assert_eq!(clock.iso8601().as_str(), "2026-01-01T00:00:00+00:00");
/// ```
pub trait TimeSource: Send {
    /// Reads the monotonic and the wall clock.
    ///
    /// A clock asks once an update.
    fn read(&self) -> Reading;

    /// Reads the monotonic clock alone, for whoever measures how long something takes.
    ///
    /// Unless overridden, this is a [reading](Self::read) of both; a source that can read one at
    /// less cost should.
    fn monotonic_ns(&self) -> u64 {
        self.read().monotonic_ns
    }

    /// How far local time was, is or will be ahead of UTC at an instant, in seconds east.
    ///
    /// A clock asks at most once a second, and not at all while nobody reads a local time.
    /// Unless overridden, the answer is 0: UTC.
    fn offset_at(&self, unix_seconds: i64) -> i32 {
        let _ = unix_seconds;
        0
    }
}

/// What both clocks said, one right after the other.
///
/// ```
/// use evcore_clock::{TimeSource, SystemTimeSource};
///
/// let source = SystemTimeSource::utc();
/// let (first, second) = (source.read(), source.read());
/// assert!(first.monotonic_ns <= second.monotonic_ns);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Monotonic time: nanoseconds since some fixed moment, which may be any.
    pub monotonic_ns: u64,
    /// Wall time: whole seconds since 1970-01-01T00:00:00 UTC, rounded down.
    pub unix_seconds: i64,
    /// Wall time: the nanoseconds since that second, below 1,000,000,000.
    pub subsecond_ns: u32,
}

/// The clocks of the operating system, and its time zone.
///
/// A reading is two calls of `clock_gettime`: `CLOCK_MONOTONIC`, which counts from the boot on
/// Linux, and `CLOCK_REALTIME`.
/// Neither is a system call where the kernel offers them through the vDSO and the machine's counter
/// is good enough, which is the rule.
///
/// ```
/// use evcore_clock::{Clock, SystemTimeSource};
///
/// // Logs in UTC, whatever the zone of the machine.
/// let clock = Clock::with_source(SystemTimeSource::utc());
/// assert!(clock.iso8601().ends_with("+00:00"));
/// ```
#[derive(Clone)]
pub struct SystemTimeSource {
    zone: Zone,
}

impl SystemTimeSource {
    /// A source whose local time is that of the machine.
    ///
    /// The zone is looked up here, once: in `TZ`, else in `/etc/localtime`, which may read files.
    /// It is UTC where neither is readable, and always without the feature `local-time`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            zone: Zone::local(),
        }
    }

    /// A source whose local time is UTC. Reads no file.
    #[must_use]
    pub fn utc() -> Self {
        Self { zone: Zone::utc() }
    }
}

impl TimeSource for SystemTimeSource {
    fn read(&self) -> Reading {
        let monotonic = clock_gettime(ClockId::Monotonic);
        let wall = clock_gettime(ClockId::Realtime);
        Reading {
            monotonic_ns: nanoseconds(monotonic),
            unix_seconds: wall.tv_sec,
            subsecond_ns: subsecond_ns(wall),
        }
    }

    fn monotonic_ns(&self) -> u64 {
        nanoseconds(clock_gettime(ClockId::Monotonic))
    }

    fn offset_at(&self, unix_seconds: i64) -> i32 {
        self.zone.offset_at(unix_seconds)
    }
}

impl Default for SystemTimeSource {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SystemTimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemTimeSource").finish_non_exhaustive()
    }
}

/// A monotonic time as one number, which is enough for 584 years.
fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).expect("monotonic time is not negative");
    seconds * 1_000_000_000 + u64::from(subsecond_ns(time))
}

fn subsecond_ns(time: Timespec) -> u32 {
    // The field's type differs from one system to another, its range does not.
    u32::try_from(time.tv_nsec).expect("the kernel keeps nanoseconds below a second")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn wall_time_is_that_of_the_standard_library() {
        let source = SystemTimeSource::utc();
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let reading = source.read();
        let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seconds = u64::try_from(reading.unix_seconds).unwrap();
        let read = Duration::new(seconds, reading.subsecond_ns);
        // Holds unless the wall clock is set back right here, which fails the bounds, not the code.
        assert!(
            before <= read && read <= after,
            "{before:?} {read:?} {after:?}"
        );
    }

    #[test]
    fn monotonic_time_does_not_go_back() {
        let source = SystemTimeSource::utc();
        let mut last = source.read().monotonic_ns;
        for _ in 0..10_000 {
            let now = source.read().monotonic_ns;
            assert!(last <= now);
            last = now;
        }
    }

    #[test]
    fn the_monotonic_clock_alone_is_the_one_that_a_reading_has() {
        let source = SystemTimeSource::utc();
        let before = source.read().monotonic_ns;
        let between = source.monotonic_ns();
        let after = source.read().monotonic_ns;
        assert!(before <= between && between <= after);
    }

    #[test]
    fn nanoseconds_count_on_after_32_bits_of_them() {
        let time = Timespec {
            tv_sec: 5,
            tv_nsec: 999_999_999,
        };
        assert_eq!(nanoseconds(time), 5_999_999_999);
    }
}
