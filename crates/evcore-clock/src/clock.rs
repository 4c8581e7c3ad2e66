//! A clock that caches the time between two updates.
//!
//! Between two updates nothing changes, so a turn of a loop sees a single time. Monotonic and wall
//! time are separate: measure durations with monotonic time. Only the user updates the clock; there
//! is no thread and no signal.

use std::cell::OnceCell;
use std::fmt;

use crate::source::{Reading, SystemTimeSource, TimeSource};
use crate::stamp::{self, Stamp};

/// A cached clock: it shows the time of the last [`update`](Self::update).
///
/// Reading a number is a load and never a system call. A string is formatted when it is first read
/// within its second; after that, reading it is a comparison and a load.
/// Nothing is allocated after construction.
///
/// A clock is `Send` and not `Sync`: one thread uses it at a time. For many threads see
/// [`SharedClock`](crate::SharedClock).
///
/// ```
/// use evcore_clock::Clock;
///
/// let mut clock = Clock::system();
/// let mut response = b"HTTP/1.1 204 No Content\r\nDate: ".to_vec();
/// response.extend_from_slice(clock.http_date().as_bytes());
///
/// let started_ns = clock.monotonic_ns();
/// clock.update();
/// assert!(clock.monotonic_ns() >= started_ns);
/// ```
pub struct Clock {
    // Invariant: never less than before.
    monotonic_ns: u64,
    // Stored as well, so that reading it needs no division.
    monotonic_ms: u64,
    unix_seconds: i64,
    unix_ms: i64,
    // Invariant: the strings of `unix_seconds`.
    second: Second,
    source: Box<dyn TimeSource>,
}

impl Clock {
    /// Creates a clock that shows the time of the operating system, in the local time zone.
    ///
    /// Reads the time once. [`SystemTimeSource::new`] describes how the zone is found.
    #[must_use]
    pub fn system() -> Self {
        Self::with_source(SystemTimeSource::new())
    }

    /// Creates a clock that shows the time of `source`. Reads it once.
    #[must_use]
    pub fn with_source(source: impl TimeSource + 'static) -> Self {
        let reading = source.read();
        let mut clock = Self {
            monotonic_ns: 0,
            monotonic_ms: 0,
            unix_seconds: reading.unix_seconds,
            unix_ms: 0,
            second: Second::default(),
            source: Box::new(source),
        };
        clock.show(reading);
        clock
    }

    /// Reads the source once, and shows its time from now on.
    ///
    /// If the monotonic time of the source went back, the clock keeps its own until the source has
    /// caught up. Strings are not formatted here.
    pub fn update(&mut self) {
        let reading = self.source.read();
        self.show(reading);
    }

    /// Reads the source without updating the clock.
    ///
    /// Use it to decide whether an update is due.
    #[must_use]
    pub fn read_now(&self) -> Reading {
        self.source.read()
    }

    /// Reads only the monotonic time of the source, in nanoseconds, without updating the clock.
    ///
    /// Use it to measure a duration within a turn: it reads one of the system's clocks, and
    /// [`read_now`](Self::read_now) reads both. If the source's time goes back, the result may be less
    /// than [`monotonic_ns`](Self::monotonic_ns).
    ///
    /// ```
    /// # use evcore_clock::Clock;
    /// let clock = Clock::system();
    /// assert!(clock.monotonic_ns_now() >= clock.monotonic_ns());
    /// ```
    #[inline]
    #[must_use]
    pub fn monotonic_ns_now(&self) -> u64 {
        self.source.monotonic_ns()
    }

    /// Monotonic time in nanoseconds since an arbitrary fixed moment. Never goes back.
    #[inline]
    #[must_use]
    pub fn monotonic_ns(&self) -> u64 {
        self.monotonic_ns
    }

    /// Monotonic time in whole milliseconds, rounded down: [`monotonic_ns`](Self::monotonic_ns)
    /// divided by 1,000,000.
    #[inline]
    #[must_use]
    pub fn monotonic_ms(&self) -> u64 {
        self.monotonic_ms
    }

    /// Wall time in whole seconds since 1970-01-01T00:00:00 UTC, rounded down.
    ///
    /// May jump in both directions when the machine's clock is set.
    #[inline]
    #[must_use]
    pub fn unix_seconds(&self) -> i64 {
        self.unix_seconds
    }

    /// Wall time in whole milliseconds since 1970-01-01T00:00:00 UTC, rounded down.
    ///
    /// May jump in both directions when the machine's clock is set.
    #[inline]
    #[must_use]
    pub fn unix_ms(&self) -> i64 {
        self.unix_ms
    }

    /// The offset of local time from UTC in the current second, in seconds east.
    ///
    /// Looked up when it is first needed within a second, so daylight saving takes effect on time.
    #[inline]
    #[must_use]
    pub fn offset(&self) -> i32 {
        let look_up = || self.source.offset_at(self.unix_seconds);
        *self.second.offset.get_or_init(look_up)
    }

    /// The current second for an HTTP header: `Mon, 28 Sep 1970 06:00:00 GMT`.
    ///
    /// Has the layout and the limits of [`stamp::http_date`].
    #[inline]
    #[must_use]
    pub fn http_date(&self) -> &Stamp<29> {
        let make = || stamp::http_date(self.unix_seconds);
        self.second.http_date.get_or_init(make)
    }

    /// The current second for an error log, local: `1970/09/28 12:00:00`.
    ///
    /// Has the layout and the limits of [`stamp::error_log_time`].
    #[inline]
    #[must_use]
    pub fn error_log_time(&self) -> &Stamp<19> {
        let make = || stamp::error_log_time(self.unix_seconds, self.offset());
        self.second.error_log_time.get_or_init(make)
    }

    /// The current second for an access log, local: `28/Sep/1970:12:00:00 +0600`.
    ///
    /// Has the layout and the limits of [`stamp::access_log_time`].
    #[inline]
    #[must_use]
    pub fn access_log_time(&self) -> &Stamp<26> {
        let make = || stamp::access_log_time(self.unix_seconds, self.offset());
        self.second.access_log_time.get_or_init(make)
    }

    /// The current second by ISO 8601, local: `1970-09-28T12:00:00+06:00`.
    ///
    /// Has the layout and the limits of [`stamp::iso8601`].
    #[inline]
    #[must_use]
    pub fn iso8601(&self) -> &Stamp<25> {
        let make = || stamp::iso8601(self.unix_seconds, self.offset());
        self.second.iso8601.get_or_init(make)
    }

    /// The current second for syslog, local: `Sep 28 12:00:00`.
    ///
    /// Has the layout and the limits of [`stamp::syslog_time`].
    #[inline]
    #[must_use]
    pub fn syslog_time(&self) -> &Stamp<15> {
        let make = || stamp::syslog_time(self.unix_seconds, self.offset());
        self.second.syslog_time.get_or_init(make)
    }

    fn show(&mut self, reading: Reading) {
        debug_assert!(
            reading.subsecond_ns < 1_000_000_000,
            "the source returned a subsecond of {} ns",
            reading.subsecond_ns
        );
        if reading.monotonic_ns > self.monotonic_ns {
            self.monotonic_ns = reading.monotonic_ns;
            self.monotonic_ms = reading.monotonic_ns / 1_000_000;
        }
        if reading.unix_seconds != self.unix_seconds {
            self.unix_seconds = reading.unix_seconds;
            self.second = Second::default();
        }
        self.unix_ms = reading
            .unix_seconds
            .saturating_mul(1_000)
            .saturating_add(i64::from(reading.subsecond_ns / 1_000_000));
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock")
            .field("monotonic_ns", &self.monotonic_ns)
            .field("unix_ms", &self.unix_ms)
            .finish_non_exhaustive()
    }
}

/// The strings and the offset of one second, each only if it has been read.
///
/// The cells are written once, so a reader with `&Clock` can fill them and keep a plain reference to
/// the content. Only an update, with `&mut Clock`, empties them.
#[derive(Default)]
struct Second {
    offset: OnceCell<i32>,
    http_date: OnceCell<Stamp<29>>,
    error_log_time: OnceCell<Stamp<19>>,
    access_log_time: OnceCell<Stamp<26>>,
    iso8601: OnceCell<Stamp<25>>,
    syslog_time: OnceCell<Stamp<15>>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::ManualTimeSource;

    impl Clock {
        /// Panics if an invariant does not hold; compares the strings with the pure functions.
        fn verify(&self) {
            assert_eq!(self.monotonic_ms, self.monotonic_ns / 1_000_000);
            assert_eq!(self.unix_ms.div_euclid(1_000), self.unix_seconds);

            let (kept, unix) = (&self.second, self.unix_seconds);
            verify_stamp(&kept.http_date, || stamp::http_date(unix));
            let offset = || *kept.offset.get().expect("a local string needed it");
            verify_stamp(&kept.error_log_time, || {
                stamp::error_log_time(unix, offset())
            });
            verify_stamp(&kept.access_log_time, || {
                stamp::access_log_time(unix, offset())
            });
            verify_stamp(&kept.iso8601, || stamp::iso8601(unix, offset()));
            verify_stamp(&kept.syslog_time, || stamp::syslog_time(unix, offset()));
        }
    }

    fn verify_stamp<const N: usize>(
        kept: &OnceCell<Stamp<N>>,
        expected: impl FnOnce() -> Stamp<N>,
    ) {
        if let Some(kept) = kept.get() {
            assert_eq!(*kept, expected());
        }
    }

    #[test]
    fn a_string_is_formatted_once_a_second_and_only_if_read() {
        let time = ManualTimeSource::at(1_000);
        let mut clock = Clock::with_source(time.clone());
        assert!(clock.second.http_date.get().is_none());

        let _ = clock.http_date();
        assert!(clock.second.http_date.get().is_some());
        assert!(clock.second.error_log_time.get().is_none());
        assert!(clock.second.access_log_time.get().is_none());
        assert!(clock.second.iso8601.get().is_none());
        assert!(clock.second.syslog_time.get().is_none());

        time.advance(Duration::from_millis(999));
        clock.update();
        assert!(
            clock.second.http_date.get().is_some(),
            "still the same second"
        );

        time.advance(Duration::from_millis(1));
        clock.update();
        assert!(clock.second.http_date.get().is_none(), "another second");
    }

    #[derive(Clone, Debug)]
    enum Op {
        Advance(u32),
        Jump(i32),
        SetOffset(i32),
        Update,
        Read(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0..3_000_u32).prop_map(Op::Advance),
            (-90_000..90_000_i32).prop_map(Op::Jump),
            (-50_400..=50_400_i32).prop_map(Op::SetOffset),
            Just(Op::Update),
            (0..5_usize).prop_map(Op::Read),
        ]
    }

    fn read(clock: &Clock, which: usize) {
        match which {
            0 => drop(clock.http_date().to_string()),
            1 => drop(clock.error_log_time().to_string()),
            2 => drop(clock.access_log_time().to_string()),
            3 => drop(clock.iso8601().to_string()),
            _ => drop(clock.syslog_time().to_string()),
        }
    }

    proptest! {
        #[test]
        fn the_strings_always_belong_to_the_current_second(
            ops in prop::collection::vec(op(), 1..200),
        ) {
            let time = ManualTimeSource::at(1_774_746_000);
            let mut clock = Clock::with_source(time.clone());
            let mut last = 0;
            for op in ops {
                match op {
                    Op::Advance(ms) => time.advance(Duration::from_millis(ms.into())),
                    Op::Jump(seconds) => time.jump_wall(seconds.into()),
                    Op::SetOffset(seconds) => time.set_offset(seconds),
                    Op::Update => clock.update(),
                    Op::Read(which) => read(&clock, which),
                }
                clock.verify();
                prop_assert!(clock.monotonic_ns() >= last);
                last = clock.monotonic_ns();
            }
        }
    }
}
