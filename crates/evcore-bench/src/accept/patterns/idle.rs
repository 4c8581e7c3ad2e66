//! One step at a time: the server is idle before each connection and before each request.
//!
//! So a connection has exactly two wakes that are needed, one that brings it and one that brings
//! its request; whatever there is more is extra.

use super::{Figures, LONG_LIVED, each};
use crate::accept::client::Client;
use crate::accept::fairness::Shares;
use crate::accept::server::Server;

/// What each connection needs.
const NEEDED: f64 = 2.0;

pub(super) fn run(server: &Server) -> Figures {
    server.wait_until_idle();
    let before = server.sleeps();
    let mut clients = Vec::new();
    let mut shares = Shares::default();
    for _ in 0..LONG_LIVED {
        let mut client = Client::connect(server.address).expect("the kernel takes it");
        server.wait_until_idle();
        shares.add(client.worker().expect("an answer").worker);
        server.wait_until_idle();
        clients.push(client);
    }
    let wakes = each(server.sleeps() - before, LONG_LIVED);
    vec![
        ("jain", shares.jain(server.workers)),
        ("extra", (wakes - NEEDED).max(0.0)),
    ]
}
