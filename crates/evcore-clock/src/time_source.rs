//! The source of a clock's time. This is the only file that reads the time of the operating system.

use std::fmt;
use std::time::Instant;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::zone::Zone;

/// A source of time for a clock.
///
/// [`SystemTimeSource`] reads the operating system; [`ManualTimeSource`](crate::ManualTimeSource)
/// is for tests. A source is `Send`, so that a clock can be created on one thread and used on
/// another.
///
/// ```
/// use evcore_clock::{Clock, TimeSource, WallTime};
///
/// /// Always the first second of 2026.
/// struct NewYear;
///
/// impl TimeSource for NewYear {
///     fn monotonic_ns(&self) -> u64 {
///         0
///     }
///     fn wall_time(&self) -> WallTime {
///         WallTime { unix_seconds: 1_767_225_600, subsecond_ns: 0 }
///     }
/// }
///
/// let clock = Clock::with_source(NewYear);
/// assert_eq!(clock.iso8601().as_str(), "2026-01-01T00:00:00+00:00");
/// ```
pub trait TimeSource: Send {
    /// Reads the monotonic clock: nanoseconds since an arbitrary fixed moment.
    ///
    /// A clock calls it once per update, and in methods that need the present time, such as
    /// [`Clock::monotonic_ns_now`](crate::Clock::monotonic_ns_now).
    fn monotonic_ns(&self) -> u64;

    /// Reads the wall clock.
    ///
    /// A [`Clock`](crate::Clock) calls it at most once per update, when wall time is first read.
    fn wall_time(&self) -> WallTime;

    /// The offset of local time from UTC at an instant, in seconds east.
    ///
    /// A [`Clock`](crate::Clock) calls it at most once per second, and only if a local time or the
    /// offset is read. A [`SharedClock`](crate::SharedClock) calls it in the first update of a
    /// second. By default it returns 0, which is UTC.
    fn offset_at(&self, unix_seconds: i64) -> i32 {
        let _ = unix_seconds;
        0
    }
}

/// A time of the wall clock.
///
/// ```
/// use evcore_clock::{SystemTimeSource, TimeSource, WallTime};
///
/// let WallTime { unix_seconds, subsecond_ns } = SystemTimeSource::utc().wall_time();
/// assert!(unix_seconds > 0 && subsecond_ns < 1_000_000_000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallTime {
    /// Whole seconds since 1970-01-01T00:00:00 UTC, rounded down.
    pub unix_seconds: i64,
    /// Nanoseconds since that second, below 1,000,000,000.
    pub subsecond_ns: u32,
}

impl WallTime {
    /// Whole milliseconds since 1970-01-01T00:00:00 UTC, rounded down.
    pub(crate) fn unix_ms(self) -> i64 {
        debug_assert!(
            self.subsecond_ns < 1_000_000_000,
            "the source returned a subsecond of {} ns",
            self.subsecond_ns
        );
        self.unix_seconds
            .saturating_mul(1_000)
            .saturating_add(i64::from(self.subsecond_ns / 1_000_000))
    }
}

pub(crate) fn instant_now() -> Instant {
    Instant::now()
}

/// The clocks of the operating system, and the local time zone.
///
/// The clocks are `CLOCK_MONOTONIC`, which counts from the boot on Linux, and `CLOCK_REALTIME`.
/// Usually a reading is not a system call, because the kernel provides both through the vDSO.
///
/// ```
/// use evcore_clock::{Clock, SystemTimeSource};
///
/// // Logs in UTC, independent of the machine's time zone.
/// let clock = Clock::with_source(SystemTimeSource::utc());
/// assert!(clock.iso8601().ends_with("+00:00"));
/// ```
#[derive(Clone)]
pub struct SystemTimeSource {
    zone: Zone,
}

impl SystemTimeSource {
    /// Creates a source in the local time zone of the machine.
    ///
    /// Looks the zone up once: in `TZ` if that is set, otherwise in `/etc/localtime`. This may read
    /// files. The zone is UTC if it cannot be found there (so also if `TZ` is set and invalid), and
    /// always without the feature `local-time`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            zone: Zone::local(),
        }
    }

    /// Creates a source whose local time is UTC. Reads no file.
    #[must_use]
    pub fn utc() -> Self {
        Self { zone: Zone::utc() }
    }
}

impl TimeSource for SystemTimeSource {
    fn monotonic_ns(&self) -> u64 {
        nanoseconds(clock_gettime(ClockId::Monotonic))
    }

    fn wall_time(&self) -> WallTime {
        let time = clock_gettime(ClockId::Realtime);
        WallTime {
            unix_seconds: time.tv_sec,
            subsecond_ns: subsecond_ns(time),
        }
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

/// Converts a monotonic time to nanoseconds. 64 bits are enough for 584 years.
fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).expect("monotonic time is not negative");
    seconds * 1_000_000_000 + u64::from(subsecond_ns(time))
}

fn subsecond_ns(time: Timespec) -> u32 {
    // The type of the field differs between systems, but its range does not.
    u32::try_from(time.tv_nsec).expect("the kernel returns less than a second of nanoseconds")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn wall_time_agrees_with_the_standard_library() {
        let source = SystemTimeSource::utc();
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let wall = source.wall_time();
        let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seconds = u64::try_from(wall.unix_seconds).unwrap();
        let read = Duration::new(seconds, wall.subsecond_ns);
        // Fails only if the wall clock is set back at this moment.
        assert!(
            before <= read && read <= after,
            "{before:?} {read:?} {after:?}"
        );
    }

    #[test]
    fn monotonic_time_does_not_go_back() {
        let source = SystemTimeSource::utc();
        let mut last = source.monotonic_ns();
        for _ in 0..10_000 {
            let now = source.monotonic_ns();
            assert!(last <= now);
            last = now;
        }
    }

    #[test]
    fn nanoseconds_need_more_than_32_bits() {
        let time = Timespec {
            tv_sec: 5,
            tv_nsec: 999_999_999,
        };
        assert_eq!(nanoseconds(time), 5_999_999_999);
    }
}
