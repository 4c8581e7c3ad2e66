//! The peers that run `evcore`'s `EventLoop`. A whole turn (one iteration of the loop) is measured,
//! with or without timers.

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use evcore::balancer::{GroupMember, Load, Policy, WorkerGroup, WorkerId};
use evcore::clock::Clock;
use evcore::{Budgets, Builder, EventLoop, Interest, Listener, Mode, Step, Timer, Token, TokenMap};

use rustix::event::{Timespec, poll};

use super::c_clock::CClock;
use super::peers::{BATCH, PeerPoller, Setup};
use super::ring_of_pairs::Ring;
use super::rust::read_if;

pub(super) struct Facade {
    ev: EventLoop,
    tokens: Vec<Token>,
    first_index: u32,
    timers: bool,
}

impl Facade {
    /// Builds a loop, passes it to `prepare`, and adds the descriptors.
    pub(super) fn new(
        builder: Builder,
        mode: Mode,
        watched: &[OwnedFd],
        setup: Setup,
        prepare: impl FnOnce(&mut EventLoop),
    ) -> Facade {
        // Room for the watched descriptors, and for as many connections of a listener.
        let most = u32::try_from(2 * watched.len() + 1).expect("a count of descriptors");
        let mut builder = builder.connections(most).budgets(Budgets {
            batch: BATCH,
            ..Budgets::default()
        });
        if setup.c_clock {
            builder = builder.clock(Clock::with_source(CClock));
        }
        let mut ev = builder.build().expect("a descriptor is left");
        prepare(&mut ev);
        // A new loop gives out indices in ascending order, so they are in the order of `watched`.
        let added = watched.iter().map(|fd| ev.add(fd, Interest::READ, mode));
        let tokens: Result<Vec<Token>, _> = added.collect();
        let tokens = tokens.expect("they are not watched yet");
        let timers = setup.timers;
        for token in tokens.iter().filter(|_| timers) {
            ev.arm(*token, Timer::READ, Duration::from_secs(10));
        }
        begin_and_end_some(&mut ev, mode);
        let first_index = tokens.first().map_or(0, |token| token.index());
        Facade {
            ev,
            tokens,
            first_index,
            timers,
        }
    }
}

/// Begins and ends a connection and a timer, as a loop in use has done, because the state that they
/// leave costs time.
fn begin_and_end_some(ev: &mut EventLoop, mode: Mode) {
    let (near, _far) = UnixStream::pair().expect("descriptors are left");
    let mut ended = TokenMap::new();
    let added = ended.add(ev, near, Interest::READ, mode);
    assert!(ended.close(ev, added.expect("a descriptor is left")));
    let sleep = ev.add_unwatched().expect("a token is left");
    ev.arm(sleep, Timer::READ, Duration::from_millis(1));
    // The timer is due when the wait begins, so that each run makes the same number of calls.
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: 3_000_000,
    };
    assert_eq!(poll(&mut [], Some(&time)), Ok(0));
    ev.wait().expect("it can wait");
    let step = ev.next_step();
    assert!(matches!(step, Some(Step::Expired(token, _)) if token == sleep));
    assert!(ev.next_step().is_none());
    ev.remove(sleep);
}

impl PeerPoller for Facade {
    #[inline(always)]
    fn turn(&mut self, timeout: Option<Duration>, ring: &mut Ring<'_>) {
        match timeout {
            None => self.ev.wait(),
            Some(timeout) => self.ev.wait_at_most(timeout),
        }
        .expect("no listener fails");
        while let Some(step) = self.ev.next_step() {
            if let Step::Ready(token, _) = step {
                ring.serve((token.index() - self.first_index) as usize);
                if self.timers {
                    self.ev.arm(token, Timer::READ, ring.delay());
                }
            }
        }
    }

    fn watch_first(&mut self, starts: bool) {
        let first = black_box(self.tokens[0]);
        let modified = self.ev.modify(first, read_if(starts));
        modified.expect("it is watched");
    }
}

/// A loop with a policy and a listener at which no client waits, to measure what these add to a
/// turn. It is the first of two workers. The other one has as many connections, and does nothing.
pub(super) fn listening(policy: Policy, connections: usize) -> Builder {
    let [worker, other] = [0, 1].map(WorkerId::from_slot);
    let group = WorkerGroup::new(policy, 2).expect("there is memory to share");
    let active = u32::try_from(connections).expect("it is a count");
    let member = group.join(other);
    let _ = member.sync(Load {
        active,
        capacity: 2 * active + 1,
    });
    // The other worker stays in the group until the program ends.
    std::mem::forget(member);
    let listener = Listener::bind("127.0.0.1:0").expect("there is a port left");
    let builder = EventLoop::builder().listener(listener);
    builder.policy(policy).group(group.join(worker))
}
