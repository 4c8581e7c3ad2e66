//! A program that reads the clock runs under valgrind.
//!
//! valgrind 3.19 unmaps the vDSO, but `prctl(PR_GET_AUXV)` still returns its address. A program
//! that trusts this address ends by a SIGSEGV.

use evcore_clock::{Clock, SharedClock};
use evcore_testing::under_valgrind;

#[test]
fn a_clock_can_be_read_under_valgrind() {
    under_valgrind(|| {
        let mut clock = Clock::system();
        clock.update();
        assert!(clock.monotonic_ns() > 0 && clock.unix_seconds() > 0);
        assert!(SharedClock::system().update());
    });
}
