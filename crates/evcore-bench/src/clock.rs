//! Clocks: a read and an HTTP date; also of the shared clock, while another thread updates it.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use evcore_clock::{Clock, SharedClock, stamp};

use crate::report::Report;
use crate::run::{self, Run, ns_each};

/// How often a round reads.
const READS: usize = 1 << 20;

/// How often the shared clock is updated meanwhile: a loop with little to do.
const UPDATE_EVERY: Duration = Duration::from_millis(1);

/// Measures all clocks.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    run::crate_versions(report, &["coarsetime", "httpdate", "quanta"]);
    let (shared, over) = (SharedClock::system(), AtomicBool::new(false));
    thread::scope(|scope| {
        let updating = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                shared.update();
                thread::park_timeout(UPDATE_EVERY);
            }
        });
        run.rounds("clock", || {
            let reads = run.scaled(READS);
            for (table, rows) in [
                ("read", read(&shared, reads)),
                ("date", date(&shared, reads)),
            ] {
                for (name, ns) in &rows[1..] {
                    let (_, loops) = rows[0];
                    report.add(table, name, "ns", f64::max(ns - loops, 0.0));
                }
            }
        });
        over.store(true, Ordering::Relaxed);
        updating.thread().unpark();
    });
}

/// Nanoseconds of each read.
fn ns<T>(reads: usize, mut read: impl FnMut() -> T) -> f64 {
    ns_each(reads, || {
        for _ in 0..reads {
            black_box(read());
        }
    })
}

/// The measuring loop, then each peer.
fn read(shared: &SharedClock, n: usize) -> Vec<(&'static str, f64)> {
    let (clock, quanta) = (Clock::system(), quanta::Clock::new());
    quanta::set_recent(quanta.now());
    // Seen through `black_box`, or the compiler would read once for all.
    let cached = || black_box(&clock).monotonic_ms();
    vec![
        ("loop", ns(n, || ())),
        ("Instant::now", ns(n, Instant::now)),
        ("SystemTime::now", ns(n, SystemTime::now)),
        ("Clock::monotonic_ms", ns(n, cached)),
        ("SharedClock::monotonic_ns", ns(n, || shared.monotonic_ns())),
        ("SharedClock::snapshot", ns(n, || shared.snapshot())),
        ("quanta now", ns(n, || quanta.now())),
        ("quanta recent", ns(n, || quanta.recent())),
        ("coarsetime now", ns(n, coarsetime::Instant::now)),
        ("coarsetime recent", ns(n, coarsetime::Instant::recent)),
    ]
}

/// The same with an append of the date to a response that is about to be sent.
fn date(shared: &SharedClock, n: usize) -> Vec<(&'static str, f64)> {
    const SECONDS: u32 = 1_774_746_000;
    let (clock, response) = (Clock::system(), &mut Vec::with_capacity(64));
    let mut append = |date: &[u8]| {
        response.clear();
        response.extend_from_slice(date);
        black_box(&mut *response);
    };
    let unix = || UNIX_EPOCH + Duration::from_secs(black_box(SECONDS).into());
    let formatted = || stamp::http_date(black_box(SECONDS).into());
    vec![
        ("loop", ns(n, || append(b""))),
        (
            "Instant::now",
            ns(n, || (black_box(Instant::now()), append(b""))),
        ),
        (
            "Clock::http_date",
            ns(n, || append(black_box(&clock).http_date().as_bytes())),
        ),
        (
            "SharedClock::http_date",
            ns(n, || append(shared.http_date().as_bytes())),
        ),
        ("stamp::http_date", ns(n, || append(formatted().as_bytes()))),
        (
            "httpdate",
            ns(n, || append(httpdate::fmt_http_date(unix()).as_bytes())),
        ),
    ]
}
