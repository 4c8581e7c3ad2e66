//! Long-lived clients, one after the other; half-way all of two workers go, those that have the
//! most.

use super::{Figures, LONG_LIVED};
use crate::accept::client::Client;
use crate::accept::fairness::Shares;
use crate::accept::server::Server;

/// Of how many workers the clients go.
pub(super) const CLOSED: usize = 2;

pub(super) fn run(server: &Server) -> Figures {
    server.wait_until_idle();
    let mut clients = Vec::new();
    come(server, LONG_LIVED / 2, &mut clients);
    let closed = shares(&clients).greatest(CLOSED);
    clients.retain(|(_, worker)| !closed.contains(worker));
    server.wait_until_idle();
    come(server, LONG_LIVED / 2, &mut clients);
    vec![("jain", shares(&clients).jain(server.workers))]
}

fn come(server: &Server, n: usize, clients: &mut Vec<(Client, u32)>) {
    for _ in 0..n {
        let mut client = Client::connect(server.address).expect("the kernel takes it");
        let worker = client.worker().expect("an answer").worker;
        clients.push((client, worker));
    }
}

fn shares(clients: &[(Client, u32)]) -> Shares {
    clients.iter().map(|(_, worker)| *worker).collect()
}
