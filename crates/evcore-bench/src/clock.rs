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

/// A table, a name, and a function that makes this many reads.
struct Peer<'a> {
    table: &'static str,
    name: &'static str,
    round: Box<dyn FnMut(usize) + 'a>,
}

impl<'a> Peer<'a> {
    fn new<T>(
        table: &'static str,
        name: &'static str,
        mut read: impl FnMut() -> T + 'a,
    ) -> Peer<'a> {
        let round = move |reads| {
            for _ in 0..reads {
                black_box(read());
            }
        };
        let round = Box::new(round);
        Peer { table, name, round }
    }
}

/// Measures all clocks.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    run::crate_versions(report, &["coarsetime", "httpdate", "quanta"]);
    declare(report);
    let shared = SharedClock::system();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let updating = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                shared.update();
                thread::park_timeout(UPDATE_EVERY);
            }
        });
        let mut peers = reads(&shared);
        peers.extend(dates(&shared));
        let reads = run.scaled(READS);
        run.rounds("clock", || {
            let mut loops = 0.0;
            for peer in &mut peers {
                let ns = ns_each(reads, || (peer.round)(reads));
                if peer.name == LOOP {
                    loops = ns;
                } else {
                    report.add(peer.table, peer.name, "ns", f64::max(ns - loops, 0.0));
                }
            }
        });
        over.store(true, Ordering::Relaxed);
        updating.thread().unpark();
    });
}

fn declare(report: &mut Report) {
    let tables = [
        (
            "read",
            "Read the time",
            "`SharedClock` while another thread updates it every millisecond; its snapshot has all \
             numbers and strings. `quanta recent` and `coarsetime recent` are cached too; nothing \
             updates them here.",
        ),
        (
            "date",
            "Append the HTTP date",
            "29 bytes to a vector with room. `Clock` and `SharedClock` have the text ready, \
             `stamp::http_date` and `httpdate` format it. `Instant::now` is the baseline and \
             appends nothing.",
        ),
    ];
    for (name, title, text) in tables {
        let text = format!("{text} The cost of the measuring loop is subtracted.");
        report
            .table(name, title, "ns", &text)
            .compared_with("Instant::now");
    }
}

/// The peer that measures the loop itself, first in its table.
const LOOP: &str = "loop";

fn reads(shared: &SharedClock) -> Vec<Peer<'_>> {
    let table = "read";
    let clock = Clock::system();
    let quanta = quanta::Clock::new();
    quanta::set_recent(quanta.now());
    vec![
        Peer::new(table, LOOP, || ()),
        Peer::new(table, "Instant::now", Instant::now),
        Peer::new(table, "SystemTime::now", SystemTime::now),
        // Seen through `black_box`, or the compiler would read once for all.
        Peer::new(table, "Clock::monotonic_ms", move || {
            black_box(&clock).monotonic_ms()
        }),
        Peer::new(table, "SharedClock::monotonic_ns", || shared.monotonic_ns()),
        Peer::new(table, "SharedClock::snapshot", || shared.snapshot()),
        Peer::new(table, "quanta now", {
            let quanta = quanta.clone();
            move || quanta.now()
        }),
        Peer::new(table, "quanta recent", move || quanta.recent()),
        Peer::new(table, "coarsetime now", coarsetime::Instant::now),
        Peer::new(table, "coarsetime recent", coarsetime::Instant::recent),
    ]
}

/// Each appends the date to a response that is about to be sent.
fn dates(shared: &SharedClock) -> Vec<Peer<'_>> {
    let table = "date";
    let clock = Clock::system();
    vec![
        appending(table, LOOP, |_| ()),
        appending(table, "Instant::now", |_| {
            black_box(Instant::now());
        }),
        appending(table, "Clock::http_date", move |response| {
            response.extend_from_slice(black_box(&clock).http_date().as_bytes());
        }),
        appending(table, "SharedClock::http_date", |response| {
            response.extend_from_slice(shared.http_date().as_bytes());
        }),
        appending(table, "stamp::http_date", |response| {
            let seconds = black_box(1_774_746_000);
            response.extend_from_slice(stamp::http_date(seconds).as_bytes());
        }),
        appending(table, "httpdate", |response| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(black_box(1_774_746_000));
            response.extend_from_slice(httpdate::fmt_http_date(time).as_bytes());
        }),
    ]
}

fn appending<'a>(
    table: &'static str,
    name: &'static str,
    mut append: impl FnMut(&mut Vec<u8>) + 'a,
) -> Peer<'a> {
    let mut response = Vec::with_capacity(64);
    Peer::new(table, name, move || {
        response.clear();
        append(&mut response);
        black_box(&mut response);
    })
}
