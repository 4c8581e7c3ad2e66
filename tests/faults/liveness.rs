//! The worker that would accept next is killed, or suspended by SIGSTOP. Clients are still served.
//!
//! The balancer guarantees that another worker accepts within the delay and one iteration of its
//! event loop.

use std::time::{Duration, Instant};

use evcore_tests::{Server, assert_within, eventually, signal_to};
use rustix::process::Signal;

const POLICIES: [&str; 5] = ["off", "mutex", "exclusive", "reuseport", "least-loaded"];

/// The time after which a worker that was not allowed to accept tries again.
const DELAY: Duration = Duration::from_millis(50);

const KILLS: usize = 20;
const STOPS: usize = 5;

/// Starts eight workers, so that only a few workers are killed in each slot, and replacements start
/// soon.
fn start(policy: &str) -> Server {
    let workers = ["--workers", "8"];
    let delay = DELAY.as_millis().to_string();
    let accept = ["--accept", policy, "--accept-delay", &delay];
    Server::start(&[workers.as_slice(), accept.as_slice()].concat())
}

/// A worker that is suspended by SIGSTOP. It continues when this value is dropped, so a failing
/// test does not leave it stopped.
pub(super) struct Stopped(u32);

impl Stopped {
    pub(super) fn stop(pid: u32) -> Self {
        signal_to(pid, Signal::STOP);
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal_to(self.0, Signal::CONT);
    }
}

#[test]
fn when_the_accepting_worker_is_killed_another_accepts() {
    for policy in POLICIES {
        let server = start(policy);
        for _ in 0..KILLS {
            // The worker that has just accepted is likely to accept next.
            let killed = server.connect().worker();
            signal_to(killed, Signal::KILL);
            let killed_at = Instant::now();
            // A client that the dying worker has accepted loses its connection, and connects again.
            eventually("another worker accepts", || {
                server.connect().try_worker().is_ok()
            });
            assert_within(policy, DELAY, killed_at);
            // On a busy machine the worker dies late, and may still accept other clients.
            eventually("the worker is dead", || {
                !server.worker_pids().contains(&killed)
            });
        }
    }
}

#[test]
fn when_the_accepting_worker_is_suspended_another_accepts() {
    for policy in POLICIES {
        let server = start(policy);
        // No other worker can accept from the suspended worker's own listener.
        let has_own_listener = policy == "reuseport";
        for _ in 0..STOPS {
            let stopped = Stopped::stop(server.connect().worker());
            let stopped_at = Instant::now();
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
            let stopped = (!has_own_listener).then_some(stopped);
            assert_eq!(client.response().status, 200, "{policy}");
            assert_within(policy, DELAY, stopped_at);
            drop(stopped);
        }
    }
}
