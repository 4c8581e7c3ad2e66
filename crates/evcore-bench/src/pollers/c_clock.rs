//! The C library's clocks, whose readings are counted.
//!
//! The standard library's clocks take more instructions than the work that is counted, and valgrind
//! 3.19 cannot run the clocks of rustix.

#![allow(unsafe_code, reason = "it calls the C library")]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use evcore::clock::{TimeSource, WallTime};

/// The C library's clocks, with counts of all readings in this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct CClock;

static MONOTONIC: AtomicU64 = AtomicU64::new(0);
static WALL: AtomicU64 = AtomicU64::new(0);

pub(super) fn readings() -> [u64; 2] {
    [MONOTONIC.load(Relaxed), WALL.load(Relaxed)]
}

impl TimeSource for CClock {
    fn monotonic_ns(&self) -> u64 {
        let time = read(libc::CLOCK_MONOTONIC, &MONOTONIC);
        u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("it counts from a start")
    }

    fn wall_time(&self) -> WallTime {
        let time = read(libc::CLOCK_REALTIME, &WALL);
        WallTime {
            unix_seconds: time.tv_sec,
            subsecond_ns: u32::try_from(time.tv_nsec).expect("less than a second"),
        }
    }
}

fn read(clock: libc::clockid_t, readings: &AtomicU64) -> libc::timespec {
    readings.fetch_add(1, Relaxed);
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is the place for the result.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "every system has these clocks");
    time
}
