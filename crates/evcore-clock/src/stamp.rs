//! The five time stamps of logs and HTTP headers, as pure functions.
//!
//! Each has a fixed length and layout, is written into an array, and allocates nothing. The
//! functions cache nothing, but [`Clock`](crate::Clock) caches their results.
//!
//! An instant is in Unix seconds and an offset in seconds east of UTC; every value is accepted. A
//! time before 1970-01-01 00:00:00 or after 9999-12-31 23:59:59, after the offset was added, is
//! shown as that limit. The layouts with an offset show it in whole minutes, truncated towards zero
//! as by `strftime`, and limited to ±99:59.

use std::fmt;
use std::ops::Deref;

use crate::civil::Civil;

/// A time stamp of `N` ASCII bytes, stored inline.
///
/// Use [`as_bytes`](Self::as_bytes) on hot paths: it costs nothing, and the length of the array is
/// known at compile time. Each conversion to `&str` (also by `Deref`) checks `N` bytes for UTF-8,
/// because the crate has no `unsafe`.
///
/// ```
/// use evcore_clock::stamp;
///
/// let date = stamp::http_date(23_349_600);
/// assert_eq!(date.as_bytes(), b"Mon, 28 Sep 1970 06:00:00 GMT");
/// assert_eq!(date.as_str(), "Mon, 28 Sep 1970 06:00:00 GMT");
/// assert_eq!(format!("Date: {date}"), "Date: Mon, 28 Sep 1970 06:00:00 GMT");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp<const N: usize> {
    // Invariant: ASCII.
    bytes: [u8; N],
}

impl<const N: usize> Stamp<N> {
    /// Makes a stamp of these bytes, which must be ASCII.
    #[inline]
    pub(crate) fn from_ascii(bytes: [u8; N]) -> Self {
        debug_assert!(bytes.is_ascii(), "a stamp is ASCII");
        Self { bytes }
    }

    /// The bytes of the stamp.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; N] {
        &self.bytes
    }

    /// The stamp as a string, at the cost of checking `N` bytes.
    #[inline]
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("a stamp is ASCII")
    }
}

impl<const N: usize> Deref for Stamp<N> {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<const N: usize> AsRef<[u8]> for Stamp<N> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<const N: usize> AsRef<str> for Stamp<N> {
    #[inline]
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl<const N: usize> fmt::Display for Stamp<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Stamp<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The time in an HTTP header such as `Date`: `Mon, 28 Sep 1970 06:00:00 GMT`.
///
/// Source: RFC 9110, section 5.6.7, IMF-fixdate.
///
/// ```
/// let date = evcore_clock::stamp::http_date(23_349_600);
/// assert_eq!(date.as_str(), "Mon, 28 Sep 1970 06:00:00 GMT");
/// ```
#[must_use]
pub fn http_date(unix_seconds: i64) -> Stamp<29> {
    let time = Civil::at(unix_seconds, 0);
    let mut bytes = *b"Www, dd Mmm yyyy hh:mm:ss GMT";
    put(&mut bytes, 0, weekday(&time));
    put(&mut bytes, 5, pair(time.day));
    put(&mut bytes, 8, month(&time));
    put(&mut bytes, 12, year(&time));
    put(&mut bytes, 17, time_of_day(&time));
    Stamp { bytes }
}

/// The local time in nginx's error log: `1970/09/28 12:00:00`.
///
/// ```
/// let time = evcore_clock::stamp::error_log_time(23_349_600, 6 * 3_600);
/// assert_eq!(time.as_str(), "1970/09/28 12:00:00");
/// ```
#[must_use]
pub fn error_log_time(unix_seconds: i64, offset_seconds: i32) -> Stamp<19> {
    let time = Civil::at(unix_seconds, offset_seconds);
    let mut bytes = *b"yyyy/mm/dd hh:mm:ss";
    put(&mut bytes, 0, year(&time));
    put(&mut bytes, 5, pair(time.month));
    put(&mut bytes, 8, pair(time.day));
    put(&mut bytes, 11, time_of_day(&time));
    Stamp { bytes }
}

/// The local time in an access log of the common format: `28/Sep/1970:12:00:00 +0600`.
///
/// ```
/// let time = evcore_clock::stamp::access_log_time(23_349_600, 6 * 3_600);
/// assert_eq!(time.as_str(), "28/Sep/1970:12:00:00 +0600");
/// ```
#[must_use]
pub fn access_log_time(unix_seconds: i64, offset_seconds: i32) -> Stamp<26> {
    let time = Civil::at(unix_seconds, offset_seconds);
    let (sign, hours, minutes) = sign_hours_minutes(offset_seconds);
    let mut bytes = *b"dd/Mmm/yyyy:hh:mm:ss +hhmm";
    put(&mut bytes, 0, pair(time.day));
    put(&mut bytes, 3, month(&time));
    put(&mut bytes, 7, year(&time));
    put(&mut bytes, 12, time_of_day(&time));
    put(&mut bytes, 21, sign);
    put(&mut bytes, 22, pair(hours));
    put(&mut bytes, 24, pair(minutes));
    Stamp { bytes }
}

/// The local time by ISO 8601 and RFC 3339: `1970-09-28T12:00:00+06:00`.
///
/// ```
/// let time = evcore_clock::stamp::iso8601(23_349_600, 6 * 3_600);
/// assert_eq!(time.as_str(), "1970-09-28T12:00:00+06:00");
/// ```
#[must_use]
pub fn iso8601(unix_seconds: i64, offset_seconds: i32) -> Stamp<25> {
    let time = Civil::at(unix_seconds, offset_seconds);
    let (sign, hours, minutes) = sign_hours_minutes(offset_seconds);
    let mut bytes = *b"yyyy-mm-ddThh:mm:ss+hh:mm";
    put(&mut bytes, 0, year(&time));
    put(&mut bytes, 5, pair(time.month));
    put(&mut bytes, 8, pair(time.day));
    put(&mut bytes, 11, time_of_day(&time));
    put(&mut bytes, 19, sign);
    put(&mut bytes, 20, pair(hours));
    put(&mut bytes, 23, pair(minutes));
    Stamp { bytes }
}

/// The local time in a syslog message, the day padded with a space: `Sep 28 12:00:00`.
///
/// Source: RFC 3164, section 4.1.2.
///
/// ```
/// let time = evcore_clock::stamp::syslog_time(23_349_600, 6 * 3_600);
/// assert_eq!(time.as_str(), "Sep 28 12:00:00");
///
/// let time = evcore_clock::stamp::syslog_time(0, 0);
/// assert_eq!(time.as_str(), "Jan  1 00:00:00");
/// ```
#[must_use]
pub fn syslog_time(unix_seconds: i64, offset_seconds: i32) -> Stamp<15> {
    let time = Civil::at(unix_seconds, offset_seconds);
    let mut bytes = *b"Mmm dd hh:mm:ss";
    put(&mut bytes, 0, month(&time));
    put(&mut bytes, 4, pair(time.day));
    if time.day < 10 {
        put(&mut bytes, 4, *b" ");
    }
    put(&mut bytes, 7, time_of_day(&time));
    Stamp { bytes }
}

/// Writes `text` into the layout. All lengths are constants, so the compiler removes the checks.
#[inline]
fn put<const N: usize, const M: usize>(bytes: &mut [u8; N], at: usize, text: [u8; M]) {
    bytes[at..at + M].copy_from_slice(&text);
}

#[inline]
fn pair(number: u32) -> [u8; 2] {
    debug_assert!(number < 100, "{number} has more than two digits");
    [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8]
}

#[inline]
fn year(time: &Civil) -> [u8; 4] {
    let [a, b] = pair(time.year / 100);
    let [c, d] = pair(time.year % 100);
    [a, b, c, d]
}

fn month(time: &Civil) -> [u8; 3] {
    const NAMES: [[u8; 3]; 12] = [
        *b"Jan", *b"Feb", *b"Mar", *b"Apr", *b"May", *b"Jun", *b"Jul", *b"Aug", *b"Sep", *b"Oct",
        *b"Nov", *b"Dec",
    ];
    NAMES[time.month as usize - 1]
}

fn weekday(time: &Civil) -> [u8; 3] {
    const NAMES: [[u8; 3]; 7] = [
        *b"Sun", *b"Mon", *b"Tue", *b"Wed", *b"Thu", *b"Fri", *b"Sat",
    ];
    NAMES[time.weekday as usize]
}

/// `hh:mm:ss`, a part of all five layouts.
#[inline]
fn time_of_day(time: &Civil) -> [u8; 8] {
    let mut text = *b"hh:mm:ss";
    put(&mut text, 0, pair(time.hour));
    put(&mut text, 3, pair(time.minute));
    put(&mut text, 6, pair(time.second));
    text
}

/// Returns the sign, the hours and the minutes of an offset. The sign is the sign of the whole
/// minutes, because `-00:00` means "unknown" in RFC 3339.
fn sign_hours_minutes(offset_seconds: i32) -> ([u8; 1], u32, u32) {
    const MINUTES_MAX: i32 = 99 * 60 + 59;
    let minutes = (offset_seconds / 60).clamp(-MINUTES_MAX, MINUTES_MAX);
    let sign = if minutes < 0 { *b"-" } else { *b"+" };
    let minutes = minutes.unsigned_abs();
    (sign, minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 9999-12-31T23:59:59.
    const LAST_SECOND: i64 = 253_402_300_799;

    const HOUR: i32 = 3_600;

    #[test]
    fn the_layouts_are_those_of_nginx() {
        let (unix, offset) = (23_349_600, 6 * HOUR);
        assert_eq!(http_date(unix).as_str(), "Mon, 28 Sep 1970 06:00:00 GMT");
        assert_eq!(error_log_time(unix, offset).as_str(), "1970/09/28 12:00:00");
        assert_eq!(
            access_log_time(unix, offset).as_str(),
            "28/Sep/1970:12:00:00 +0600"
        );
        assert_eq!(iso8601(unix, offset).as_str(), "1970-09-28T12:00:00+06:00");
        assert_eq!(syslog_time(unix, offset).as_str(), "Sep 28 12:00:00");
    }

    #[test]
    fn leap_years_have_a_29_february() {
        // 2024 has one, 2100 has none.
        assert_eq!(
            http_date(1_709_208_000).as_str(),
            "Thu, 29 Feb 2024 12:00:00 GMT"
        );
        assert_eq!(
            http_date(4_107_542_399).as_str(),
            "Sun, 28 Feb 2100 23:59:59 GMT"
        );
        assert_eq!(
            http_date(4_107_542_400).as_str(),
            "Mon, 01 Mar 2100 00:00:00 GMT"
        );
    }

    #[test]
    fn seconds_above_31_bits_are_shown() {
        assert_eq!(
            http_date(2_147_483_648).as_str(),
            "Tue, 19 Jan 2038 03:14:08 GMT"
        );
    }

    #[test]
    fn half_and_quarter_hour_offsets_keep_sign_and_minutes() {
        let west = -(3 * HOUR + 1_800);
        assert_eq!(
            iso8601(1_709_208_000, west).as_str(),
            "2024-02-29T08:30:00-03:30"
        );
        assert_eq!(
            access_log_time(1_709_208_000, west).as_str(),
            "29/Feb/2024:08:30:00 -0330"
        );
        let east = 5 * HOUR + 2_700;
        assert_eq!(
            iso8601(1_709_208_000, east).as_str(),
            "2024-02-29T17:45:00+05:45"
        );
        let just_west = -1_800;
        assert_eq!(
            iso8601(1_709_208_000, just_west).as_str(),
            "2024-02-29T11:30:00-00:30"
        );
    }

    #[test]
    fn seconds_of_an_offset_count_and_are_not_shown() {
        // This was the offset of Liberia until 1972.
        assert_eq!(
            iso8601(86_400, -2_670).as_str(),
            "1970-01-01T23:15:30-00:44"
        );
        // Less than a minute west is not `-00:00`.
        assert_eq!(iso8601(86_400, -59).as_str(), "1970-01-01T23:59:01+00:00");
    }

    #[test]
    fn shown_times_are_limited_to_1970_to_9999() {
        assert_eq!(http_date(-1), http_date(0));
        assert_eq!(http_date(i64::MIN), http_date(0));
        assert_eq!(http_date(i64::MAX), http_date(LAST_SECOND));
        assert_eq!(
            http_date(LAST_SECOND).as_str(),
            "Fri, 31 Dec 9999 23:59:59 GMT"
        );
        assert_eq!(iso8601(0, -HOUR).as_str(), "1970-01-01T00:00:00-01:00");
        assert_eq!(
            iso8601(LAST_SECOND, HOUR).as_str(),
            "9999-12-31T23:59:59+01:00"
        );
        // The instant is out of the range, and the local time is within it.
        assert_eq!(iso8601(-1, HOUR).as_str(), "1970-01-01T00:59:59+01:00");
        assert_eq!(
            iso8601(LAST_SECOND + 1, -HOUR).as_str(),
            "9999-12-31T23:00:00-01:00"
        );
    }

    #[test]
    fn an_extreme_offset_keeps_the_layout() {
        assert_eq!(iso8601(0, i32::MAX).as_str(), "2038-01-19T03:14:07+99:59");
        assert_eq!(iso8601(0, i32::MIN).as_str(), "1970-01-01T00:00:00-99:59");
    }

    #[test]
    fn every_conversion_of_a_stamp_gives_its_text() {
        let stamp = syslog_time(0, 0);
        assert_eq!(stamp.as_bytes(), b"Jan  1 00:00:00");
        assert_eq!(&*stamp, "Jan  1 00:00:00");
        assert_eq!(
            format!("{stamp:>17}|{stamp:?}"),
            "  Jan  1 00:00:00|\"Jan  1 00:00:00\""
        );
        assert_eq!(
            AsRef::<[u8]>::as_ref(&stamp),
            AsRef::<str>::as_ref(&stamp).as_bytes()
        );
    }
}
