//! A model of the kernel's order of wake-ups, and of workers that follow the plans of real
//! balancers.
//!
//! When a client connects, the model wakes all workers that are registered without exclusive
//! wake-ups. Of the workers with exclusive wake-ups, it wakes only the first that sleeps, in the
//! order of registration. The workers before that one do not sleep, and find the client at their
//! next wait. A registration reports the clients that wait already. A worker that finds no client
//! when it runs continues to sleep, as in the kernel.
//!
//! Time is in microseconds. A wake-up takes 20 to 60 µs, an accept 5 µs, and the handlers of an
//! accepted client 10 µs. A test that models a busy machine makes wake-ups longer.

#![allow(dead_code, reason = "each test uses a part of this file")]

use std::time::Duration;

use evcore_balancer::{
    Balancer, GroupMember, Inputs, Leadership, Load, Member, Plan, Policy, WorkerGroup, WorkerId,
};

pub(crate) struct Worker {
    pub(crate) balancer: Balancer,
    pub(crate) member: Member,
    pub(crate) active: u32,
    /// Number of clients accepted since the last plan.
    pub(crate) accepted: u32,
    /// Number of clients that it may still accept in this turn.
    pub(crate) allowed: u32,
    pub(crate) registered: bool,
    pub(crate) exclusive: bool,
    pub(crate) edge_triggered: bool,
    pub(crate) rests: bool,
    /// True if another worker has notified or roused it since its last plan.
    pub(crate) is_notified: bool,
    pub(crate) wait_until: u64,
    /// True if the kernel has reported a client to it, or reports one at its next wait.
    pub(crate) reported: bool,
    pub(crate) may_have_left_clients: bool,
    pub(crate) phase: Phase,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Phase {
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

pub(crate) struct Server {
    pub(crate) now: u64,
    pub(crate) workers: Vec<Worker>,
    /// The registered workers, in the order of their registrations.
    pub(crate) queue: Vec<usize>,
    pub(crate) backlog: u32,
    pub(crate) taken: u32,
    pub(crate) wakes: u32,
    /// Number of waits that have ended because of their limits.
    pub(crate) timeouts: u32,
    /// The shortest and the longest time of a wake-up.
    pub(crate) wake_us: [u64; 2],
    pub(crate) random: u64,
    /// True if each worker reports one client too many to the group in each plan. The group then
    /// always seems to meet clients, so that no worker rests.
    pub(crate) never_rests: bool,
}

impl Server {
    pub(crate) fn new(policy: Policy, workers: u32, seed: u64) -> Self {
        let group = WorkerGroup::new(policy, workers as usize).unwrap();
        let worker = |number: u32| Worker {
            balancer: Balancer::new(policy),
            member: group.join(WorkerId::from_slot(number as usize)),
            active: 0,
            accepted: 0,
            allowed: 0,
            registered: false,
            exclusive: false,
            edge_triggered: false,
            rests: false,
            is_notified: false,
            wait_until: 0,
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
            timeouts: 0,
            wake_us: [20, 60],
            random: seed,
            never_rests: false,
        }
    }

    /// Connects this many clients at once, and waits until all of them are accepted.
    pub(crate) fn connect(&mut self, clients: u32) {
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

    pub(crate) fn pass(&mut self, us: u64) {
        let end = self.now + us;
        while self.workers.iter().any(|w| w.phase.until() <= end) {
            self.next_event();
        }
        self.now = end;
    }

    /// Ends all connections of a worker at once.
    pub(crate) fn close_connections_of(&mut self, worker: usize) {
        self.workers[worker].active = 0;
        self.workers[worker].phase = Phase::Planning { until: self.now };
        self.pass(200);
    }

    fn report_a_client(&mut self) {
        let queue = self.queue.iter().copied();
        let (exclusive, others): (Vec<usize>, Vec<usize>) =
            queue.partition(|&index| self.workers[index].exclusive);
        for index in others {
            self.workers[index].reported = true;
            self.wake(index);
        }
        for index in exclusive {
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
                self.timeouts += 1;
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
        if matches!(worker.phase, Phase::Waking { .. }) && self.backlog == 0 && !worker.is_notified
        {
            // Another worker has accepted the client. As in the kernel, this one continues to
            // sleep.
            worker.reported = false;
            let until = worker.wait_until;
            worker.phase = Phase::Sleeping { until };
            return;
        }
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
            // A level-triggered registration reports a waiting client again.
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
        let accepted = std::mem::take(&mut worker.accepted);
        worker
            .member
            .add_clients(accepted + u32::from(self.never_rests));
        let inputs = Inputs {
            load,
            accepted,
            reported: accepted > 0,
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
        worker.wait_until = plan.wait_at_most.map_or(u64::MAX, |limit| {
            self.now + u64::try_from(limit.as_micros()).unwrap()
        });
        worker.is_notified = worker.member.is_notified();
        worker.phase = if ready || worker.is_notified {
            Phase::Waking { until: self.now }
        } else {
            let until = worker.wait_until;
            Phase::Sleeping { until }
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
            worker.exclusive = plan.exclusive;
            worker.edge_triggered = plan.edge_triggered;
            worker.reported = self.backlog > 0;
            self.queue.push(index);
        }
        if plan.leadership == Leadership::Acquire {
            worker.member.lead();
        }
        worker.rests = plan.rests;
        worker.member.set_resting(plan.rests);
        if plan.rouses {
            worker.member.rouse();
            for index in (0..self.workers.len()).filter(|&other| other != index) {
                if self.workers[index].rests {
                    self.notify(index);
                }
            }
        }
        if let Some(peer) = plan.notify {
            self.workers[index].member.notify(peer);
            self.notify(peer.slot());
        }
    }

    fn notify(&mut self, index: usize) {
        self.workers[index].is_notified = true;
        self.wake(index);
    }

    fn random_below(&mut self, limit: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    pub(crate) fn jain(&self) -> f64 {
        let loads = || self.workers.iter().map(|w| f64::from(w.active));
        let (sum, squares) = (loads().sum::<f64>(), loads().map(|x| x * x).sum::<f64>());
        sum * sum / (self.workers.len() as f64 * squares)
    }
}
