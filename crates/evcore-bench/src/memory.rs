//! The memory of idle connections: the part of the C library's heap that the tables of the event
//! loop take. Memory in the kernel is not included.

#![allow(unsafe_code, reason = "it calls `mallinfo2`")]

use std::os::fd::OwnedFd;
use std::time::Duration;

use evcore::poller::BackendKind;
use evcore::{EventLoop, Interest, Mode, Timer, Token, TokenMap};
use rustix::event::{EventfdFlags, eventfd};

use crate::report::Report;
use crate::run::{Run, each};

/// Numbers of connections just before and just after tables double, and some in between.
const COUNTS: [usize; 10] = [
    1_000, 1_024, 1_025, 2_000, 4_096, 4_097, 8_192, 8_193, 12_000, 16_385,
];
const MOST: usize = 20_000;

/// Measures each number of connections once, because counts do not vary.
pub(crate) fn measure(_: &Run, report: &mut Report) {
    let left = crate::cpus::most_descriptors().min(MOST);
    let open = || eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor is left");
    let descriptors: Vec<OwnedFd> = std::iter::repeat_with(open).take(left).collect();
    for (name, kind) in [
        ("epoll", BackendKind::Epoll),
        ("poll", BackendKind::Poll),
        ("io_uring", BackendKind::IoUring),
    ] {
        let usable = EventLoop::builder().poller(kind).build();
        if report.or_absent(name, usable).is_none() {
            continue;
        }
        for (state, times) in [("full", 1), ("half full", 2)] {
            let peer = format!("{name}, {state}");
            for count in COUNTS
                .into_iter()
                .filter(|count| *count < left)
                .chain([left])
            {
                let bytes = bytes(&descriptors[..count], kind, count * times);
                report.add("memory", &peer, &count.to_string(), bytes);
            }
        }
    }
}

/// The bytes of the heap for each connection, without the bytes of an empty loop.
fn bytes(descriptors: &[OwnedFd], kind: BackendKind, room: usize) -> f64 {
    let room = u32::try_from(room).expect("a count of descriptors");
    let built = EventLoop::builder().connections(room).poller(kind).build();
    let (mut ev, mut conns) = (built.expect("a descriptor is left"), TokenMap::new());
    let before = heap();
    for fd in descriptors {
        let added = ev.add(fd, Interest::READ, Mode::Edge);
        let token: Token = added.expect("it is not watched yet");
        conns.insert(token, ());
        ev.arm(token, Timer::READ, Duration::from_secs(60));
        ev.set_idle(token);
    }
    each(heap() - before, descriptors.len())
}

pub(crate) fn heap() -> u64 {
    // SAFETY: the call has no argument, and no other thread uses the heap meanwhile.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}
