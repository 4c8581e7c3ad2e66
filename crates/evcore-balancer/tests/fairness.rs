//! Measures the evenness and the wake-ups of each policy, in a model of the kernel's order of
//! wake-ups.
//!
//! For a client, the model wakes the first registered worker that sleeps. Workers before it that do
//! not sleep find the client at their next wait. A registration reports the clients that wait
//! already. Time is in microseconds: a wake-up takes 20 to 60, an accept 5, and its handlers 10. On
//! a busy machine a wake-up takes up to 1,000.
//!
//! `evcore-bench` measures the real kernel with real loops (`cargo xtask bench accept`).

use std::{num::NonZeroU32, time::Duration};

use evcore_balancer::{
    Balancer, GroupMember, Inputs, Leadership, Load, Member, Plan, Policy, WorkerGroup, WorkerId,
};

const CONNECTIONS: u32 = 1_000;

struct Worker {
    balancer: Balancer,
    member: Member,
    active: u32,
    /// The number of clients accepted since the last plan.
    accepted: u32,
    /// The number of clients that the worker may still accept in this turn.
    allowed: u32,
    registered: bool,
    edge_triggered: bool,
    /// True if the kernel has reported a client to the worker, or reports one at its next wait.
    reported: bool,
    may_have_left_clients: bool,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Sleeping { until: u64 },
    Waking { until: u64 },
    Accepting { until: u64 },
    Planning { until: u64 },
}

impl Phase {
    fn until(self) -> u64 {
        match self {
            Self::Sleeping { until }
            | Self::Waking { until }
            | Self::Accepting { until }
            | Self::Planning { until } => until,
        }
    }
}

struct Server {
    now: u64,
    workers: Vec<Worker>,
    /// The registered workers, in the order of their registrations.
    queue: Vec<usize>,
    backlog: u32,
    taken: u32,
    wakes: u32,
    /// The shortest and the longest time of a wake-up.
    wake_us: [u64; 2],
    random: u64,
}

impl Server {
    fn new(policy: Policy, workers: u32, seed: u64) -> Self {
        let group = WorkerGroup::new(Policy::least_loaded(), workers as usize).unwrap();
        let worker = |number: u32| Worker {
            balancer: Balancer::new(policy),
            member: group.join(WorkerId::from_slot(number as usize)),
            active: 0,
            accepted: 0,
            allowed: 0,
            registered: false,
            edge_triggered: false,
            reported: false,
            may_have_left_clients: false,
            phase: Phase::Planning {
                until: u64::from(number),
            },
        };
        Self {
            now: 0,
            workers: (0..workers).map(worker).collect(),
            queue: Vec::new(),
            backlog: 0,
            taken: 0,
            wakes: 0,
            wake_us: [20, 60],
            random: seed,
        }
    }

    /// Connects this many clients at once, and waits until all of them are accepted.
    fn connect(&mut self, clients: u32) {
        let taken = self.taken + clients;
        for _ in 0..clients {
            self.backlog += 1;
            self.report_a_client();
        }
        while self.taken < taken {
            self.next_event();
        }
        self.pass(200);
    }

    fn pass(&mut self, us: u64) {
        let end = self.now + us;
        while self.workers.iter().any(|w| w.phase.until() <= end) {
            self.next_event();
        }
        self.now = end;
    }

    /// Ends all connections of a worker at once.
    fn close_connections_of(&mut self, worker: usize) {
        self.workers[worker].active = 0;
        self.workers[worker].phase = Phase::Planning { until: self.now };
        self.pass(200);
    }

    fn report_a_client(&mut self) {
        for index in self.queue.clone() {
            self.workers[index].reported = true;
            if self.wake(index) {
                return;
            }
        }
    }

    fn wake(&mut self, index: usize) -> bool {
        let sleeps = matches!(self.workers[index].phase, Phase::Sleeping { .. });
        if sleeps {
            self.wakes += 1;
            let [least, most] = self.wake_us;
            let until = self.now + least + self.random_below(most - least);
            self.workers[index].phase = Phase::Waking { until };
        }
        sleeps
    }

    fn next_event(&mut self) {
        let until = |&index: &usize| self.workers[index].phase.until();
        let index = (0..self.workers.len()).min_by_key(until).unwrap();
        self.now = self.now.max(self.workers[index].phase.until());
        match self.workers[index].phase {
            Phase::Sleeping { .. } => {
                self.workers[index].member.unlock();
                self.plan(index);
            }
            Phase::Waking { .. } | Phase::Accepting { .. } => self.accept(index),
            Phase::Planning { .. } => self.plan(index),
        }
    }

    fn accept(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        let here = worker.registered && worker.reported;
        worker.may_have_left_clients = here && self.backlog > 0 && worker.allowed == 0;
        if here && self.backlog > 0 && worker.allowed > 0 {
            self.backlog -= 1;
            self.taken += 1;
            worker.allowed -= 1;
            worker.active += 1;
            worker.accepted += 1;
            let until = self.now + 5;
            worker.phase = Phase::Accepting { until };
        } else {
            worker.member.unlock();
            // Level-triggered, a client that waits is reported again.
            worker.reported &= !worker.edge_triggered;
            let until = self.now + 10 * u64::from(worker.accepted);
            worker.phase = Phase::Planning { until };
        }
    }

    fn plan(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        let load = Load {
            active: worker.active,
            capacity: 100_000,
        };
        let inputs = Inputs {
            load,
            accepted: std::mem::take(&mut worker.accepted),
            may_have_left_clients: std::mem::take(&mut worker.may_have_left_clients),
            notified: worker.member.is_notified(),
            exclusive: true,
            in_group: true,
            ..Inputs::at(Duration::from_micros(self.now))
        };
        let member = &worker.member;
        let plan = worker
            .balancer
            .plan(&inputs, || member.try_lock(), || member.sync(load));
        self.follow(index, &plan);
        let worker = &mut self.workers[index];
        worker.allowed = plan.accepts_at_most.unwrap_or(64).min(64);
        let ready = worker.registered && worker.reported && self.backlog > 0;
        worker.reported = ready;
        worker.phase = match plan.wait_at_most {
            _ if ready || worker.member.is_notified() => Phase::Waking { until: self.now },
            Some(limit) => Phase::Sleeping {
                until: self.now + u64::try_from(limit.as_micros()).unwrap(),
            },
            None => Phase::Sleeping { until: u64::MAX },
        };
    }

    fn follow(&mut self, index: usize, plan: &Plan) {
        let worker = &mut self.workers[index];
        if worker.registered && (!plan.listening || plan.register_again) {
            worker.registered = false;
            self.queue.retain(|&other| other != index);
        }
        if plan.listening && !worker.registered {
            worker.registered = true;
            worker.edge_triggered = plan.edge_triggered;
            worker.reported = self.backlog > 0;
            self.queue.push(index);
        }
        if plan.leadership == Leadership::Acquire {
            worker.member.lead();
        }
        if let Some(peer) = plan.notify {
            worker.member.notify(peer);
            self.wake(peer.slot());
        }
    }

    fn random_below(&mut self, limit: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    /// Jain's index of the open connections.
    fn jain(&self) -> f64 {
        let loads = || self.workers.iter().map(|w| f64::from(w.active));
        let (sum, squares) = (loads().sum::<f64>(), loads().map(|x| x * x).sum::<f64>());
        sum * sum / (self.workers.len() as f64 * squares)
    }
}

/// The times at which clients connect.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    OneAtATime,
    Bursts,
    /// One at a time. After half of them, all connections of two workers end.
    UnevenClosing,
}

/// Returns the lowest Jain index of ten runs, and the highest number of wake-ups per connection.
fn measure(policy: Policy, workers: u32, pattern: Pattern) -> (f64, f64) {
    let runs = (0..10).map(|seed| {
        let mut server = Server::new(policy, workers, seed);
        server.pass(1_000);
        let burst = if pattern == Pattern::Bursts { 64 } else { 1 };
        while server.taken < CONNECTIONS {
            server.connect(burst.min(CONNECTIONS - server.taken));
            if pattern == Pattern::UnevenClosing && server.taken == CONNECTIONS / 2 {
                server.close_connections_of(0);
                server.close_connections_of(1);
            }
        }
        (
            server.jain(),
            f64::from(server.wakes) / f64::from(CONNECTIONS),
        )
    });
    runs.fold((1.0, 0.0), |(jain, wakes), (j, w)| {
        (f64::min(jain, j), f64::max(wakes, w))
    })
}

const PATTERNS: [Pattern; 3] = [Pattern::OneAtATime, Pattern::Bursts, Pattern::UnevenClosing];

#[test]
fn least_loaded_is_even_with_few_extra_wake_ups() {
    for workers in [4, 8] {
        for pattern in PATTERNS {
            let (jain, wakes) = measure(Policy::least_loaded(), workers, pattern);
            assert!(jain >= 0.99, "{workers} workers, {pattern:?}: {jain}");
            assert!(wakes <= 1.25, "{workers} workers, {pattern:?}: {wakes}");
        }
    }
}

#[test]
fn a_first_burst_is_even_also_if_wake_ups_take_a_millisecond() {
    for workers in [2, 4] {
        for clients in [40, 400] {
            for seed in 0..20 {
                let mut server = Server::new(Policy::least_loaded(), workers, seed);
                server.pass(1_000);
                server.wake_us = [200, 1_000];
                server.connect(clients);
                let (jain, wakes) = (server.jain(), f64::from(server.wakes));
                let wakes = wakes / f64::from(clients);
                println!("| {workers} | {clients} | {seed} | {jain:.4} | {wakes:.3} |");
                assert!(jain >= 0.95, "{workers} workers, {clients} clients: {jain}");
            }
        }
    }
}

#[test]
fn a_stopped_worker_delays_the_first_burst_only() {
    let mut server = Server::new(Policy::least_loaded(), 2, 0);
    server.pass(1_000);
    server.wake_us = [10_000_000, 10_000_001];
    let stopped = Phase::Waking {
        until: 10_000_000_000,
    };
    // The worker that registered first is woken by the first client.
    server.workers[0].phase = stopped;
    server.workers[1].phase = Phase::Accepting { until: server.now };
    let mut took_us = |clients| {
        let before = server.now;
        server.workers[1].phase = Phase::Accepting { until: before };
        server.connect(clients);
        server.now - before
    };
    // 400 clients take 6 ms.
    let took_us = [took_us(400), took_us(400)];
    assert!((14_000..=18_000).contains(&took_us[0]), "{took_us:?}");
    assert!(took_us[1] <= 7_000, "{took_us:?}");
}

#[test]
fn a_lock_with_handoff_is_even() {
    for workers in [4, 8] {
        for pattern in PATTERNS {
            let (jain, wakes) = measure(Policy::mutex(), workers, pattern);
            println!("| mutex | {workers} | {pattern:?} | {jain:.4} | {wakes:.3} |");
            assert!(jain >= 0.97, "{workers} workers, {pattern:?}: {jain}");
            assert!(wakes <= 1.25, "{workers} workers, {pattern:?}: {wakes}");
        }
    }
}

#[test]
fn exclusive_is_even_unless_connections_end_unevenly() {
    for workers in [4, 8] {
        for pattern in [Pattern::OneAtATime, Pattern::Bursts] {
            let (jain, _) = measure(Policy::exclusive(), workers, pattern);
            assert!(jain >= 0.97, "{workers} workers, {pattern:?}: {jain}");
        }
        let (jain, _) = measure(Policy::exclusive(), workers, Pattern::UnevenClosing);
        assert!(jain < 0.97, "exclusive would be enough: {jain}");
    }
}

/// Without registering again, the model is as unfair as the kernel.
#[test]
fn bare_exclusive_registrations_are_unfair() {
    let bare = Policy::Exclusive {
        readd_every: NonZeroU32::MAX,
        delay: Duration::from_secs(3600),
    };
    let (jain, _) = measure(bare, 4, Pattern::OneAtATime);
    assert!(jain < 0.5, "{jain}");
}

/// With `--nocapture` this prints the table from which the default slack was chosen.
#[test]
fn every_slack_is_even_and_a_wider_one_wakes_less() {
    let mut wakes_before = f64::MAX;
    println!(
        "| slack | workers | pattern | Jain, least of 10 | wake-ups for a connection, most of 10 |"
    );
    println!("|---|---|---|---|---|");
    for slack in [1, 2, 4, 6, 8] {
        let mut wakes_most = 0.0_f64;
        for workers in [4, 8] {
            for pattern in PATTERNS {
                let policy = Policy::LeastLoaded {
                    slack,
                    delay: Policy::DEFAULT_DELAY,
                };
                let (jain, wakes) = measure(policy, workers, pattern);
                println!("| {slack} | {workers} | {pattern:?} | {jain:.4} | {wakes:.3} |");
                assert!(jain >= 0.99);
                wakes_most = wakes_most.max(wakes);
            }
        }
        assert!(wakes_most < wakes_before);
        wakes_before = wakes_most;
    }
}
