//! `evcore`: the whole turn, with its timers.

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::time::Duration;

use evcore::balancer::{Load, Policy, WorkerGroup, WorkerId};
use evcore::poller::BackendKind;
use evcore::{Budgets, Builder, EventLoop, Interest, Listener, Mode, Step, Timer, Token};

use super::ours::mode_on;
use super::peer_poller::{BATCH, RustPoller, Setup};
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
        Facade::of(EventLoop::builder(), Mode::Level, watched, setup)
    }

    pub(super) fn on(kind: BackendKind, watched: &[OwnedFd], setup: Setup) -> Facade {
        let builder = EventLoop::builder().poller(kind);
        Facade::of(builder, mode_on(kind), watched, setup)
    }

    fn of(builder: Builder, mode: Mode, watched: &[OwnedFd], setup: Setup) -> Facade {
        // With as many again, which a listener could bring.
        let most = u32::try_from(2 * watched.len() + 1).expect("a count of descriptors");
        let mut builder = builder.connections(most).budgets(Budgets {
            batch: BATCH,
            ..Budgets::default()
        });
        if let Some(clock) = setup.clock {
            builder = builder.clock(clock());
        }
        let mut ev = builder.build().expect("a descriptor is left");
        let mut first = None;
        // A fresh loop counts its indices from 0, so an index is the place in `watched`.
        for fd in watched {
            let added = ev.add(fd, Interest::READ, mode);
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

impl RustPoller for Facade {
    #[inline(always)]
    fn turn(&mut self, timeout: Option<Duration>, ring: &mut Ring<'_>) {
        if timeout.is_none() {
            self.ev.wait().expect("no listener fails");
        } else {
            self.ev.prepare().expect("no listener fails");
            self.ev.poll(timeout).expect("no listener fails");
        }
        while let Some(step) = self.ev.next_step() {
            if let Step::Ready(token, _) = step {
                ring.serve(token.index() as usize);
                if self.timers {
                    self.ev.arm(token, Timer::READ, ring.delay());
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
}

/// The policies, with the names of the peers that follow them.
pub(super) const POLICIES: [(&str, Policy); 4] = [
    ("EventLoop, off", Policy::Off),
    ("EventLoop, mutex", Policy::mutex()),
    ("EventLoop, exclusive", Policy::exclusive()),
    ("EventLoop, least-loaded", Policy::least_loaded()),
];

/// `evcore` with a listener, in which no client waits, and a policy: what that adds to a turn. It is the
/// first of two workers. The other one has as many connections, and does nothing.
pub(super) fn with_policy(watched: &[OwnedFd], setup: Setup, policy: Policy) -> Facade {
    let [worker, other] = [0, 1].map(WorkerId::from_slot);
    let group = WorkerGroup::new(policy, 2).expect("there is memory to share");
    let active = u32::try_from(watched.len()).expect("it is a count");
    let load = Load {
        active,
        capacity: 2 * active + 1,
    };
    let member = group.join(other);
    let _ = member.sync(load);
    // It stays until the program ends.
    std::mem::forget(member);
    let listener = Listener::bind("127.0.0.1:0").expect("there is a port left");
    let builder = EventLoop::builder()
        .listener(listener)
        .policy(policy)
        .group(group.join(worker));
    Facade::of(builder, Mode::Level, watched, setup)
}
