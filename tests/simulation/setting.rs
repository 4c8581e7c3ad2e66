//! What a seed decides beside what goes wrong: the shape of the server.

use std::time::Duration;

use evcore::{
    Budgets, EventLoop, Mode,
    balancer::{Policy, WorkerId},
    poller::Capabilities,
    timer::{Lazy, TimerHeap, TimerTree},
};
use evcore_sim::{Chance, Conditions, Fault, Faults, Process, Rng, SimGroup, SimListener, World};

use crate::{audit::Punctuality, deafness::Patience};

/// Where the server listens.
pub(crate) const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 80);

/// What keeps a worker from its work.
pub(crate) const DISTURBING: [Fault; 4] =
    [Fault::Stop, Fault::Kill, Fault::SlowStep, Fault::Exhausted];

/// The server of one seed, and its world.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) workers: usize,
    pub(crate) connections: u32,
    pub(crate) budgets: Budgets,
    pub(crate) mode: Mode,
    faults: Faults,
    policy: Policy,
    /// Each worker has a listener of its own, among which the kernel spreads the clients.
    own_listeners: bool,
    /// The workers see each other. If not, they share at most the accept lock.
    in_group: bool,
    timers: Timers,
    resolution: Option<Duration>,
    /// What the poller can by itself.
    capabilities: Capabilities,
}

#[derive(Clone, Copy, Debug)]
enum Timers {
    Wheel,
    Tree,
    Heap,
}

impl Setting {
    /// Under all faults, or without the clock's, so that it can be told whether anybody is late; or
    /// without those of workers.
    pub(crate) fn faulty(rng: &mut Rng) -> Self {
        let mut faults = Faults::all();
        if rng.below(2) == 0 {
            faults = faults.without(Fault::ClockJump);
        }
        if rng.below(3) == 0 {
            // So that it can be told whether anybody is deaf without an excuse.
            faults = DISTURBING.into_iter().fold(faults, Faults::without);
        }
        Self::with(faults, rng)
    }

    /// Workers that notify each other, under no fault that holds a worker up.
    pub(crate) fn notifying(rng: &mut Rng) -> Self {
        let faults = DISTURBING.into_iter().fold(Faults::all(), Faults::without);
        let mut setting = Self::with(faults, rng);
        setting.workers = 2 + rng.index(3);
        setting.connections = 4;
        setting.policy = Policy::LeastLoaded {
            slack: 1,
            // So long that no worker looks unasked: only notifications make it.
            delay: Duration::from_secs(600),
        };
        setting.own_listeners = false;
        setting.in_group = true;
        setting.capabilities.exclusive = true;
        setting
    }

    /// Nothing goes wrong, and there is a place for everybody.
    pub(crate) fn faultless(rng: &mut Rng) -> Self {
        Self::roomy(Faults::none(), rng)
    }

    /// The server leaves its turns early, every now and then, and there is a place for everybody.
    pub(crate) fn leaving(rng: &mut Rng) -> Self {
        let faults = Faults::none().with(Fault::TurnLeft, Chance::one_in(4));
        Self::roomy(faults, rng)
    }

    fn roomy(faults: Faults, rng: &mut Rng) -> Self {
        let mut setting = Self::with(faults, rng);
        setting.connections = 1000;
        setting
    }

    fn with(faults: Faults, rng: &mut Rng) -> Self {
        let (budgets, timers) = if rng.below(2) == 0 {
            (Budgets::default(), Timers::Wheel)
        } else {
            // Of a tree or a heap, since a wheel's pauses count against the budget too.
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

    pub(crate) fn punctuality(&self) -> Punctuality {
        if self.resolution.is_some() {
            Punctuality::Unknown
        } else if self.faults.chance(Fault::ClockJump).is_never() {
            Punctuality::Full
        } else {
            Punctuality::OfTurns
        }
    }

    /// How long clients may have to wait for somebody to accept.
    pub(crate) fn patience(&self) -> Patience {
        let by_lock = match self.policy {
            Policy::Mutex { .. } => true,
            Policy::LeastLoaded { .. } => !self.capabilities.exclusive,
            _ => false,
        };
        Patience {
            has_pauses: by_lock && !self.in_group,
            each_has_its_own: self.own_listeners,
            clock: self.resolution.unwrap_or_default(),
        }
    }

    /// What the workers share.
    pub(crate) fn group(&self, world: &World) -> SimGroup {
        world.group(self.workers)
    }

    pub(crate) fn prepare(&self, world: &World) {
        world.set_faults(self.faults);
        world.set_conditions(Conditions {
            step: Duration::ZERO..=Duration::from_micros(200),
            ..Conditions::default()
        });
    }

    pub(crate) fn event_loop(
        &self,
        process: &Process,
        id: WorkerId,
        group: &SimGroup,
    ) -> EventLoop<SimListener> {
        let listener = if self.own_listeners {
            process.listen_alone(ADDRESS.into())
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
        builder.build().expect("nothing is missing")
    }
}

/// A policy, and whether each worker has a listener of its own.
fn policy(rng: &mut Rng) -> (Policy, bool) {
    let policy = match rng.index(6) {
        0 => Policy::Off,
        1 => Policy::mutex(),
        2 => Policy::exclusive(),
        3 => return (Policy::Off, true),
        _ => Policy::LeastLoaded {
            // The greater is never left where so few connections fit.
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

/// So that each of them is used up now and then.
fn small() -> Budgets {
    Budgets {
        batch: 3,
        accepts: 2,
        expired: 2,
        posted: 2,
        evictions: 2,
    }
}
