//! A clock that caches the time between two updates. An update reads only monotonic time. Most
//! turns (iterations) of an event loop need no wall time, so wall time is read only when it is
//! first needed in a turn.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use crate::stamp::{self, Stamp};
use crate::time_source::{SystemTimeSource, TimeSource, instant_now};

/// A cached clock: it shows the time of the last [`update`](Self::update).
///
/// Reading a number is a load. The first read of wall time after an update also reads the source,
/// on most systems without a system call. All later reads until the next update return the same
/// time. A string is formatted when it is first read within its second; after that, reading it
/// copies it. The clock allocates nothing after its construction.
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
    /// An instant, and the monotonic time that was read immediately after it.
    instant: Cell<Option<(Instant, u64)>>,
    /// True if wall time was read since the last update.
    has_wall_time: Cell<bool>,
    unix_seconds: Cell<i64>,
    unix_ms: Cell<i64>,
    // Invariant: its strings and its offset belong to `unix_seconds`.
    second: Second,
    source: Box<dyn TimeSource>,
}

impl Clock {
    /// Creates a clock that shows the time of the operating system, in the local time zone.
    ///
    /// Reads monotonic time once. [`SystemTimeSource::new`] describes how the zone is found.
    #[must_use]
    pub fn system() -> Self {
        Self::with_source(SystemTimeSource::new())
    }

    /// Creates a clock that shows the time of `source`. Reads its monotonic time once.
    #[must_use]
    pub fn with_source(source: impl TimeSource + 'static) -> Self {
        Self {
            monotonic_ns: source.monotonic_ns(),
            instant: Cell::new(None),
            has_wall_time: Cell::new(false),
            unix_seconds: Cell::new(0),
            unix_ms: Cell::new(0),
            second: Second::default(),
            source: Box::new(source),
        }
    }

    /// Reads the monotonic time of the source once, and shows it from now on. The next read of wall
    /// time also reads the wall time of the source.
    ///
    /// If the monotonic time of the source went back, the clock keeps its own until the source has
    /// caught up.
    #[inline]
    pub fn update(&mut self) {
        // The source is read first, so that no value has to be saved across the call.
        let read_ns = self.source.monotonic_ns();
        if read_ns > self.monotonic_ns {
            self.monotonic_ns = read_ns;
        }
        self.has_wall_time.set(false);
    }

    /// Reads the monotonic time of the source, in nanoseconds, without updating the clock.
    ///
    /// Use it to measure a duration within one iteration of an event loop, or to decide whether an
    /// update is due. If the source's time goes back, the result may be less than
    /// [`monotonic_ns`](Self::monotonic_ns).
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
        self.monotonic_ns / 1_000_000
    }

    /// Monotonic time as an [`Instant`], for libraries that take one.
    ///
    /// Two results are as far apart as the two values of [`monotonic_ns`](Self::monotonic_ns), also
    /// with a source of virtual time. With the system's source the result is never after
    /// `Instant::now()`. It is earlier than the clock's time by the time that passed between the
    /// two readings of the first call, which is less than a microsecond unless the thread was
    /// interrupted. (On Linux `Instant` and the monotonic clock are one clock. On some systems only
    /// one of the two counts the time of a suspended machine. There the result is wrong by that
    /// time, and may be after `Instant::now()`.)
    ///
    /// The first call reads both clocks; each further call is an addition.
    ///
    /// ```
    /// # use evcore_clock::{Clock, ManualTimeSource};
    /// use std::time::Duration;
    ///
    /// let time = ManualTimeSource::at(0);
    /// let mut clock = Clock::with_source(time.clone());
    /// let before = clock.instant();
    /// time.advance(Duration::from_secs(60));
    /// clock.update();
    /// assert_eq!(clock.instant() - before, Duration::from_secs(60));
    /// ```
    #[must_use]
    pub fn instant(&self) -> Instant {
        let (instant, read_ns) = get_or_make(&self.instant, || {
            let instant = instant_now();
            (instant, self.monotonic_ns_now())
        });
        match self.monotonic_ns.checked_sub(read_ns) {
            Some(ahead_ns) => instant + Duration::from_nanos(ahead_ns),
            None => {
                let behind = Duration::from_nanos(read_ns - self.monotonic_ns);
                // The instant may be earlier than this system can represent.
                instant.checked_sub(behind).unwrap_or(instant)
            }
        }
    }

    /// The time from now until `deadline_ms`, a time in the milliseconds of
    /// [`monotonic_ms`](Self::monotonic_ms); zero if that time has passed.
    ///
    /// A wait for exactly this long ends when `monotonic_ms` reaches the deadline. The difference
    /// `deadline_ms - monotonic_ms()` is up to 1 ms too long, because the present time is rounded
    /// down.
    ///
    /// Reads the monotonic time of the source, because the clock's time does not include the work
    /// since the last update.
    ///
    /// ```
    /// # use evcore_clock::{Clock, ManualTimeSource};
    /// use std::time::Duration;
    ///
    /// let time = ManualTimeSource::at(0);
    /// let clock = Clock::with_source(time.clone());
    /// let deadline_ms = clock.monotonic_ms() + 10;
    /// time.advance(Duration::from_micros(2_300)); // what the handlers took
    /// assert_eq!(clock.until(deadline_ms), Duration::from_micros(7_700));
    /// time.advance(Duration::from_secs(1));
    /// assert_eq!(clock.until(deadline_ms), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn until(&self, deadline_ms: u64) -> Duration {
        let now_ns = self.monotonic_ns_now().max(self.monotonic_ns);
        Duration::from_millis(deadline_ms).saturating_sub(Duration::from_nanos(now_ns))
    }

    /// Wall time in whole seconds since 1970-01-01T00:00:00 UTC, rounded down.
    ///
    /// The source is read when wall time is first needed after an update. The time may jump in both
    /// directions when the machine's clock is set.
    #[inline]
    #[must_use]
    pub fn unix_seconds(&self) -> i64 {
        self.need_wall_time();
        self.unix_seconds.get()
    }

    /// Wall time in whole milliseconds since 1970-01-01T00:00:00 UTC, rounded down.
    ///
    /// The source is read when wall time is first needed after an update. The time may jump in both
    /// directions when the machine's clock is set.
    #[inline]
    #[must_use]
    pub fn unix_ms(&self) -> i64 {
        self.need_wall_time();
        self.unix_ms.get()
    }

    /// The offset of local time from UTC in the current second, in seconds east.
    ///
    /// The offset is looked up when it is first needed within a second, so a change to daylight
    /// saving time takes effect at once.
    #[inline]
    #[must_use]
    pub fn offset(&self) -> i32 {
        let unix_seconds = self.unix_seconds();
        get_or_make(&self.second.offset, || self.source.offset_at(unix_seconds))
    }

    /// The current second for an HTTP header: `Mon, 28 Sep 1970 06:00:00 GMT`.
    ///
    /// Has the layout and the limits of [`stamp::http_date`].
    #[inline]
    #[must_use]
    pub fn http_date(&self) -> Stamp<29> {
        let unix_seconds = self.unix_seconds();
        let make = || stamp::http_date(unix_seconds);
        get_or_make(&self.second.http_date, make)
    }

    /// The current second for an error log, local: `1970/09/28 12:00:00`.
    ///
    /// Has the layout and the limits of [`stamp::error_log_time`].
    #[inline]
    #[must_use]
    pub fn error_log_time(&self) -> Stamp<19> {
        let unix_seconds = self.unix_seconds();
        let make = || stamp::error_log_time(unix_seconds, self.offset());
        get_or_make(&self.second.error_log_time, make)
    }

    /// The current second for an access log, local: `28/Sep/1970:12:00:00 +0600`.
    ///
    /// Has the layout and the limits of [`stamp::access_log_time`].
    #[inline]
    #[must_use]
    pub fn access_log_time(&self) -> Stamp<26> {
        let unix_seconds = self.unix_seconds();
        let make = || stamp::access_log_time(unix_seconds, self.offset());
        get_or_make(&self.second.access_log_time, make)
    }

    /// The current second by ISO 8601, local: `1970-09-28T12:00:00+06:00`.
    ///
    /// Has the layout and the limits of [`stamp::iso8601`].
    #[inline]
    #[must_use]
    pub fn iso8601(&self) -> Stamp<25> {
        let unix_seconds = self.unix_seconds();
        let make = || stamp::iso8601(unix_seconds, self.offset());
        get_or_make(&self.second.iso8601, make)
    }

    /// The current second for syslog, local: `Sep 28 12:00:00`.
    ///
    /// Has the layout and the limits of [`stamp::syslog_time`].
    #[inline]
    #[must_use]
    pub fn syslog_time(&self) -> Stamp<15> {
        let unix_seconds = self.unix_seconds();
        let make = || stamp::syslog_time(unix_seconds, self.offset());
        get_or_make(&self.second.syslog_time, make)
    }

    #[inline]
    fn need_wall_time(&self) {
        if !self.has_wall_time.get() {
            self.read_wall_time();
        }
    }

    /// A separate function, so that the code that is inlined into each reader is short.
    #[inline(never)]
    fn read_wall_time(&self) {
        let wall = self.source.wall_time();
        self.has_wall_time.set(true);
        self.unix_ms.set(wall.unix_ms());
        if self.unix_seconds.replace(wall.unix_seconds) != wall.unix_seconds {
            self.second.clear();
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock")
            .field("monotonic_ns", &self.monotonic_ns)
            .finish_non_exhaustive()
    }
}

/// The strings and the offset of one second, each only if it has been read.
#[derive(Default)]
struct Second {
    offset: Cell<Option<i32>>,
    http_date: Cell<Option<Stamp<29>>>,
    error_log_time: Cell<Option<Stamp<19>>>,
    access_log_time: Cell<Option<Stamp<26>>>,
    iso8601: Cell<Option<Stamp<25>>>,
    syslog_time: Cell<Option<Stamp<15>>>,
}

impl Second {
    fn clear(&self) {
        self.offset.set(None);
        self.http_date.set(None);
        self.error_log_time.set(None);
        self.access_log_time.set(None);
        self.iso8601.set(None);
        self.syslog_time.set(None);
    }
}

#[inline]
fn get_or_make<T: Copy>(kept: &Cell<Option<T>>, make: impl FnOnce() -> T) -> T {
    kept.get().unwrap_or_else(|| {
        let made = make();
        kept.set(Some(made));
        made
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::manual::ManualTimeSource;

    impl Clock {
        /// Compares the kept strings with the pure functions.
        fn verify(&self) {
            assert_eq!(
                self.unix_ms.get().div_euclid(1_000),
                self.unix_seconds.get()
            );

            let (kept, unix) = (&self.second, self.unix_seconds.get());
            verify_stamp(&kept.http_date, || stamp::http_date(unix));
            let offset = || kept.offset.get().expect("a local string needed it");
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
        kept: &Cell<Option<Stamp<N>>>,
        expected: impl FnOnce() -> Stamp<N>,
    ) {
        if let Some(kept) = kept.get() {
            assert_eq!(kept, expected());
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
        let _ = clock.unix_seconds();
        assert!(
            clock.second.http_date.get().is_some(),
            "still the same second"
        );

        time.advance(Duration::from_millis(1));
        clock.update();
        let _ = clock.unix_seconds();
        assert!(clock.second.http_date.get().is_none(), "another second");
    }

    #[test]
    fn a_wait_until_a_deadline_ends_in_its_first_nanosecond() {
        let time = ManualTimeSource::at(0);
        let mut clock = Clock::with_source(time.clone());
        time.advance(Duration::from_nanos(1_000_001));
        let rest = clock.until(2);
        assert_eq!(rest, Duration::from_nanos(999_999));
        time.advance(rest - Duration::from_nanos(1));
        clock.update();
        assert_eq!(clock.monotonic_ms(), 1);
        time.advance(Duration::from_nanos(1));
        clock.update();
        assert_eq!(clock.monotonic_ms(), 2);
        assert_eq!(clock.until(2), Duration::ZERO);
        assert_eq!(clock.until(0), Duration::ZERO);
    }

    #[test]
    fn the_time_until_the_last_deadline_does_not_overflow() {
        let clock = Clock::with_source(ManualTimeSource::at(0));
        assert_eq!(clock.until(u64::MAX), Duration::from_millis(u64::MAX));
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
            (0..6_usize).prop_map(Op::Read),
        ]
    }

    fn read(clock: &Clock, which: usize) {
        match which {
            0 => drop(clock.http_date().to_string()),
            1 => drop(clock.error_log_time().to_string()),
            2 => drop(clock.access_log_time().to_string()),
            3 => drop(clock.iso8601().to_string()),
            4 => drop(clock.syslog_time().to_string()),
            _ => drop(clock.unix_ms().to_string()),
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
