//! `evcore` with a listener, in which no client waits, and a policy: what that adds to a turn.

use std::os::fd::OwnedFd;

use evcore::balancer::{Load, Policy, WorkerGroup, WorkerId};
use evcore::{EventLoop, Listener};

use super::facade::Facade;
use super::peer_poller::Setup;

/// The policies, with the names of the peers that follow them.
pub(super) const POLICIES: [(&str, Policy); 4] = [
    ("EventLoop, off", Policy::Off),
    ("EventLoop, mutex", Policy::mutex()),
    ("EventLoop, exclusive", Policy::exclusive()),
    ("EventLoop, least-loaded", Policy::least_loaded()),
];

/// The first of two workers. The other one has as many connections, and does nothing.
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
    Facade::of(builder, watched, setup)
}
