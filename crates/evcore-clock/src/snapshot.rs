//! The numbers and strings of one update of a shared clock, as an array of words.
//!
//! The strings are stored as text, so a reader only loads them and formats nothing.

use std::fmt;

use crate::stamp::{self, Stamp};
use crate::time_source::WallTime;

pub(crate) const WORDS: usize = 21;

// The indices of the first word of each part. The most frequently read strings come first.
pub(crate) const MONOTONIC_NS: usize = 0;
pub(crate) const UNIX_SECONDS: usize = 1;
/// The nanoseconds of the wall clock in the low half, the offset in the high half.
const SUBSECOND_AND_OFFSET: usize = 2;
/// The second in which the offset was looked up.
const OFFSET_SECOND: usize = 3;
pub(crate) const HTTP_DATE: usize = 4;
const ACCESS_LOG_TIME: usize = 8;
const ERROR_LOG_TIME: usize = 12;
const ISO8601: usize = 15;
const SYSLOG_TIME: usize = 19;

pub(crate) const HTTP_DATE_WORDS: usize = ACCESS_LOG_TIME - HTTP_DATE;

/// The time at one update of a [`SharedClock`](crate::SharedClock).
///
/// All numbers and strings are of that update, even if there were later updates.
///
/// ```
/// use evcore_clock::{ManualTimeSource, SharedClock};
///
/// let clock = SharedClock::with_source(ManualTimeSource::at(23_349_600));
/// let now = clock.snapshot();
/// assert_eq!(now.unix_seconds(), 23_349_600);
/// assert_eq!(now.http_date().as_bytes(), b"Mon, 28 Sep 1970 06:00:00 GMT");
/// assert_eq!(now.syslog_time().as_str(), "Sep 28 06:00:00");
/// ```
#[derive(Clone, Copy)]
pub struct Snapshot {
    // Invariant: the strings belong to the second and the offset.
    words: [u64; WORDS],
}

impl Snapshot {
    pub(crate) fn first(monotonic_ns: u64, wall: WallTime, offset: Offset) -> Self {
        Self::format(wall.unix_seconds, offset.seconds).at(monotonic_ns, wall, offset)
    }

    /// Makes the snapshot after this one. Formats the strings only if the second or the offset
    /// changed. Allocates nothing and never blocks.
    pub(crate) fn next(&self, monotonic_ns: u64, wall: WallTime, offset: Offset) -> Self {
        let shown = (self.unix_seconds(), self.offset());
        let next = if shown == (wall.unix_seconds, offset.seconds) {
            *self
        } else {
            Self::format(wall.unix_seconds, offset.seconds)
        };
        next.at(monotonic_ns.max(self.monotonic_ns()), wall, offset)
    }

    pub(crate) fn from_words(words: [u64; WORDS]) -> Self {
        Self { words }
    }

    pub(crate) fn as_words(&self) -> &[u64; WORDS] {
        &self.words
    }

    /// Monotonic time in nanoseconds since an arbitrary fixed moment. It is never less than in an
    /// earlier snapshot of the same clock.
    #[inline]
    #[must_use]
    pub fn monotonic_ns(&self) -> u64 {
        self.words[MONOTONIC_NS]
    }

    /// Monotonic time in whole milliseconds, rounded down.
    #[inline]
    #[must_use]
    pub fn monotonic_ms(&self) -> u64 {
        self.monotonic_ns() / 1_000_000
    }

    /// Wall time in whole seconds since 1970-01-01T00:00:00 UTC, rounded down.
    ///
    /// May jump in both directions when the machine's clock is set.
    #[inline]
    #[must_use]
    pub fn unix_seconds(&self) -> i64 {
        self.words[UNIX_SECONDS] as i64
    }

    /// Wall time in whole milliseconds since 1970-01-01T00:00:00 UTC, rounded down.
    ///
    /// May jump in both directions when the machine's clock is set.
    #[inline]
    #[must_use]
    pub fn unix_ms(&self) -> i64 {
        let subsecond_ns = self.words[SUBSECOND_AND_OFFSET] & u64::from(u32::MAX);
        self.unix_seconds()
            .saturating_mul(1_000)
            .saturating_add((subsecond_ns / 1_000_000) as i64)
    }

    /// The offset of the local time of this snapshot from UTC, in seconds east.
    #[inline]
    #[must_use]
    pub fn offset(&self) -> i32 {
        (self.words[SUBSECOND_AND_OFFSET] >> 32) as i32
    }

    /// The snapshot's second for an HTTP header: `Mon, 28 Sep 1970 06:00:00 GMT`.
    ///
    /// Has the layout and the limits of [`stamp::http_date`].
    #[inline]
    #[must_use]
    pub fn http_date(&self) -> Stamp<29> {
        unpack(&self.words[HTTP_DATE..])
    }

    /// The snapshot's second for an error log, local: `1970/09/28 12:00:00`.
    ///
    /// Has the layout and the limits of [`stamp::error_log_time`].
    #[inline]
    #[must_use]
    pub fn error_log_time(&self) -> Stamp<19> {
        unpack(&self.words[ERROR_LOG_TIME..])
    }

    /// The snapshot's second for an access log, local: `28/Sep/1970:12:00:00 +0600`.
    ///
    /// Has the layout and the limits of [`stamp::access_log_time`].
    #[inline]
    #[must_use]
    pub fn access_log_time(&self) -> Stamp<26> {
        unpack(&self.words[ACCESS_LOG_TIME..])
    }

    /// The snapshot's second by ISO 8601, local: `1970-09-28T12:00:00+06:00`.
    ///
    /// Has the layout and the limits of [`stamp::iso8601`].
    #[inline]
    #[must_use]
    pub fn iso8601(&self) -> Stamp<25> {
        unpack(&self.words[ISO8601..])
    }

    /// The snapshot's second for syslog, local: `Sep 28 12:00:00`.
    ///
    /// Has the layout and the limits of [`stamp::syslog_time`].
    #[inline]
    #[must_use]
    pub fn syslog_time(&self) -> Stamp<15> {
        unpack(&self.words[SYSLOG_TIME..])
    }

    pub(crate) fn known_offset(&self) -> Offset {
        Offset {
            seconds: self.offset(),
            looked_up_at: self.words[OFFSET_SECOND] as i64,
        }
    }

    /// Makes a snapshot with the strings of a second, and with all numbers zero.
    fn format(unix_seconds: i64, offset: i32) -> Self {
        let mut words = [0; WORDS];
        pack(&mut words[HTTP_DATE..], &stamp::http_date(unix_seconds));
        pack(
            &mut words[ACCESS_LOG_TIME..],
            &stamp::access_log_time(unix_seconds, offset),
        );
        pack(
            &mut words[ERROR_LOG_TIME..],
            &stamp::error_log_time(unix_seconds, offset),
        );
        pack(&mut words[ISO8601..], &stamp::iso8601(unix_seconds, offset));
        pack(
            &mut words[SYSLOG_TIME..],
            &stamp::syslog_time(unix_seconds, offset),
        );
        Self { words }
    }

    /// Returns the same strings with these numbers.
    fn at(mut self, monotonic_ns: u64, wall: WallTime, offset: Offset) -> Self {
        debug_assert!(
            wall.subsecond_ns < 1_000_000_000,
            "the source returned a subsecond of {} ns",
            wall.subsecond_ns
        );
        self.words[MONOTONIC_NS] = monotonic_ns;
        self.words[UNIX_SECONDS] = wall.unix_seconds as u64;
        self.words[SUBSECOND_AND_OFFSET] =
            u64::from(offset.seconds as u32) << 32 | u64::from(wall.subsecond_ns);
        self.words[OFFSET_SECOND] = offset.looked_up_at as u64;
        self
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("monotonic_ns", &self.monotonic_ns())
            .field("unix_ms", &self.unix_ms())
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    /// In seconds east.
    pub(crate) seconds: i32,
    /// The second in which the offset was looked up.
    pub(crate) looked_up_at: i64,
}

/// Writes a string into as many words as it needs; unused bytes of the last one are zero.
fn pack<const N: usize>(words: &mut [u64], stamp: &Stamp<N>) {
    for (word, text) in words.iter_mut().zip(stamp.as_bytes().chunks(8)) {
        let mut bytes = [0; 8];
        bytes[..text.len()].copy_from_slice(text);
        *word = u64::from_ne_bytes(bytes);
    }
}

#[inline]
pub(crate) fn unpack<const N: usize>(words: &[u64]) -> Stamp<N> {
    let mut text = [0; N];
    for (text, word) in text.chunks_mut(8).zip(words) {
        text.copy_from_slice(&word.to_ne_bytes()[..text.len()]);
    }
    Stamp::from_ascii(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i32 = 3_600;

    fn wall(unix_seconds: i64) -> WallTime {
        WallTime {
            unix_seconds,
            subsecond_ns: 999_999_999,
        }
    }

    fn offset(seconds: i32) -> Offset {
        let looked_up_at = -1;
        Offset {
            seconds,
            looked_up_at,
        }
    }

    #[test]
    fn no_part_overlaps_another() {
        for (unix, east) in [(23_349_600, 6 * HOUR), (1_709_208_000, -12_600)] {
            let snapshot = Snapshot::first(u64::MAX, wall(unix), offset(east));
            assert_eq!(snapshot.monotonic_ns(), u64::MAX);
            assert_eq!(snapshot.unix_ms(), unix * 1_000 + 999);
            assert_eq!(snapshot.known_offset(), offset(east));
            assert_eq!(snapshot.http_date(), stamp::http_date(unix));
            assert_eq!(snapshot.error_log_time(), stamp::error_log_time(unix, east));
            assert_eq!(
                snapshot.access_log_time(),
                stamp::access_log_time(unix, east)
            );
            assert_eq!(snapshot.iso8601(), stamp::iso8601(unix, east));
            assert_eq!(snapshot.syslog_time(), stamp::syslog_time(unix, east));
        }
    }

    #[test]
    fn the_ends_of_every_range_are_stored_exactly() {
        for (unix, east) in [(i64::MIN, i32::MIN), (-1, -1), (i64::MAX, i32::MAX)] {
            let snapshot = Snapshot::first(0, wall(unix), offset(east));
            assert_eq!((snapshot.unix_seconds(), snapshot.offset()), (unix, east));
            assert_eq!(snapshot.iso8601(), stamp::iso8601(unix, east));
        }
    }

    #[test]
    fn the_strings_are_formatted_once_a_second() {
        let mut first = Snapshot::first(5, wall(1_000), offset(0));
        // A string that no formatting produces.
        pack(
            &mut first.words[HTTP_DATE..],
            &Stamp::from_ascii([b'x'; 29]),
        );
        assert!(
            first
                .next(6, wall(1_000), offset(0))
                .http_date()
                .starts_with("xxx")
        );
        let others = [(1_001, 0), (999, 0), (1_000, HOUR)];
        for (unix, east) in others {
            let next = first.next(6, wall(unix), offset(east));
            assert_eq!(next.http_date(), stamp::http_date(unix));
            assert_eq!(next.iso8601(), stamp::iso8601(unix, east));
        }
    }

    #[test]
    fn monotonic_time_waits_for_a_source_that_went_back() {
        let first = Snapshot::first(5, wall(1_000), offset(0));
        let next = first.next(4, wall(1_001), offset(0));
        assert_eq!((next.monotonic_ns(), next.unix_seconds()), (5, 1_001));
    }
}
