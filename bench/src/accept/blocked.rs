//! How long new clients wait while one worker is blocked by the last client it took.

use std::time::{Duration, Instant};

use super::arrivals::Arrivals;
use super::crowd::Crowd;
use super::server::Server;
use super::waits::Waits;

/// What a client asks that blocks its worker for 200 ms.
const BLOCK: &str = "/block/200";

/// How often a worker is blocked.
const TIMES: usize = 5;

/// One new client as often as this, while it is.
const EVERY: Duration = Duration::from_millis(4);

/// Longer than anybody waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// The waits of all that came meanwhile.
pub(super) fn run(server: &Server) -> Waits {
    let mut waits = Waits::default();
    for _ in 0..TIMES {
        server.rest();
        once(server, &mut waits);
    }
    waits
}

fn once(server: &Server, waits: &mut Waits) {
    let mut crowd = Crowd::new();
    // Who takes this one is who would be first to take the next.
    let blocker = crowd.join(server.address, BLOCK);
    let mut arrivals = Arrivals::since(Instant::now(), EVERY);
    let mut is_blocked = true;
    while is_blocked || crowd.waiting() > 0 {
        let news = crowd.wait(if is_blocked {
            arrivals.time_left(Instant::now())
        } else {
            PATIENCE
        });
        assert!(is_blocked || !news.is_empty(), "clients wait in vain");
        for outcome in news {
            let answer = outcome.answer.expect("nobody is turned away");
            if outcome.client == blocker {
                is_blocked = false;
            } else {
                waits.add(answer.wait);
            }
            crowd.leave(outcome.client);
        }
        if is_blocked && arrivals.come(Instant::now()) {
            crowd.join(server.address, "/worker");
        }
    }
}
