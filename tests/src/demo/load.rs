//! The load: clients that stay, come and go, and incidents of the workers.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use evcore_tests::{Client, Server, try_signal_to};
use rustix::process::Signal;

/// Number of connected clients, at most.
const CLIENTS: usize = 240;

const TICK: Duration = Duration::from_millis(20);

/// The time between two incidents.
const INTERVAL: Duration = Duration::from_secs(8);

/// The incidents that make the load uneven. They come in turn.
const INCIDENTS: [Incident; 7] = [
    Incident::Leave,
    Incident::Kill,
    Incident::Leave,
    Incident::Kill,
    Incident::Reload,
    Incident::Leave,
    Incident::Kill,
];

#[derive(Clone, Copy, Debug)]
enum Incident {
    /// Most clients of one worker leave.
    Leave,
    /// A worker is killed.
    Kill,
    /// All workers are replaced.
    Reload,
}

/// A client, and the process id of the worker that serves it.
type Served = (Client, u32);

pub(crate) struct Load<'a> {
    server: &'a Server,
    clients: Vec<Served>,
    /// The state of a generator of pseudo-random numbers.
    random: u64,
    ticks: u64,
    incidents: usize,
    next_incident: Instant,
}

impl<'a> Load<'a> {
    pub(crate) fn new(server: &'a Server) -> Self {
        Self {
            server,
            clients: Vec::new(),
            random: 1,
            ticks: 0,
            incidents: 0,
            next_incident: Instant::now() + INTERVAL,
        }
    }

    /// Runs until the time is over or the flag is set.
    pub(crate) fn run(&mut self, time: Duration, is_over: &AtomicBool) {
        let end = Instant::now() + time;
        while Instant::now() < end && !is_over.load(Ordering::Relaxed) {
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
        // Clients come slowly, so that one can see where new ones go.
        let is_empty = self.clients.len() < CLIENTS / 2;
        if self.clients.len() < CLIENTS && (is_empty || self.ticks % 3 == 0) {
            self.connect();
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

    fn connect(&mut self) {
        // While a worker is being replaced, a connection may end before its first response.
        let client = Client::try_connect(self.server.address()).and_then(|mut client| {
            let worker = client.try_worker()?;
            Ok((client, worker))
        });
        self.clients.extend(client);
    }

    /// A request of any client. A client whose worker is gone is dropped.
    fn request(&mut self, path: &str) {
        if self.clients.is_empty() {
            return;
        }
        let one = self.below(self.clients.len());
        if self.clients[one].0.try_get(path).is_err() {
            self.clients.swap_remove(one);
        }
    }

    fn incident(&mut self) {
        let incident = INCIDENTS[self.incidents % INCIDENTS.len()];
        self.incidents += 1;
        let workers = self.server.worker_pids();
        if workers.is_empty() {
            return;
        }
        let worker = workers[self.below(workers.len())];
        match incident {
            Incident::Leave => {
                let mut staying = 10;
                self.clients.retain(|(_, pid)| {
                    let is_staying = *pid != worker || staying > 0;
                    staying -= u32::from(*pid == worker && staying > 0);
                    is_staying
                });
            }
            Incident::Kill => {
                // The worker may have ended since it was listed.
                let _ = try_signal_to(worker, Signal::KILL);
                self.clients.retain(|(_, pid)| *pid != worker);
            }
            Incident::Reload => self.server.signal(Signal::HUP),
        }
    }

    /// A pseudo-random number below `end` (xorshift64).
    fn below(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).expect("31 bits") % end
    }
}
