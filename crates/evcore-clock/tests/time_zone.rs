//! Tests the time zone of `SystemTimeSource`, the operating system's time.
//!
//! A process has one zone, so each test runs itself again in a child process with another `TZ`.
#![cfg(feature = "local-time")]

use std::path::Path;
use std::process::Command;

use evcore_clock::{SystemTimeSource, TimeSource};
use evcore_testing::not_run;

/// 2026-01-15T12:00:00Z and 2026-07-15T12:00:00Z.
const WINTER: i64 = 1_768_478_400;
const SUMMER: i64 = 1_784_116_800;

/// The environment variable that passes the expected offsets, in winter and in summer, to the child
/// process.
const EXPECTED: &str = "EVCORE_CLOCK_TEST_OFFSETS";

fn assert_offsets_with_zone(test: &str, zone: &str, expected: [i32; 2]) {
    if let Ok(expected) = std::env::var(EXPECTED) {
        let source = SystemTimeSource::new();
        let found = [source.offset_at(WINTER), source.offset_at(SUMMER)];
        assert_eq!(format!("{found:?}"), expected);
        return;
    }
    let child = Command::new(std::env::current_exe().expect("our own path"))
        .args(["--exact", test])
        .env("TZ", zone)
        .env(EXPECTED, format!("{expected:?}"))
        .output()
        .expect("the child starts");
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "with TZ={zone}: {output}");
    assert!(output.contains("1 passed"), "no test ran: {output}");
}

#[test]
fn a_posix_rule_in_tz_is_used() {
    assert_offsets_with_zone(
        "a_posix_rule_in_tz_is_used",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        [3_600, 7_200],
    );
}

#[test]
fn a_zone_name_in_tz_is_found_in_the_database() {
    if !Path::new("/usr/share/zoneinfo/Asia/Kathmandu").exists() {
        not_run("this machine has no time zone database");
        return;
    }
    assert_offsets_with_zone(
        "a_zone_name_in_tz_is_found_in_the_database",
        "Asia/Kathmandu",
        [20_700, 20_700],
    );
}

#[test]
fn an_unknown_zone_is_utc() {
    assert_offsets_with_zone("an_unknown_zone_is_utc", "Nowhere/At_All", [0, 0]);
}
