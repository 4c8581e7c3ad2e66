//! Clients one after the other, which stay for very different times: most go soon, a few stay long.
//!
//! Lifetimes are counted in arrivals, by a Pareto distribution, so that there is no clock in it:
//! all peers have the same clients in the same order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Figures, each};
use crate::accept::client::Client;
use crate::accept::fairness::Shares;
use crate::accept::server::Server;
use crate::accept::waits::Waits;
use crate::random::Random;

/// How many come.
const ARRIVALS: usize = 2_000;

/// The shortest life and the longest, and how fast longer ones become rare: some 200 connections at
/// a time.
const SHORTEST: f64 = 48.0;
const LONGEST: f64 = 1_000.0;
const SHAPE: f64 = 1.3;

/// From when on, and how often, it is looked how even the shares are.
const FIRST_LOOK: usize = 500;
const LOOK_EVERY: usize = 50;

pub(super) fn run(server: &Server) -> Figures {
    server.wait_until_idle();
    let before = server.sleeps();
    let (mut random, mut guests, mut waits) = (Random::new(), Guests::default(), Waits::default());
    let mut looks = Vec::new();
    for arrival in 0..ARRIVALS {
        guests.see_off(arrival);
        let mut client = Client::connect(server.address).expect("the kernel takes it");
        let answer = client.worker().expect("an answer");
        waits.add(answer.wait);
        guests.welcome(arrival + lifetime(&mut random), client, answer.worker);
        if arrival >= FIRST_LOOK && arrival % LOOK_EVERY == 0 {
            looks.push(guests.shares.jain(server.workers));
        }
    }
    server.wait_until_idle();
    let wakes = each(server.sleeps() - before, ARRIVALS);
    looks.sort_by(f64::total_cmp);
    let mut figures = vec![
        ("jain", looks[looks.len() / 2]),
        ("jain_least", looks[0]),
        ("wakes", wakes),
    ];
    figures.extend(waits.figures());
    figures
}

/// The connected clients.
#[derive(Default)]
struct Guests {
    clients: Vec<Option<(Client, u32)>>,
    /// The times at which clients leave.
    ends: BinaryHeap<Reverse<(usize, usize)>>,
    shares: Shares,
}

impl Guests {
    fn welcome(&mut self, end: usize, client: Client, worker: u32) {
        self.ends.push(Reverse((end, self.clients.len())));
        self.clients.push(Some((client, worker)));
        self.shares.add(worker);
    }

    /// Closes the connections whose time is over.
    fn see_off(&mut self, now: usize) {
        while let Some(&Reverse((_, leaving))) =
            self.ends.peek().filter(|Reverse((end, _))| *end <= now)
        {
            self.ends.pop();
            let gone = self.clients[leaving].take();
            self.shares.remove(gone.expect("it leaves once").1);
        }
    }
}

/// How many arrivals a client sees.
fn lifetime(random: &mut Random) -> usize {
    let life = SHORTEST / random.unit().powf(1.0 / SHAPE);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between the shortest and the longest"
    )]
    let arrivals = life.min(LONGEST) as usize;
    arrivals
}
