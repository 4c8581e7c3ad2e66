//! Tests local time in a zone with daylight saving.

use std::time::Duration;

use evcore_clock::{Clock, ManualTimeSource, SharedClock, TimeSource, WallTime};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Central European time by its rule, so that no zone database is needed.
const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

/// 2026-03-29T01:00:00Z.
const SPRING_FORWARD: i64 = 1_774_746_000;

/// 2026-10-25T01:00:00Z.
const FALL_BACK: i64 = 1_792_890_000;

struct InZone {
    time: ManualTimeSource,
    zone: TimeZone,
}

impl TimeSource for InZone {
    fn monotonic_ns(&self) -> u64 {
        self.time.monotonic_ns()
    }

    fn wall_time(&self) -> WallTime {
        self.time.wall_time()
    }

    fn offset_at(&self, unix_seconds: i64) -> i32 {
        let instant = Timestamp::from_second(unix_seconds).expect("within jiff's range");
        self.zone.to_offset(instant).seconds()
    }
}

/// The local times one second before a change and at the change. Asserts that both kinds of clock
/// agree.
fn around(change: i64) -> [String; 2] {
    let time = ManualTimeSource::at(change - 1);
    let berlin = || InZone {
        time: time.clone(),
        zone: TimeZone::posix(BERLIN).expect("a valid rule"),
    };
    let mut clock = Clock::with_source(berlin());
    let shared = SharedClock::with_source(berlin());
    let before = clock.access_log_time().to_string();
    assert_eq!(shared.snapshot().access_log_time().as_str(), before);

    time.advance(Duration::from_secs(1));
    clock.update();
    shared.update();
    let after = clock.access_log_time().to_string();
    assert_eq!(shared.snapshot().access_log_time().as_str(), after);
    [before, after]
}

#[test]
fn an_hour_is_skipped_in_spring() {
    assert_eq!(
        around(SPRING_FORWARD),
        ["29/Mar/2026:01:59:59 +0100", "29/Mar/2026:03:00:00 +0200"]
    );
}

#[test]
fn an_hour_is_repeated_in_autumn() {
    assert_eq!(
        around(FALL_BACK),
        ["25/Oct/2026:02:59:59 +0200", "25/Oct/2026:02:00:00 +0100"]
    );
}

#[test]
fn a_new_offset_is_shown_from_the_next_second() {
    let time = ManualTimeSource::at(SPRING_FORWARD - 1);
    time.set_offset(3_600);
    let mut clock = Clock::with_source(time.clone());
    assert_eq!(clock.iso8601().as_str(), "2026-03-29T01:59:59+01:00");
    time.set_offset(7_200);
    clock.update();
    assert_eq!(clock.iso8601().as_str(), "2026-03-29T01:59:59+01:00");
    time.advance(Duration::from_secs(1));
    clock.update();
    assert_eq!(clock.iso8601().as_str(), "2026-03-29T03:00:00+02:00");
    assert_eq!(clock.offset(), 7_200);
}
