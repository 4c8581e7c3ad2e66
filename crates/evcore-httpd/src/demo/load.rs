//! The load that `--demo` puts on the server. Clients connect, send requests and leave. Every eight
//! seconds there is an incident: a worker is killed, most clients of one worker leave at once, or
//! the master replaces all workers.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, getppid, kill_process};

use super::client::Client;

const CLIENTS: usize = 240;

const TICK: Duration = Duration::from_millis(20);

const INTERVAL: Duration = Duration::from_secs(8);

/// The incidents, in the order in which they are repeated.
const INCIDENTS: [Incident; 5] = [
    Incident::Kill,
    Incident::Leave,
    Incident::Reload,
    Incident::Leave,
    Incident::Kill,
];

#[derive(Clone, Copy, Debug)]
enum Incident {
    /// All clients of one worker leave, except [`STAYING`].
    Leave,
    /// A worker is killed.
    Kill,
    Reload,
}

const STAYING: usize = 10;

pub(super) struct Load {
    server: SocketAddr,
    master: Pid,
    clients: Vec<Client>,
    random: u64,
    ticks: u64,
    incidents: usize,
    next_incident: Instant,
}

impl Load {
    /// Prepares the load on the server, whose master is the parent of this process.
    pub(super) fn new(server: SocketAddr) -> Option<Self> {
        Some(Self {
            server,
            master: getppid()?,
            clients: Vec::new(),
            random: 1,
            ticks: 0,
            incidents: 0,
            next_incident: Instant::now() + INTERVAL,
        })
    }

    /// Runs until the server has ended.
    pub(super) fn run(&mut self) {
        while getppid() == Some(self.master) {
            self.tick();
            #[expect(
                clippy::disallowed_methods,
                reason = "the load is spread over time; nothing waits for something to happen"
            )]
            thread::sleep(TICK);
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        // Clients connect slowly, so that the dashboard shows which workers get them.
        let is_below_half = self.clients.len() < CLIENTS / 2;
        if self.clients.len() < CLIENTS && (is_below_half || self.ticks % 3 == 0) {
            // While a worker is being replaced, a connection may be refused.
            self.clients.extend(Client::connect(self.server));
        }
        // Some 50 to 450 requests a second.
        let phase = self.ticks / 80 % 16;
        for _ in 0..=phase.min(16 - phase) {
            self.request("/");
        }
        if self.ticks % 4 == 0 {
            self.request("/sleep/2");
        }
        if self.ticks % 25 == 0 && !self.clients.is_empty() {
            let one = self.below(self.clients.len());
            self.clients.swap_remove(one);
        }
        if Instant::now() >= self.next_incident {
            self.next_incident = Instant::now() + INTERVAL;
            self.incident();
        }
    }

    fn request(&mut self, path: &str) {
        if self.clients.is_empty() {
            return;
        }
        let one = self.below(self.clients.len());
        if self.clients[one].get(path).is_err() {
            self.clients.swap_remove(one);
        }
    }

    fn incident(&mut self) {
        let incident = INCIDENTS[self.incidents % INCIDENTS.len()];
        self.incidents += 1;
        // A process that has ended meanwhile is not an error.
        match incident {
            Incident::Leave => self.leave(),
            Incident::Kill => {
                let worker = self.any_worker().and_then(Pid::from_raw);
                let _ = worker.map(|worker| kill_process(worker, Signal::KILL));
            }
            Incident::Reload => _ = kill_process(self.master, Signal::HUP),
        }
    }

    /// Returns the process id of a worker that serves one of the clients.
    fn any_worker(&mut self) -> Option<i32> {
        if self.clients.is_empty() {
            return None;
        }
        let one = self.below(self.clients.len());
        self.clients[one].worker().ok()
    }

    fn leave(&mut self) {
        let Some(worker) = self.any_worker() else {
            return;
        };
        let mut staying = STAYING;
        self.clients.retain_mut(|client| {
            let is_on_worker = client.worker().is_ok_and(|pid| pid == worker);
            let leaves = is_on_worker && staying == 0;
            staying -= usize::from(is_on_worker && !leaves);
            !leaves
        });
    }

    /// Returns a pseudo-random number below `end` (xorshift64).
    fn below(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).expect("31 bits") % end
    }
}
