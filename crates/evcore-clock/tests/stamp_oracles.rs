//! Compares the layouts of time stamps with `httpdate` and `jiff`, which share no code with this
//! crate.

use std::time::{Duration, UNIX_EPOCH};

use evcore_clock::stamp;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use proptest::prelude::*;

/// 9999-12-31T23:59:59.
const LAST_SECOND: i64 = 253_402_300_799;

/// Every quarter of an hour from -14:00 to +14:00, in seconds.
///
/// All offsets in use today are among them, from -12:00 to +14:00, with +05:45, +08:45 and +12:45.
fn every_offset() -> impl Iterator<Item = i32> {
    (-56..=56).map(|quarters| quarters * 900)
}

/// Local times from 1970 on, whose instants are within jiff's range at each offset.
fn local_seconds() -> impl Strategy<Value = i64> {
    0..Timestamp::MAX.as_second() - 14 * 3_600
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
    fn http_dates_agree_with_httpdate(unix_seconds in 0..=LAST_SECOND) {
        let time = UNIX_EPOCH + Duration::from_secs(unix_seconds.unsigned_abs());
        let ours = stamp::http_date(unix_seconds);
        prop_assert_eq!(ours.as_str(), httpdate::fmt_http_date(time));
        prop_assert_eq!(httpdate::parse_http_date(&ours).ok(), Some(time));
    }

    #[test]
    fn no_input_breaks_a_layout(unix_seconds in any::<i64>(), offset in any::<i32>()) {
        // Only the digits, and the sign of the offset, may differ. Every other character stays in
        // its place.
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

proptest! {
    // Each case tries all offsets.
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn local_times_agree_with_jiff_at_every_offset(local in local_seconds()) {
        for offset in every_offset() {
            let unix_seconds = local - i64::from(offset);
            let zoned = zoned(unix_seconds, offset);
            let theirs = |layout| zoned.strftime(layout).to_string();

            let ours = stamp::error_log_time(unix_seconds, offset);
            prop_assert_eq!(ours.as_str(), theirs("%Y/%m/%d %H:%M:%S"));
            let ours = stamp::access_log_time(unix_seconds, offset);
            prop_assert_eq!(ours.as_str(), theirs("%d/%b/%Y:%H:%M:%S %z"));
            let ours = stamp::syslog_time(unix_seconds, offset);
            prop_assert_eq!(ours.as_str(), theirs("%b %e %H:%M:%S"));
            let ours = stamp::iso8601(unix_seconds, offset);
            prop_assert_eq!(ours.as_str(), theirs("%Y-%m-%dT%H:%M:%S%:z"));
            let parsed: Timestamp = ours.parse().expect("ISO 8601");
            prop_assert_eq!(parsed.as_second(), unix_seconds);
        }
    }
}
