//! Clocks: a read and an HTTP date; also of the shared clock, while another thread updates it.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

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
            for (table, peers) in [("read", read as Peers), ("date", append as Peers)] {
                let mut round = Round {
                    table,
                    reads: run.scaled(READS),
                    loops: 0.0,
                    report,
                };
                peers(&shared, &mut round);
            }
        });
        over.store(true, Ordering::Relaxed);
        updating.thread().unpark();
    });
}

type Peers = fn(&SharedClock, &mut Round<'_>);

/// A round of one table.
struct Round<'a> {
    table: &'static str,
    reads: usize,
    /// What the measuring loop takes.
    loops: f64,
    report: &'a mut Report,
}

impl Round<'_> {
    fn loops<T>(&mut self, read: impl FnMut() -> T) {
        self.loops = self.ns(read);
    }

    fn peer<T>(&mut self, name: &str, read: impl FnMut() -> T) {
        let ns = f64::max(self.ns(read) - self.loops, 0.0);
        self.report.add(self.table, name, "ns", ns);
    }

    fn ns<T>(&self, mut read: impl FnMut() -> T) -> f64 {
        ns_each(self.reads, || {
            for _ in 0..self.reads {
                black_box(read());
            }
        })
    }
}

fn read(shared: &SharedClock, round: &mut Round<'_>) {
    let (clock, quanta) = (Clock::system(), quanta::Clock::new());
    quanta::set_recent(quanta.now());
    round.loops(|| ());
    round.peer("Instant::now", Instant::now);
    round.peer("SystemTime::now", SystemTime::now);
    // Seen through `black_box`, or the compiler would read once for all.
    round.peer("Clock::monotonic_ms", || black_box(&clock).monotonic_ms());
    round.peer("SharedClock::monotonic_ns", || shared.monotonic_ns());
    round.peer("SharedClock::snapshot", || shared.snapshot());
    round.peer("quanta now", || quanta.now());
    round.peer("quanta recent", || quanta.recent());
    round.peer("coarsetime now", coarsetime::Instant::now);
    round.peer("coarsetime recent", coarsetime::Instant::recent);
}

/// Each appends the date to a response that is about to be sent.
fn append(shared: &SharedClock, round: &mut Round<'_>) {
    let (clock, response) = (Clock::system(), &mut Vec::with_capacity(64));
    round.loops(|| appended(response, b""));
    round.peer("Instant::now", || {
        black_box(Instant::now());
        appended(response, b"");
    });
    round.peer("Clock::http_date", || {
        appended(response, black_box(&clock).http_date().as_bytes());
    });
    round.peer("SharedClock::http_date", || {
        appended(response, shared.http_date().as_bytes());
    });
    round.peer("stamp::http_date", || {
        let date = stamp::http_date(black_box(1_774_746_000));
        appended(response, date.as_bytes());
    });
    round.peer("httpdate", || {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(black_box(1_774_746_000));
        appended(response, httpdate::fmt_http_date(time).as_bytes());
    });
}

fn appended(response: &mut Vec<u8>, date: &[u8]) {
    response.clear();
    response.extend_from_slice(date);
    black_box(response);
}
