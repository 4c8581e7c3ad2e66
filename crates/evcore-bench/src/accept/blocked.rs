//! How long new clients wait while one worker is blocked by the last client it took.

use std::time::{Duration, Instant};

use super::arrivals::Arrivals;
use super::load::Load;
use super::server::Server;
use super::waits::Waits;

/// One new client as often as this, while it is.
const EVERY: Duration = Duration::from_millis(4);

/// Longer than any client waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// A worker that is blocked a few times.
#[derive(Debug)]
pub(super) struct Blocked {
    pub(super) workload: &'static str,
    /// What a client asks for that blocks it.
    path: &'static str,
    /// How often.
    times: usize,
}

/// For less than the delay after which others look; and for four times the delay, so that it is
/// seen if no other worker takes over.
pub(super) const ALL: &[Blocked] = &[
    Blocked {
        workload: "accept/blocked/200",
        path: "/block/200",
        times: 5,
    },
    Blocked {
        workload: "accept/blocked/2000",
        path: "/block/2000",
        // Once, because a round of all peers that can block takes 54 s.
        times: 1,
    },
];

impl Blocked {
    /// The waits of all that came meanwhile.
    pub(super) fn run(&self, server: &Server) -> Waits {
        let mut waits = Waits::default();
        for _ in 0..self.times {
            server.wait_until_idle();
            self.once(server, &mut waits);
        }
        waits
    }

    fn once(&self, server: &Server, waits: &mut Waits) {
        let mut load = Load::new();
        // The worker that accepts this client would be first to accept the next.
        let blocker = load.join(server.address, self.path);
        let mut arrivals = Arrivals::since(Instant::now(), EVERY);
        let mut is_blocked = true;
        while is_blocked || load.waiting() > 0 {
            let news = load.wait(if is_blocked {
                arrivals.time_left(Instant::now())
            } else {
                PATIENCE
            });
            assert!(is_blocked || !news.is_empty(), "clients wait in vain");
            for outcome in news {
                let answer = outcome.answer.expect("no client is reset");
                if outcome.client == blocker {
                    is_blocked = false;
                } else {
                    waits.add(answer.wait);
                }
                load.leave(outcome.client);
            }
            if is_blocked && arrivals.come(Instant::now()) {
                load.join(server.address, "/worker");
            }
        }
    }
}
