//! `evcore`: the whole turn, with its timers.

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use evcore::clock::Clock;
use evcore::{Budgets, Builder, Connections, EventLoop, Interest, Mode, Step, Timer, Token};

use super::c_clock::CClock;
use super::peer_poller::{BATCH, PeerPoller, Setup};
use super::ring::Ring;

/// A loop, and whether each pair has a timer.
#[derive(Debug)]
pub(super) struct Facade {
    ev: EventLoop,
    first: Option<Token>,
    timers: bool,
}

impl Facade {
    pub(super) fn new(watched: &[OwnedFd], setup: Setup) -> Facade {
        Facade::of(EventLoop::builder(), watched, setup)
    }

    pub(super) fn of(builder: Builder, watched: &[OwnedFd], setup: Setup) -> Facade {
        // Others are closed again, or wait at a listener.
        let most = u32::try_from(2 * watched.len() + 1).expect("it is a count");
        let mut builder = builder.connections(most).budgets(Budgets {
            batch: BATCH,
            ..Budgets::default()
        });
        if setup.under_valgrind {
            builder = builder.clock(Clock::with_source(CClock));
        }
        let mut ev = builder.build().expect("there is a descriptor left");
        let mut first = None;
        // A fresh loop counts its indices from 0, so an index is the place in `watched`.
        for fd in watched {
            let added = ev.add(fd, Interest::READ, Mode::Level);
            let token = added.expect("it is not watched yet");
            first = first.or(Some(token));
            if setup.timers {
                ev.arm(token, Timer::READ, Duration::from_secs(10));
            }
        }
        let timers = setup.timers;
        Facade { ev, first, timers }
    }

    /// As a server that has closed a connection, which the kernel was left to forget.
    pub(super) fn after_a_close(watched: &[OwnedFd], setup: Setup) -> Facade {
        let mut facade = Facade::new(watched, setup);
        let (gone, _peer) = UnixStream::pair().expect("there are descriptors left");
        let mut conns = Connections::new();
        let added = conns.add(&mut facade.ev, gone, Interest::READ, Mode::Level);
        let token = added.expect("it is not watched yet");
        assert!(conns.close(&mut facade.ev, token), "it is in the loop");
        facade
    }
}

impl PeerPoller for Facade {
    fn run(&mut self, ring: &mut Ring<'_>) {
        while !ring.is_over() {
            self.ev.wait().expect("no listener fails");
            while let Some(step) = self.ev.next_step() {
                if let Step::Ready(token, _) = step {
                    ring.serve(token.index() as usize);
                    if self.timers {
                        self.ev.arm(token, Timer::READ, ring.delay());
                    }
                }
            }
        }
    }

    fn toggle(&mut self, times: usize) {
        let first = self.first.expect("at least one is watched");
        for _ in 0..times {
            for interest in [Interest::NONE, Interest::READ] {
                // Seen through `black_box`, or the first change could be left out.
                let modified = self.ev.modify(black_box(first), black_box(interest));
                modified.expect("it is watched");
            }
        }
    }
}
