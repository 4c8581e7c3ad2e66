//! Bursts of 64 clients, all of which stay. The server is idle between two bursts.

use std::time::Duration;

use super::{Figures, LONG_LIVED, each};
use crate::accept::fairness::Shares;
use crate::accept::load::Load;
use crate::accept::server::Server;
use crate::accept::waits::Waits;

const BURST: usize = 64;

/// Enough for a thousand.
const BURSTS: usize = LONG_LIVED.div_ceil(BURST);

/// Longer than any that are answered wait.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn run(server: &Server) -> Figures {
    server.wait_until_idle();
    let before = server.sleeps();
    let mut load = Load::new();
    let (mut shares, mut waits) = (Shares::default(), Waits::default());
    for _ in 0..BURSTS {
        for _ in 0..BURST {
            load.join(server.address, "/worker");
        }
        for outcome in load.wait_for_all(PATIENCE) {
            let answer = outcome.answer.expect("no client is reset");
            shares.add(answer.worker);
            waits.add(answer.wait);
        }
        server.wait_until_idle();
    }
    let wakes = each(server.sleeps() - before, BURSTS * BURST);
    let mut figures = vec![("jain", shares.jain(server.workers)), ("wakes", wakes)];
    figures.extend(waits.figures());
    figures
}
