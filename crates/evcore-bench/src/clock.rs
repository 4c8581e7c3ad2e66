//! Clocks: the cost of a read and of an HTTP date. While the shared clock is read, another thread
//! updates it.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use evcore_clock::{Clock, SharedClock, stamp};

use crate::report::Report;
use crate::run::{Run, ns_each};

const READS: usize = 1 << 20;

/// Time between updates of the shared clock by the other thread, as in a loop with little to do.
const UPDATE_EVERY: Duration = Duration::from_millis(1);

pub(crate) fn measure(run: &Run, report: &mut Report) {
    let (shared, over) = (SharedClock::system(), AtomicBool::new(false));
    thread::scope(|scope| {
        let updating = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                shared.update();
                thread::park_timeout(UPDATE_EVERY);
            }
        });
        run.rounds("clock", || {
            let peers = read(&shared, run.scaled(READS));
            let (_, loops) = peers[0];
            for (name, ns) in &peers[1..] {
                report.add("read", name, "ns", f64::max(ns - loops, 0.0));
            }
        });
        over.store(true, Ordering::Relaxed);
        updating.thread().unpark();
    });
}

fn ns<T>(reads: usize, mut read: impl FnMut() -> T) -> f64 {
    ns_each(reads, || {
        for _ in 0..reads {
            black_box(read());
        }
    })
}

/// Times the measuring loop, and then each peer.
fn read(shared: &SharedClock, n: usize) -> Vec<(&'static str, f64)> {
    let (clock, quanta) = (Clock::system(), quanta::Clock::new());
    quanta::set_recent(quanta.now());
    // Without `black_box` the compiler would read only once.
    let clock = || black_box(&clock);
    let seconds = || black_box(1_774_746_000);
    let now = || UNIX_EPOCH + Duration::from_secs(seconds());
    vec![
        ("loop", ns(n, || ())),
        ("Instant::now", ns(n, Instant::now)),
        ("SystemTime::now", ns(n, SystemTime::now)),
        ("Clock::monotonic_ms", ns(n, || clock().monotonic_ms())),
        ("SharedClock::monotonic_ns", ns(n, || shared.monotonic_ns())),
        ("SharedClock::snapshot", ns(n, || shared.snapshot())),
        ("quanta now", ns(n, || quanta.now())),
        ("quanta recent", ns(n, || quanta.recent())),
        ("coarsetime now", ns(n, coarsetime::Instant::now)),
        ("coarsetime recent", ns(n, coarsetime::Instant::recent)),
        ("Clock::http_date", ns(n, || clock().http_date())),
        ("SharedClock::http_date", ns(n, || shared.http_date())),
        (
            "stamp::http_date",
            ns(n, || stamp::http_date(seconds() as i64)),
        ),
        ("httpdate", ns(n, || httpdate::fmt_http_date(now()))),
    ]
}
