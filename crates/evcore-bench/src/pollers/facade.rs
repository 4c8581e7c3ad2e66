//! `evcore`: the whole turn, with its timers.

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::time::Duration;

use evcore::clock::Clock;
use evcore::{Budgets, Builder, EventLoop, Interest, Mode, Step, Timer, Token};

use super::c_clock::{CClock, CountedClock};
use super::peer_poller::{BATCH, LoopClock, PeerPoller, Setup};
use super::ring_of_pairs::Ring;

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
        // With as many again, which a listener could bring.
        let most = u32::try_from(2 * watched.len() + 1).expect("a count of descriptors");
        let mut builder = builder.connections(most).budgets(Budgets {
            batch: BATCH,
            ..Budgets::default()
        });
        match setup.clock {
            LoopClock::System => {}
            LoopClock::UnderValgrind => builder = builder.clock(Clock::with_source(CClock)),
            LoopClock::Counted => builder = builder.clock(Clock::with_source(CountedClock)),
        }
        let mut ev = builder.build().expect("a descriptor is left");
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

    fn watch_first(&mut self, starts: bool) {
        let first = self.first.expect("at least one is watched");
        let interest = if starts {
            Interest::READ
        } else {
            Interest::NONE
        };
        // Seen through `black_box`, or the first change could be left out.
        let modified = self.ev.modify(black_box(first), black_box(interest));
        modified.expect("it is watched");
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Option<usize> {
        self.ev.prepare().expect("no listener fails");
        self.ev.poll(timeout).expect("no listener fails");
        let steps = std::iter::from_fn(|| self.ev.next_step());
        Some(steps.filter(|step| matches!(step, Step::Ready(..))).count())
    }
}
