//! On Linux, a loop with a timer resolution has a ticker: a descriptor whose ticks update the
//! clock. If the ticker cannot be read, the wait fails and loses no event.

use std::{io::Write, os::unix::net::UnixStream, time::Duration};

use evcore::{Budgets, Error, EventLoop, Interest, Mode, Step};
use evcore_tests::without;

#[test]
fn events_of_a_wait_whose_ticker_fails_are_kept() {
    without(libc::SYS_read, libc::EIO, || {
        // A wait that fills its batch reads the ticker.
        let budgets = Budgets {
            batch: 1,
            ..Budgets::default()
        };
        let mut ev = EventLoop::builder()
            .budgets(budgets)
            .timer_resolution(Duration::from_secs(3600))
            .build()
            .expect("a loop");
        let (mut near, far) = UnixStream::pair().expect("two streams");
        let token = ev.add(&far, Interest::READ, Mode::Edge).expect("a token");
        near.write_all(b"x").expect("a byte");

        assert!(matches!(ev.wait(), Err(Error::Ticker(_))));
        let timeout = ev.prepare().expect("a timeout").timeout;
        assert_eq!(timeout, Some(Duration::ZERO), "the event is kept");
        ev.wait_at_most(timeout).expect("no tick to read");
        assert!(matches!(ev.next_step(), Some(Step::Ready(ready, _)) if ready == token));
    });
}
