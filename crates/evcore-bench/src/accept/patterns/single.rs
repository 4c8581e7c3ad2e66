//! One client after the other: each connects, asks at once, and stays when it is answered.

use super::{Figures, LONG_LIVED, each};
use crate::accept::client::Client;
use crate::accept::fairness::Shares;
use crate::accept::server::Server;
use crate::accept::waits::Waits;

pub(super) fn run(server: &Server) -> Figures {
    server.wait_until_idle();
    let before = server.sleeps();
    let mut clients = Vec::new();
    let (mut shares, mut waits) = (Shares::default(), Waits::default());
    for _ in 0..LONG_LIVED {
        let mut client = Client::connect(server.address).expect("the kernel takes it");
        let answer = client.worker().expect("an answer");
        shares.add(answer.worker);
        waits.add(answer.wait);
        clients.push(client);
    }
    server.wait_until_idle();
    let wakes = each(server.sleeps() - before, LONG_LIVED);
    let mut figures = vec![("jain", shares.jain(server.workers)), ("wakes", wakes)];
    figures.extend(waits.figures());
    figures
}
