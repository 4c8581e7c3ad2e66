//! Tests in simulated time (in milliseconds) that connections even out. The workers have real
//! coordinators and are members of a real group. Their connections move with a delay, and record
//! when they last moved.

#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use std::time::Duration;

use evcore_balancer::{Coordinator, Give, Load, Moved, Notifier, Policy, WorkerGroup, WorkerId};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};

const CAPACITY: u32 = 100_000;
/// No connection moves twice within this time.
const STAY_MS: u64 = 1_000;
/// Time after which a worker takes back connections for which no answer has come.
const PATIENCE_MS: u64 = 250;
const NS_PER_MS: u64 = 1_000_000;

#[derive(Clone, Copy)]
struct Connection {
    moved_at_ms: Option<u64>,
    ends_at_ms: u64,
}

struct Worker {
    coordinator: Coordinator,
    connections: Vec<Connection>,
    listens: bool,
    /// The worker does nothing until this time.
    stopped_until_ms: u64,
    plans: u64,
    is_due: bool,
}

struct Flight {
    from: usize,
    to: usize,
    connections: Vec<Connection>,
    arrives_at_ms: u64,
    sent_at_ms: u64,
}

struct Server {
    group: WorkerGroup,
    now_ms: u64,
    workers: Vec<Option<Worker>>,
    flights: Vec<Flight>,
    moved: u64,
    idle: u32,
    latency_ms: u64,
    /// True if connections leave only for a worker that is not stopped, as if that worker had to
    /// send a greeting first, as in a handover.
    greets: bool,
    random: u64,
}

impl Server {
    /// Makes a server. The first slots have workers with these numbers of connections.
    fn new(slots: usize, opens: &[u32]) -> Self {
        Self::with(Policy::least_loaded(), slots, opens)
    }

    fn with(policy: Policy, slots: usize, opens: &[u32]) -> Self {
        let mut server = Self {
            group: WorkerGroup::new(policy, slots).unwrap(),
            now_ms: 1,
            workers: (0..slots).map(|_| None).collect(),
            flights: Vec::new(),
            moved: 0,
            idle: 100,
            latency_ms: 1,
            greets: false,
            random: 7,
        };
        for (slot, open) in opens.iter().enumerate() {
            server.start(slot);
            server.connect(slot, *open, u64::MAX);
        }
        server
    }

    fn start(&mut self, slot: usize) {
        let member = self.group.join(WorkerId::from_slot(slot));
        let mut coordinator = Coordinator::new(None, Some(Box::new(member)))
            .unwrap()
            .exclusive(true);
        coordinator.set_rebalancing(true);
        self.workers[slot] = Some(Worker {
            coordinator,
            connections: Vec::new(),
            listens: false,
            stopped_until_ms: 0,
            plans: 0,
            is_due: true,
        });
    }

    /// Kills a worker. A process that dies drops nothing, and the parent notices its death at once.
    fn kill(&mut self, slot: usize) {
        std::mem::forget(self.workers[slot].take().map(|worker| worker.coordinator));
        self.group.release_dead(WorkerId::from_slot(slot));
    }

    fn connect(&mut self, slot: usize, clients: u32, ends_at_ms: u64) {
        let worker = self.workers[slot].as_mut().unwrap();
        for _ in 0..clients {
            worker.coordinator.on_accepted();
            worker.connections.push(Connection {
                moved_at_ms: None,
                ends_at_ms,
            });
        }
        worker.is_due = true;
    }

    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.now_ms += 1;
        self.land();
        for slot in 0..self.workers.len() {
            self.turn(slot);
        }
    }

    /// Lets the flights (connections under way) that are due arrive or come back.
    fn land(&mut self) {
        let now_ms = self.now_ms;
        let (landed, flying) = std::mem::take(&mut self.flights)
            .into_iter()
            .partition(|flight| {
                let to = self.workers[flight.to].as_ref();
                let runs = to.is_none_or(|to| to.stopped_until_ms <= now_ms);
                let is_late = now_ms - flight.sent_at_ms >= PATIENCE_MS;
                flight.arrives_at_ms <= now_ms && (runs || is_late)
            });
        self.flights = flying;
        for Flight {
            from,
            to,
            connections,
            sent_at_ms,
            ..
        } in Vec::from_iter(landed)
        {
            let is_late = now_ms - sent_at_ms >= PATIENCE_MS;
            let count = connections.len() as u32;
            let answer = match &mut self.workers[to] {
                Some(to) if !is_late => {
                    to.connections
                        .extend(connections.into_iter().map(|connection| Connection {
                            moved_at_ms: Some(now_ms),
                            ..connection
                        }));
                    to.coordinator.on_moved(Moved::Arrived(count));
                    to.is_due = true;
                    self.moved += u64::from(count);
                    Moved::Taken(count)
                }
                _ => {
                    let from = self.workers[from].as_mut();
                    from.into_iter()
                        .for_each(|from| from.connections.extend(&connections));
                    Moved::CameBack(count)
                }
            };
            if let Some(from) = &mut self.workers[from] {
                from.coordinator.on_moved(answer);
                from.is_due = true;
            }
        }
    }

    fn turn(&mut self, slot: usize) {
        let (now_ms, idle) = (self.now_ms, self.idle);
        let Some(worker) = &mut self.workers[slot] else {
            return;
        };
        if now_ms < worker.stopped_until_ms {
            return;
        }
        let before = worker.connections.len();
        worker
            .connections
            .retain(|connection| connection.ends_at_ms > now_ms);
        if is_woken(&worker.coordinator) {
            worker.coordinator.on_notified(false);
            worker.is_due = true;
        }
        let ends = worker.coordinator.plan_ends_at_ns() <= now_ms * NS_PER_MS;
        if !ends && !std::mem::take(&mut worker.is_due) && before == worker.connections.len() {
            return;
        }
        let open = worker.connections.len() as u32;
        let load = Load {
            active: open,
            capacity: CAPACITY,
        };
        if !ends && worker.coordinator.keeps_plan(open, || load) {
            return;
        }
        worker.plans += 1;
        worker.coordinator.plan_moves(open, open * idle / 100);
        let plan = worker.coordinator.plan(now_ms, load);
        worker
            .coordinator
            .keep_plan(&plan, now_ms * NS_PER_MS, load);
        worker.coordinator.publish(&plan);
        worker.listens = plan.listening;
        if let Some(give) = plan.give {
            assert_eq!(plan.wait_at_most, Some(Duration::ZERO));
            self.give(slot, give);
        }
    }

    fn give(&mut self, slot: usize, give: Give) {
        let latency_ms = 1 + self.random_below(self.latency_ms);
        let now_ms = self.now_ms;
        let to = self.workers[give.to.slot()].as_ref();
        if self.greets && to.is_some_and(|to| now_ms < to.stopped_until_ms) {
            return;
        }
        let worker = self.workers[slot].as_mut().unwrap();
        let kept = worker.connections.len() - give.connections as usize;
        let connections = worker.connections.split_off(kept);
        for connection in &connections {
            let moved_at_ms = connection.moved_at_ms.unwrap_or(0);
            let stayed_ms = now_ms.saturating_sub(moved_at_ms);
            assert!(
                moved_at_ms == 0 || stayed_ms >= STAY_MS,
                "moved again after {stayed_ms} ms"
            );
        }
        worker.coordinator.on_moved(Moved::Left(give.connections));
        worker.is_due = true;
        self.flights.push(Flight {
            from: slot,
            to: give.to.slot(),
            connections,
            arrives_at_ms: now_ms + latency_ms,
            sent_at_ms: now_ms,
        });
    }

    fn random_below(&mut self, limit: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit.max(1)
    }

    /// Number of open connections of each living worker. Connections under way count for their
    /// sender.
    fn opens(&self) -> Vec<u32> {
        let slots = (0..self.workers.len()).filter(|slot| self.workers[*slot].is_some());
        let open = |slot: usize| {
            let here = self.workers[slot].as_ref().unwrap().connections.len();
            let flights = self.flights.iter().filter(|flight| flight.from == slot);
            (here
                + flights
                    .map(|flight| flight.connections.len())
                    .sum::<usize>()) as u32
        };
        slots.map(open).collect()
    }

    fn jain(&self) -> f64 {
        let opens = self.opens();
        let loads = || opens.iter().map(|open| f64::from(*open));
        let (sum, squares) = (loads().sum::<f64>(), loads().map(|x| x * x).sum::<f64>());
        if squares == 0.0 {
            1.0
        } else {
            sum * sum / (opens.len() as f64 * squares)
        }
    }

    /// Lets time pass until Jain's index is this high. Returns the number of milliseconds.
    fn ms_until_even(&mut self, jain: f64) -> u64 {
        let begun_ms = self.now_ms;
        while self.jain() < jain {
            assert!(self.now_ms < begun_ms + 10_000, "{:?}", self.opens());
            self.tick();
        }
        self.now_ms - begun_ms
    }

    fn plans(&self) -> u64 {
        self.workers
            .iter()
            .flatten()
            .map(|worker| worker.plans)
            .sum()
    }
}

fn is_woken(coordinator: &Coordinator) -> bool {
    let Some(Notifier::Descriptor(fd)) = coordinator.notifier() else {
        panic!("a member of a group has a descriptor");
    };
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(
        &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
        Some(&now),
    )
    .unwrap()
        == 1
}

fn surplus(opens: &[u32]) -> u64 {
    let sum: u64 = opens.iter().map(|open| u64::from(*open)).sum();
    let mean = sum.div_ceil(opens.len() as u64);
    opens
        .iter()
        .map(|open| u64::from(*open).saturating_sub(mean))
        .sum()
}

#[test]
fn a_new_worker_beside_three_loaded_ones_is_even_in_a_second() {
    for open in [40, 100, 1_000, 3_000] {
        let mut server = Server::new(4, &[open; 3]);
        server.pass(5_000);
        assert_eq!(server.moved, 0);
        server.start(3);
        let took_ms = server.ms_until_even(0.99);
        println!("{open} connections of each: 0.99 after {took_ms} ms");
        assert!(took_ms <= 1_000, "{open}: {took_ms} ms");
        server.pass(1_000);
        assert!(server.jain() >= 0.995, "{:?}", server.opens());
        assert!(
            server.moved <= surplus(&[open, open, open, 0]),
            "{}",
            server.moved
        );
    }
}

#[test]
fn a_worker_that_replaces_a_killed_one_is_even_in_a_second() {
    let mut server = Server::new(4, &[500; 4]);
    server.pass(3_000);
    server.kill(2);
    server.pass(50);
    assert_eq!(server.moved, 0);
    server.start(2);
    assert!(server.ms_until_even(0.99) <= 1_000);
    server.pass(1_000);
    assert!(
        server.jain() >= 0.995 && server.moved <= 375,
        "{:?}",
        server.opens()
    );
}

#[test]
fn a_burst_into_one_worker_is_even_within_100_ms() {
    for workers in [2, 4, 8] {
        let mut server = Server::new(workers, &vec![0; workers]);
        server.pass(5_000);
        server.connect(0, 400, u64::MAX);
        let took_ms = server.ms_until_even(0.995);
        println!("{workers} workers: 0.995 after {took_ms} ms");
        assert!(
            took_ms <= 100,
            "{workers} workers are even after {took_ms} ms"
        );
    }
}

/// The connections of two workers end early, again and again.
#[test]
fn uneven_lifetimes_leave_the_connections_even() {
    let mut server = Server::new(8, &[0; 8]);
    let mut worst: f64 = 1.0;
    let mut accepted = 0;
    for ms in 0..20_000 {
        for _ in 0..2 {
            let listening: Vec<_> = (0..8)
                .filter(|slot| server.workers[*slot].as_ref().unwrap().listens || ms < 2)
                .collect();
            let slot = listening[server.random_below(listening.len() as u64) as usize];
            let lives_ms = if slot < 2 { 100 } else { 600 } + server.random_below(200);
            let ends_at_ms = server.now_ms + lives_ms;
            server.connect(slot, 1, ends_at_ms);
            accepted += 1;
        }
        server.tick();
        if ms > 2_000 {
            worst = worst.min(server.jain());
        }
    }
    println!("least {worst:.4}, {} of {accepted} moved", server.moved);
    assert!(worst >= 0.995, "{worst}");
    assert!(
        server.moved * 2 < accepted,
        "{} of {accepted} moved",
        server.moved
    );
}

/// All connections of two workers of eight end, as in `fairness.rs`, and no client comes.
#[test]
fn connections_even_out_after_two_workers_lose_theirs() {
    let mut server = Server::new(8, &[125; 8]);
    server.pass(3_000);
    for slot in 0..2 {
        let worker = server.workers[slot].as_mut().unwrap();
        worker.connections.clear();
        worker.is_due = true;
    }
    server.tick();
    assert!(server.ms_until_even(0.995) <= 200);
}

#[test]
fn a_stopped_worker_gets_nothing_and_no_connection_is_lost() {
    let mut server = Server::new(4, &[400, 400, 400, 0]);
    server.tick();
    server.tick();
    server.workers[3].as_mut().unwrap().stopped_until_ms = 5_000;
    server.pass(4_000);
    assert_eq!(server.opens().iter().sum::<u32>(), 1_200);
    assert_eq!(server.moved, 0);
    server.pass(4_000);
    assert!(server.jain() >= 0.995, "{:?}", server.opens());
}

/// The policy notifies no worker, so only the moves show that a worker does not run.
#[test]
fn a_stopped_worker_does_not_keep_connections_from_others() {
    for (greets, stopped) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        let slots = stopped + 2;
        let opens: Vec<u32> = (0..slots)
            .map(|slot| if slot == 0 { 600 } else { 0 })
            .collect();
        let mut server = Server::with(Policy::exclusive(), slots, &opens);
        server.greets = greets;
        server.tick();
        for slot in 1..=stopped {
            server.workers[slot].as_mut().unwrap().stopped_until_ms = 60_000;
        }
        server.pass(2_000);
        let mean = 600 / slots as u32;
        let now = server.opens();
        assert_eq!(now[slots - 1], mean, "{greets}, {stopped}: {now:?}");
        server.pass(95_000);
        assert_eq!(server.opens(), vec![mean; slots], "{greets}, {stopped}");
    }
}

#[test]
fn connections_that_cannot_move_do_not_keep_a_group_awake() {
    for idle in [100, 1] {
        let mut server = Server::new(4, &[100, 100, 100, 0]);
        server.idle = 0;
        server.pass(60_000);
        let before = server.plans();
        server.pass(60_000);
        assert!(server.plans() - before <= 8, "{}", server.plans() - before);
        server.idle = idle;
        server.connect(0, 1, u64::MAX);
        server.pass(200);
        assert!(server.moved > 0, "{idle} in a hundred are idle");
    }
}

#[test]
fn a_worker_that_no_longer_takes_part_gives_nothing() {
    let mut server = Server::new(2, &[90, 0]);
    server.pass(10);
    server.connect(0, 10, u64::MAX);
    server.pass(10);
    assert!(
        server.flights.is_empty(),
        "the connections were uneven only briefly"
    );
    for slot in 0..2 {
        let coordinator = &mut server.workers[slot].as_mut().unwrap().coordinator;
        coordinator.set_rebalancing(false);
    }
    server.pass(10_000);
    assert!(server.moved == 0 && server.flights.is_empty());
}

fn opens() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(prop_oneof![0..20_u32, 0..2_000_u32], 2..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_group_becomes_even_and_rests(
        opens in opens(),
        idle in 20..=100_u32,
        latency_ms in 1..20_u64,
        seed in any::<u64>(),
    ) {
        let mut server = Server::new(opens.len(), &opens);
        (server.idle, server.latency_ms, server.random) = (idle, latency_ms, seed);
        server.pass(5_000);
        let now = server.opens();
        prop_assert_eq!(now.iter().sum::<u32>(), opens.iter().sum::<u32>());
        // Workers whose views are of different moments may each send a batch to the wrong worker.
        let surplus = surplus(&opens);
        let moved_max = surplus + (surplus / 4).min(32 * opens.len() as u64);
        prop_assert!(server.moved <= moved_max, "{} of {surplus}", server.moved);
        let mean = now.iter().sum::<u32>() / now.len() as u32;
        let far = now.iter().map(|open| open.abs_diff(mean)).max().unwrap();
        // If no worker is below the mean, one worker may have the whole remainder of the division.
        let far_max = (3 + mean / 32).max(now.len() as u32 - 1);
        prop_assert!(far <= far_max, "{now:?}");
        let before = server.plans();
        server.pass(10_000);
        // If no more connections can move, members try again after pauses. A group that is even
        // does not plan at all.
        let is_even = now.iter().max().unwrap() - now.iter().min().unwrap() <= 1;
        let plans_max = if is_even { 0 } else { 6 * now.len() as u64 };
        let plans = server.plans() - before;
        prop_assert!(plans <= plans_max, "the group goes on planning: {plans} plans, {now:?}");
    }
}
