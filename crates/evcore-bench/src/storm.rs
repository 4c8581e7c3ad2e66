//! Measures a storm and a drop. In a storm, all registrations become ready at the same time, and
//! the program removes each when the poller reports it. In a drop, the program drops a poller that
//! still has all of its registrations.

use std::os::fd::OwnedFd;
use std::time::Duration;

use evcore_poller::{BackendKind, Events, Interest, Mode, Poller};
use rustix::event::{EventfdFlags, eventfd};

use crate::report::Report;
use crate::run::{Run, cpu_ns, ns_each};

const COUNTS: [usize; 3] = [4_000, 8_000, 16_000];

const BATCH: usize = 512;

const NOW: Option<Duration> = Some(Duration::ZERO);

pub(crate) fn measure(run: &Run, report: &mut Report) {
    let peers = [
        ("epoll", BackendKind::Epoll),
        ("io_uring", BackendKind::IoUring),
    ];
    let peers = peers.map(|(name, kind)| {
        report
            .or_absent(name, Poller::with(kind))
            .map(|_| (name, kind))
    });
    let left = crate::cpus::most_descriptors();
    for count in COUNTS {
        if count > left {
            report.absent(&format!("{count}"), "there may not be as many descriptors");
            continue;
        }
        let files: Vec<OwnedFd> = std::iter::repeat_with(open).take(count).collect();
        let column = count.to_string();
        run.rounds(&format!("storm: {count} registrations"), || {
            for &(name, kind) in peers.iter().flatten() {
                let mut longest = 0;
                let all = storm(kind, &files, remove);
                storm(kind, &files, |poller, key| {
                    let before = cpu_ns();
                    remove(poller, key);
                    longest = longest.max(cpu_ns() - before);
                });
                let poller = watching(kind, &files);
                let dropped = ns_each(1, || drop(poller));
                report.add("storm", name, &column, all / 1e6);
                report.add("removal", name, &column, longest as f64 / 1e3);
                report.add("drop", name, &column, dropped / 1e6);
            }
        });
    }
}

fn open() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor is left")
}

/// Returns a poller whose registrations have all reached the kernel.
fn watching(kind: BackendKind, files: &[OwnedFd]) -> Poller {
    let mut poller = Poller::with(kind).expect("there was one before");
    for (key, file) in (0..).zip(files) {
        let added = poller.add(file, key, Interest::READ, Mode::Edge);
        added.expect("it is not watched yet");
    }
    let mut events = Events::bounded(BATCH);
    poller.wait(&mut events, NOW).expect("no signal comes");
    assert!(events.is_empty(), "nothing is ready");
    poller
}

/// Makes all files ready, and calls `end` for each when it is reported. Returns the CPU time in ns
/// from the first wait to the last removal.
fn storm(kind: BackendKind, files: &[OwnedFd], mut end: impl FnMut(&mut Poller, u64)) -> f64 {
    let mut poller = watching(kind, files);
    for file in files {
        rustix::io::write(file, &1_u64.to_ne_bytes()).expect("the counter is not full");
    }
    let (mut events, mut left) = (Events::bounded(BATCH), files.len());
    let ns = ns_each(1, || {
        while left > 0 {
            poller.wait(&mut events, NOW).expect("no signal comes");
            assert!(!events.is_empty(), "{left} were not reported");
            left -= events.len();
            for event in &events {
                end(&mut poller, event.key);
            }
        }
    });
    for file in files {
        rustix::io::read(file, &mut [0; 8]).expect("it is ready");
    }
    ns
}

fn remove(poller: &mut Poller, key: u64) {
    poller.remove(key).expect("it is registered");
}
