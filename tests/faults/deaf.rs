//! The worker that would accept is killed, or stopped, again and again: nobody stays deaf.
//!
//! Patience is the deadline that means deaf: far beyond the delay, since the machine may be busy.

use evcore_tests::{Server, eventually, signal_to};
use rustix::process::Signal;

/// How the workers of the example server may share their listeners.
const POLICIES: [&str; 5] = ["off", "mutex", "exclusive", "reuseport", "least-loaded"];

const KILLS: usize = 20;
const STOPS: usize = 5;

/// Eight workers, so that each is killed two or three times: its replacement comes soon.
fn start(policy: &str) -> Server {
    let workers = ["--workers", "8"];
    let accept = ["--accept", policy, "--accept-delay", "50"];
    Server::start(&[workers.as_slice(), accept.as_slice()].concat())
}

/// A worker that does not run. It goes on when this is dropped: else a test that fails would leave
/// it behind.
struct Stopped(u32);

impl Stopped {
    fn stop(pid: u32) -> Self {
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
fn when_the_one_that_would_accept_is_killed_another_does() {
    for policy in POLICIES {
        let server = start(policy);
        for _ in 0..KILLS {
            // Who has just accepted listens, or holds the lock, when it waits again.
            let killed = server.connect().worker();
            signal_to(killed, Signal::KILL);
            // Who was taken by the dying loses its connection, and comes again.
            eventually("somebody accepts", || server.connect().try_worker().is_ok());
            // On a busy machine it dies late, and may take others with it until then.
            eventually("it is dead", || !server.worker_pids().contains(&killed));
        }
    }
}

#[test]
fn when_the_one_that_would_accept_is_stopped_clients_are_served() {
    for policy in POLICIES {
        let server = start(policy);
        // Nobody else can take in what waits in a listener of its own.
        let waits_for_it = policy == "reuseport";
        for _ in 0..STOPS {
            let stopped = Stopped::stop(server.connect().worker());
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
            let stopped = (!waits_for_it).then_some(stopped);
            assert_eq!(client.response().status, 200, "{policy}");
            drop(stopped);
        }
    }
}
