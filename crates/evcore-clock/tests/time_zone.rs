//! Where the system's source has its zone from.
//!
//! The zone is that of the process, so each test runs itself again in a child with another `TZ`.
#![cfg(feature = "local-time")]

use std::path::Path;
use std::process::Command;

use evcore_clock::{SystemTimeSource, TimeSource};

/// 2026-01-15T12:00:00Z and 2026-07-15T12:00:00Z.
const WINTER: i64 = 1_768_478_400;
const SUMMER: i64 = 1_784_116_800;

/// Set in the child: the winter's and the summer's offset that it must find.
const EXPECTED: &str = "EVCORE_CLOCK_TEST_OFFSETS";

fn runs_with_zone(test: &str, zone: &str, expected: [i32; 2]) {
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
fn a_rule_in_the_environment_is_followed() {
    runs_with_zone(
        "a_rule_in_the_environment_is_followed",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        [3_600, 7_200],
    );
}

#[test]
fn a_zone_named_in_the_environment_is_found_in_the_database() {
    if !Path::new("/usr/share/zoneinfo/Asia/Kathmandu").exists() {
        eprintln!("skipped: this machine has no zone database");
        return;
    }
    runs_with_zone(
        "a_zone_named_in_the_environment_is_found_in_the_database",
        "Asia/Kathmandu",
        [20_700, 20_700],
    );
}

#[test]
fn a_zone_that_nobody_knows_is_utc() {
    runs_with_zone("a_zone_that_nobody_knows_is_utc", "Nowhere/At_All", [0, 0]);
}
