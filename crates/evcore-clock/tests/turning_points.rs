//! Tests clocks at seconds at which calendars and counters roll over, and on a machine that was
//! suspended.

use std::time::Duration;

use evcore_clock::{Clock, ManualTimeSource, SharedClock};

/// The HTTP dates at a second and at the next one. Asserts that both kinds of clock agree.
fn across(unix_seconds: i64) -> [String; 2] {
    let time = ManualTimeSource::at(unix_seconds);
    let mut clock = Clock::with_source(time.clone());
    let shared = SharedClock::with_source(time.clone());
    [0, 1].map(|passed| {
        time.advance(Duration::from_secs(passed));
        clock.update();
        shared.update();
        assert_eq!(clock.unix_seconds(), unix_seconds + passed as i64);
        assert_eq!(shared.unix_seconds(), clock.unix_seconds());
        assert_eq!(shared.http_date(), clock.http_date());
        assert_eq!(shared.snapshot().iso8601(), clock.iso8601());
        clock.http_date().to_string()
    })
}

#[test]
fn the_second_after_31_bits_is_shown() {
    assert_eq!(
        across(i64::from(i32::MAX)),
        [
            "Tue, 19 Jan 2038 03:14:07 GMT",
            "Tue, 19 Jan 2038 03:14:08 GMT"
        ]
    );
}

#[test]
fn the_second_after_32_bits_is_shown() {
    assert_eq!(
        across(i64::from(u32::MAX)),
        [
            "Sun, 07 Feb 2106 06:28:15 GMT",
            "Sun, 07 Feb 2106 06:28:16 GMT"
        ]
    );
}

#[test]
fn leap_days_of_2024_and_2000_are_shown() {
    assert_eq!(
        across(1_709_164_799),
        [
            "Wed, 28 Feb 2024 23:59:59 GMT",
            "Thu, 29 Feb 2024 00:00:00 GMT"
        ]
    );
    assert_eq!(
        across(1_709_251_199),
        [
            "Thu, 29 Feb 2024 23:59:59 GMT",
            "Fri, 01 Mar 2024 00:00:00 GMT"
        ]
    );
    assert_eq!(
        across(951_868_799),
        [
            "Tue, 29 Feb 2000 23:59:59 GMT",
            "Wed, 01 Mar 2000 00:00:00 GMT"
        ]
    );
}

#[test]
fn no_leap_day_is_shown_in_2100() {
    assert_eq!(
        across(4_107_542_399),
        [
            "Sun, 28 Feb 2100 23:59:59 GMT",
            "Mon, 01 Mar 2100 00:00:00 GMT"
        ]
    );
}

#[test]
fn strings_stop_at_the_end_of_9999() {
    let last = "Fri, 31 Dec 9999 23:59:59 GMT";
    assert_eq!(across(253_402_300_799), [last, last]);
}

/// While a machine is suspended, its wall clock advances and its monotonic clock does not (on
/// Linux).
#[test]
fn a_suspension_advances_wall_time_only() {
    let time = ManualTimeSource::at(1_774_738_800);
    let mut clock = Clock::with_source(time.clone());
    let shared = SharedClock::with_source(time.clone());
    time.advance(Duration::from_millis(1_500));
    time.jump_wall(8 * 3_600);
    time.advance(Duration::from_millis(250));
    clock.update();
    shared.update();

    assert_eq!(clock.monotonic_ms(), 1_750);
    assert_eq!(clock.http_date().as_str(), "Sun, 29 Mar 2026 07:00:01 GMT");
    assert_eq!(shared.monotonic_ms(), clock.monotonic_ms());
    assert_eq!(shared.http_date(), clock.http_date());
}
