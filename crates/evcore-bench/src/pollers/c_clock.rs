//! The C library's clocks, read as directly as the project's own source reads the kernel's.
//!
//! valgrind cannot run rustix's clocks. The standard library's take more instructions than the work
//! that is counted.

#![allow(unsafe_code, reason = "it calls the C library")]

use evcore::clock::{TimeSource, WallTime};

/// The clocks of the C library.
#[derive(Clone, Copy, Debug)]
pub(super) struct CClock;

impl TimeSource for CClock {
    fn monotonic_ns(&self) -> u64 {
        let time = time_of(libc::CLOCK_MONOTONIC);
        u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("it counts from a start")
    }

    fn wall_time(&self) -> WallTime {
        let time = time_of(libc::CLOCK_REALTIME);
        WallTime {
            unix_seconds: time.tv_sec,
            subsecond_ns: u32::try_from(time.tv_nsec).expect("less than a second"),
        }
    }
}

fn time_of(clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: there is a place for the time.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "every system has these clocks");
    time
}
