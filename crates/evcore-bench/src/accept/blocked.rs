//! How long new clients wait while one worker is blocked by the last client it took.

use std::time::{Duration, Instant};

use super::load::Load;
use super::server::Server;

/// A new client arrives this often, whatever happens to those before it: a load that waited for
/// responses would have fewer waiting clients, the slower the server is.
const EVERY: Duration = Duration::from_millis(4);

/// Longer than any client waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest wait of the clients that came while a request of `path` blocked a worker.
///
/// # Panics
///
/// If a client is reset, or waits for longer than the patience.
pub(super) fn longest_wait(server: &Server, path: &str) -> Duration {
    server.wait_until_idle();
    let (mut load, mut longest) = (Load::new(), Duration::ZERO);
    // The worker that accepts this client would be first to accept the next.
    let blocker = load.join(server.address, path);
    let mut next = Instant::now() + EVERY;
    let mut is_blocked = true;
    while is_blocked || load.waiting() > 0 {
        let most = if is_blocked {
            next.saturating_duration_since(Instant::now())
        } else {
            PATIENCE
        };
        let outcomes = load.wait(most);
        assert!(is_blocked || !outcomes.is_empty(), "clients wait in vain");
        for outcome in outcomes {
            let answer = outcome.answer.expect("no client is reset");
            if outcome.client == blocker {
                is_blocked = false;
            } else {
                longest = longest.max(answer.wait);
            }
            load.leave(outcome.client);
        }
        while is_blocked && next <= Instant::now() {
            load.join(server.address, "/worker");
            next += EVERY;
        }
    }
    longest
}
