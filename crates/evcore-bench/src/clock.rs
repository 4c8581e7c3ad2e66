//! Clocks: a read, an HTTP date, an update; and the shared one, while another thread updates it.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use evcore_clock::{Clock, SharedClock, stamp};

use crate::record;
use crate::watch::{ROUNDS, ns_each};

/// How often a round reads.
const READS: usize = 1 << 20;

/// How often the shared clock is updated meanwhile: a loop with little to do.
const UPDATE_EVERY: Duration = Duration::from_millis(1);

/// A name, and a function that makes this many reads.
struct Peer<'a> {
    workload: &'static str,
    name: &'static str,
    round: Box<dyn FnMut(usize) + 'a>,
}

impl<'a> Peer<'a> {
    fn new<T>(
        workload: &'static str,
        name: &'static str,
        mut read: impl FnMut() -> T + 'a,
    ) -> Peer<'a> {
        let round = move |reads| {
            for _ in 0..reads {
                black_box(read());
            }
        };
        Peer {
            workload,
            name,
            round: Box::new(round),
        }
    }
}

/// Measures, and prints the records.
pub(crate) fn measure() {
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
        peers.extend(updates());
        take_turns(&mut peers);
        over.store(true, Ordering::Relaxed);
        updating.thread().unpark();
    });
}

fn take_turns(peers: &mut [Peer<'_>]) {
    let mut figures: Vec<Vec<f64>> = peers.iter().map(|_| Vec::new()).collect();
    for round in 1..=ROUNDS {
        eprintln!("clock: round {round} of {ROUNDS}");
        for (peer, figures) in peers.iter_mut().zip(&mut figures) {
            figures.push(ns_each(READS, || (peer.round)(READS)));
        }
    }
    for (peer, figures) in peers.iter().zip(&figures) {
        record::times(peer.workload, 1, peer.name, figures);
    }
}

fn reads(shared: &SharedClock) -> Vec<Peer<'_>> {
    let workload = "clock/read";
    let clock = Clock::system();
    let quanta = quanta::Clock::new();
    quanta::set_recent(quanta.now());
    vec![
        Peer::new(workload, "loop", || ()),
        Peer::new(workload, "Instant::now", Instant::now),
        Peer::new(workload, "SystemTime::now", SystemTime::now),
        // Seen through `black_box`, or the compiler would read once for all.
        Peer::new(workload, "Clock::monotonic_ms", move || {
            black_box(&clock).monotonic_ms()
        }),
        Peer::new(workload, "SharedClock::monotonic_ns", || {
            shared.monotonic_ns()
        }),
        Peer::new(workload, "SharedClock::snapshot", || shared.snapshot()),
        Peer::new(workload, "quanta now", {
            let quanta = quanta.clone();
            move || quanta.now()
        }),
        Peer::new(workload, "quanta recent", move || quanta.recent()),
        Peer::new(workload, "coarsetime now", coarsetime::Instant::now),
        Peer::new(workload, "coarsetime recent", coarsetime::Instant::recent),
    ]
}

/// Each appends the date to a response that is about to be sent.
fn dates(shared: &SharedClock) -> Vec<Peer<'_>> {
    let workload = "clock/date";
    let clock = Clock::system();
    vec![
        appending(workload, "loop", |_| ()),
        appending(workload, "Instant::now", |_| {
            black_box(Instant::now());
        }),
        appending(workload, "Clock::http_date", move |response| {
            response.extend_from_slice(black_box(&clock).http_date().as_bytes());
        }),
        appending(workload, "SharedClock::http_date", |response| {
            response.extend_from_slice(shared.http_date().as_bytes());
        }),
        appending(workload, "stamp::http_date", |response| {
            let seconds = black_box(1_774_746_000);
            response.extend_from_slice(stamp::http_date(seconds).as_bytes());
        }),
        appending(workload, "httpdate", |response| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(black_box(1_774_746_000));
            response.extend_from_slice(httpdate::fmt_http_date(time).as_bytes());
        }),
    ]
}

fn appending<'a>(
    workload: &'static str,
    name: &'static str,
    mut append: impl FnMut(&mut Vec<u8>) + 'a,
) -> Peer<'a> {
    let mut response = Vec::with_capacity(64);
    Peer::new(workload, name, move || {
        response.clear();
        append(&mut response);
        black_box(&mut response);
    })
}

/// Once a turn of the loop.
fn updates() -> Vec<Peer<'static>> {
    let workload = "clock/update";
    let mut clock = Clock::system();
    let shared = SharedClock::system();
    vec![
        Peer::new(workload, "loop", || ()),
        Peer::new(workload, "Instant::now", Instant::now),
        Peer::new(workload, "Clock::update", move || clock.update()),
        Peer::new(workload, "SharedClock::update", move || shared.update()),
        Peer::new(workload, "quanta upkeep", {
            let quanta = quanta::Clock::new();
            move || quanta::set_recent(quanta.now())
        }),
        Peer::new(workload, "coarsetime update", coarsetime::Instant::update),
    ]
}
