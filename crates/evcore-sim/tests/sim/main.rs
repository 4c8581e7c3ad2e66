//! Tests of the simulator itself: determinism, faults, workers, clients and waits.

mod clients;
mod connecting;
mod determinism;
mod echo_server;
mod edges_by_hand;
mod faults;
mod group;
mod pairs;
mod planted_bugs;
mod proxied;
mod proxy;
mod reports;
mod simulated_time;
mod thread_pool;
mod udp;
mod workers;

use evcore::poller::Capabilities;

/// The capabilities of epoll, for tests that need them with every seed.
fn native() -> Capabilities {
    let mut capabilities = Capabilities::default();
    capabilities.edge = true;
    capabilities.oneshot = true;
    capabilities.exclusive = true;
    capabilities
}
