//! The layouts against `httpdate` and `jiff`, which share no code with ours.

use std::time::{Duration, UNIX_EPOCH};

use evcore_clock::stamp;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use proptest::prelude::*;

/// 9999-12-31T23:59:59.
const LAST_SECOND: i64 = 253_402_300_799;

/// From -14:00 to +14:00 by quarters of an hour, the whole hours and halves among them.
fn offset_seconds() -> impl Strategy<Value = i32> {
    (-56..=56_i32).prop_map(|quarters| quarters * 900)
}

/// Instants whose local time is from 1970 to jiff's last instant, which is a day before ours.
fn local_instant() -> impl Strategy<Value = (i64, i32)> {
    let utc = 0..Timestamp::MAX.as_second() - 14 * 3_600;
    (utc, offset_seconds()).prop_map(|(local, offset)| (local - i64::from(offset), offset))
}

fn zoned(unix_seconds: i64, offset_seconds: i32) -> Zoned {
    let offset = Offset::from_seconds(offset_seconds).expect("within a day");
    Timestamp::from_second(unix_seconds)
        .expect("within jiff's range")
        .to_zoned(TimeZone::fixed(offset))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn http_dates_are_those_of_httpdate(unix_seconds in 0..=LAST_SECOND) {
        let time = UNIX_EPOCH + Duration::from_secs(unix_seconds.unsigned_abs());
        let ours = stamp::http_date(unix_seconds);
        prop_assert_eq!(ours.as_str(), httpdate::fmt_http_date(time));
        prop_assert_eq!(httpdate::parse_http_date(&ours).ok(), Some(time));
    }

    #[test]
    fn local_times_are_those_of_jiff((unix_seconds, offset) in local_instant()) {
        let ours = [
            stamp::error_log_time(unix_seconds, offset).to_string(),
            stamp::access_log_time(unix_seconds, offset).to_string(),
            stamp::iso8601(unix_seconds, offset).to_string(),
            stamp::syslog_time(unix_seconds, offset).to_string(),
        ];
        let zoned = zoned(unix_seconds, offset);
        let theirs = [
            "%Y/%m/%d %H:%M:%S",
            "%d/%b/%Y:%H:%M:%S %z",
            "%Y-%m-%dT%H:%M:%S%:z",
            "%b %e %H:%M:%S",
        ]
        .map(|layout| zoned.strftime(layout).to_string());
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn an_iso_time_is_read_back_as_the_instant_it_was((unix_seconds, offset) in local_instant()) {
        let parsed: Timestamp = stamp::iso8601(unix_seconds, offset).parse().expect("ISO 8601");
        prop_assert_eq!(parsed.as_second(), unix_seconds);
    }

    #[test]
    fn no_input_breaks_a_layout(unix_seconds in any::<i64>(), offset in any::<i32>()) {
        // Every digit has become another digit at most: what stands between them is in its place.
        let shape = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "0").replace('-', "+");
        prop_assert_eq!(
            shape(&stamp::iso8601(unix_seconds, offset)),
            shape("0000-00-00T00:00:00+00:00")
        );
        prop_assert_eq!(
            shape(&stamp::error_log_time(unix_seconds, offset)),
            "0000/00/00 00:00:00"
        );
    }
}
