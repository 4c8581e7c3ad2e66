//! The configuration of the server. The seed of the simulation chooses it.

use std::time::Duration;

use evcore::{
    Budgets, EventLoop, Mode,
    balancer::{Policy, WorkerId},
    poller::Capabilities,
    timer::{Lazy, TimerHeap, TimerTree},
};
use evcore_sim::{Fault, Faults, Probability, Process, Rng, Sim, SimConfig, SimGroup, SimListener};

use crate::{invariants::Precision, liveness::Guarantee};

pub(crate) const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 80);

/// The faults that keep a worker from accepting.
pub(crate) const WORKER_FAULTS: [Fault; 5] = [
    Fault::Pause,
    Fault::Kill,
    Fault::StreamKill,
    Fault::SlowStep,
    Fault::Exhausted,
];

#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) workers: usize,
    pub(crate) connections: u32,
    pub(crate) budgets: Budgets,
    pub(crate) mode: Mode,
    faults: Faults,
    policy: Policy,
    /// True if each worker has its own listener (`SO_REUSEPORT`).
    pub(crate) own_listeners: bool,
    /// True if the workers are members of the group. Otherwise they share only the accept lock.
    in_group: bool,
    timers: Timers,
    resolution: Option<Duration>,
    capabilities: Capabilities,
}

#[derive(Clone, Copy, Debug)]
enum Timers {
    Wheel,
    Tree,
    Heap,
}

impl Config {
    /// A configuration with all faults. Some seeds lack clock jumps, so that lateness can be
    /// checked. Some lack the faults of workers, so that liveness can be checked without
    /// exceptions.
    pub(crate) fn faulty(rng: &mut Rng) -> Self {
        let mut faults = Faults::all();
        if rng.below(2) == 0 {
            faults = faults.without(Fault::ClockJump);
        }
        if rng.below(3) == 0 {
            faults = WORKER_FAULTS.into_iter().fold(faults, Faults::without);
        }
        Self::with(faults, rng)
    }

    /// Workers that notify each other, without the faults of workers.
    pub(crate) fn notifying(rng: &mut Rng) -> Self {
        let faults = WORKER_FAULTS
            .into_iter()
            .fold(Faults::all(), Faults::without);
        let mut config = Self::with(faults, rng);
        config.workers = 2 + rng.index(3);
        config.connections = 4;
        config.policy = Policy::LeastLoaded {
            slack: 1,
            // With this delay, a worker that does not listen looks for clients only when another
            // worker notifies it.
            delay: Duration::from_secs(600),
        };
        config.own_listeners = false;
        config.in_group = true;
        config.capabilities.exclusive = true;
        config
    }

    pub(crate) fn resting(rng: &mut Rng) -> Self {
        let mut config = Self::with(Faults::lossless(), rng);
        config.workers = 2 + rng.index(3);
        config.connections = 1000;
        config.policy = [Policy::exclusive(), Policy::least_loaded()][rng.index(2)];
        config.own_listeners = false;
        config.in_group = true;
        config.capabilities.exclusive = true;
        config
    }

    pub(crate) fn faultless(rng: &mut Rng) -> Self {
        Self::roomy(Faults::none(), rng)
    }

    pub(crate) fn lossless(rng: &mut Rng) -> Self {
        Self::roomy(Faults::lossless(), rng)
    }

    /// After a quarter of the steps, the worker abandons its turn: it waits again before it has
    /// taken the other steps. There is room for every client.
    pub(crate) fn abandoning(rng: &mut Rng) -> Self {
        let faults = Faults::none().with(Fault::AbandonedTurn, Probability::one_in(4));
        Self::roomy(faults, rng)
    }

    fn roomy(faults: Faults, rng: &mut Rng) -> Self {
        let mut config = Self::with(faults, rng);
        config.connections = 1000;
        config
    }

    fn with(faults: Faults, rng: &mut Rng) -> Self {
        let (budgets, timers) = if rng.below(2) == 0 {
            (Budgets::default(), Timers::Wheel)
        } else {
            // A wheel is not used here. It may return no timer although some are due (it pauses),
            // and such a pause uses up a part of the budget.
            (small(), [Timers::Tree, Timers::Heap][rng.index(2)])
        };
        let (policy, own_listeners) = policy(rng);
        Self {
            workers: 1 + rng.index(4),
            connections: [4, 8, 12, 19][rng.index(4)],
            budgets,
            mode: [Mode::Level, Mode::Edge][rng.index(2)],
            faults,
            policy,
            own_listeners,
            in_group: match policy {
                Policy::Mutex { .. } => rng.below(2) == 0,
                _ => policy.uses_group(),
            },
            timers,
            resolution: (rng.below(8) == 0).then_some(Duration::from_millis(100)),
            capabilities: capabilities(rng),
        }
    }

    pub(crate) fn may_pause(&self) -> bool {
        !self.faults.probability(Fault::Pause).is_never()
    }

    pub(crate) fn precision(&self) -> Precision {
        if self.resolution.is_some() {
            Precision::None
        } else if self.faults.probability(Fault::ClockJump).is_never() {
            Precision::Full
        } else {
            Precision::Turns
        }
    }

    pub(crate) fn guarantee(&self) -> Guarantee {
        let by_lock = match self.policy {
            Policy::Mutex { .. } => true,
            Policy::LeastLoaded { .. } => !self.capabilities.exclusive,
            _ => false,
        };
        Guarantee {
            has_pauses: by_lock && !self.in_group,
            own_listeners: self.own_listeners,
            clock_lag: self.resolution.unwrap_or_default(),
        }
    }

    pub(crate) fn group(&self, sim: &Sim) -> SimGroup {
        sim.group(self.policy, self.workers)
    }

    pub(crate) fn prepare(&self, sim: &Sim) {
        sim.set_faults(self.faults);
        sim.set_config(SimConfig {
            step_time: Duration::ZERO..=Duration::from_micros(200),
            ..SimConfig::default()
        });
    }

    pub(crate) fn event_loop(
        &self,
        process: &Process,
        id: WorkerId,
        group: &SimGroup,
    ) -> EventLoop<SimListener> {
        let listener = if self.own_listeners {
            process.listen_reuseport(ADDRESS.into())
        } else {
            process.listen(ADDRESS.into())
        };
        let member = if self.in_group {
            group.join(process, id)
        } else {
            group.lock_handle(process, id)
        };
        let mut builder = process
            .builder()
            .backend(process.backend_with(self.capabilities))
            .listener(listener)
            .connections(self.connections)
            .budgets(self.budgets)
            .policy(self.policy)
            .group(member);
        builder = match self.timers {
            Timers::Wheel => builder,
            Timers::Tree => builder.timer_queue(TimerTree::new()),
            Timers::Heap => builder.timer_queue(Lazy::new(TimerHeap::new())),
        };
        if let Some(resolution) = self.resolution {
            builder = builder.timer_resolution(resolution);
        }
        builder.build().expect("a valid configuration")
    }
}

/// A random policy, and whether each worker has its own listener.
fn policy(rng: &mut Rng) -> (Policy, bool) {
    let policy = match rng.index(6) {
        0 => Policy::Off,
        1 => Policy::mutex(),
        2 => Policy::exclusive(),
        3 => return (Policy::Off, true),
        _ => Policy::LeastLoaded {
            // With few connections the default slack is never exceeded.
            slack: [1, Policy::DEFAULT_SLACK][rng.index(2)],
            delay: Policy::DEFAULT_DELAY,
        },
    };
    (policy, false)
}

fn capabilities(rng: &mut Rng) -> Capabilities {
    let edges = rng.below(2) == 0;
    let mut capabilities = Capabilities::default();
    (capabilities.edge, capabilities.oneshot) = (edges, edges);
    capabilities.exclusive = rng.below(2) == 0;
    capabilities
}

/// Small budgets, which some turns use up.
fn small() -> Budgets {
    Budgets {
        batch: 3,
        accepts: 2,
        expired: 2,
        posted: 2,
        evictions: 2,
    }
}
