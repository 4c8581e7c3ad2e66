//! `evcore`: the whole turn, with its timers.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use evcore::clock::Clock;
use evcore::{Budgets, EventLoop, Interest, Mode, Side, Step, Token};

use super::c_clock::CClock;
use super::contestant::{BATCH, Contestant, Setup};
use super::ring::Ring;

/// A loop, and whether each pair has a timer.
#[derive(Debug)]
pub(super) struct Facade {
    ev: EventLoop,
    timers: bool,
}

impl Facade {
    pub(super) fn new(watched: &[OwnedFd], setup: Setup) -> Facade {
        let mut builder = EventLoop::builder().budgets(Budgets {
            batch: BATCH,
            ..Budgets::default()
        });
        if setup.under_valgrind {
            builder = builder.clock(Clock::with_source(CClock));
        }
        let mut ev = builder.build().expect("there is a descriptor left");
        for (index, fd) in (0..).zip(watched) {
            let added = ev.add(token(index), fd, Interest::READ, Mode::Level);
            added.expect("it is not watched yet");
            if setup.timers {
                ev.arm(token(index), Side::Read, Duration::from_secs(10));
            }
        }
        let timers = setup.timers;
        Facade { ev, timers }
    }

    /// As a server that has closed a connection, which the kernel was left to forget.
    pub(super) fn after_a_close(watched: &[OwnedFd], setup: Setup) -> Facade {
        let mut facade = Facade::new(watched, setup);
        let token = token(u32::try_from(watched.len()).expect("it is a count"));
        let (gone, _peer) = UnixStream::pair().expect("there are descriptors left");
        let added = facade.ev.add(token, &gone, Interest::READ, Mode::Level);
        added.expect("it is not watched yet");
        assert!(facade.ev.close_fd(token, gone), "it is in the loop");
        facade
    }
}

impl Contestant for Facade {
    fn run(&mut self, ring: &mut Ring<'_>) {
        while !ring.is_over() {
            self.ev.wait().expect("no listener fails");
            while let Some(step) = self.ev.next_step() {
                if let Step::Ready(token, _) = step {
                    ring.serve(token.index() as usize);
                    if self.timers {
                        self.ev.arm(token, Side::Read, ring.delay());
                    }
                }
            }
        }
    }

    fn toggle(&mut self, times: usize) {
        for _ in 0..times {
            for interest in [Interest::NONE, Interest::READ] {
                // Seen through `black_box`, or the first change could be left out.
                let modified = self.ev.modify(black_box(token(0)), black_box(interest));
                modified.expect("it is watched");
            }
        }
    }
}

fn token(index: u32) -> Token {
    Token::new(index, NonZeroU32::MIN)
}
