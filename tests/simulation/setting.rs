//! What a seed decides beside what goes wrong: the shape of the server.

use std::time::Duration;

use evcore::{
    Budgets, EventLoop, Mode,
    balancer::Policy,
    timer::{NeverEarly, TimerHeap, TimerTree},
};
use evcore_sim::{Chance, Conditions, Fault, Faults, Process, Rng, SimListener, SimMutex, World};

use crate::audit::Punctuality;

/// Where the server listens.
pub(crate) const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 80);

/// The server of one seed, and its world.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) workers: usize,
    pub(crate) connections: u32,
    pub(crate) budgets: Budgets,
    pub(crate) mode: Mode,
    faults: Faults,
    policy: Policy,
    timers: Timers,
    resolution: Option<Duration>,
    /// What the poller can by itself.
    edges: bool,
}

#[derive(Clone, Copy, Debug)]
enum Timers {
    Wheel,
    Tree,
    Heap,
}

impl Setting {
    /// Under all faults, or without the clock's, so that it can be told whether anybody is late.
    pub(crate) fn faulty(rng: &mut Rng) -> Self {
        let faults = if rng.below(2) == 0 {
            Faults::all()
        } else {
            Faults::all().without(Fault::ClockJump)
        };
        Self::with(faults, rng)
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
        Self {
            workers: 1 + rng.index(4),
            connections: [4, 8, 12, 19][rng.index(4)],
            budgets,
            mode: [Mode::Level, Mode::Edge][rng.index(2)],
            faults,
            policy: [Policy::Off, Policy::mutex()][rng.index(2)],
            timers,
            resolution: (rng.below(8) == 0).then_some(Duration::from_millis(100)),
            edges: rng.below(2) == 0,
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

    pub(crate) fn prepare(&self, world: &World) {
        world.set_faults(self.faults);
        world.set_conditions(Conditions {
            step: Duration::ZERO..=Duration::from_micros(200),
            ..Conditions::default()
        });
    }

    pub(crate) fn event_loop(&self, process: &Process, mutex: &SimMutex) -> EventLoop<SimListener> {
        let mut abilities = evcore::poller::Abilities::default();
        (abilities.edge, abilities.oneshot) = (self.edges, self.edges);
        let mut builder = process
            .builder()
            .backend(process.backend_with(abilities))
            .listener(process.listen(ADDRESS.into()))
            .connections(self.connections)
            .budgets(self.budgets)
            .policy(self.policy)
            .lock(mutex.lock(process));
        builder = match self.timers {
            Timers::Wheel => builder,
            Timers::Tree => builder.timers(TimerTree::new()),
            Timers::Heap => builder.timers(NeverEarly::new(TimerHeap::new())),
        };
        if let Some(resolution) = self.resolution {
            builder = builder.timer_resolution(resolution);
        }
        builder.build().expect("nothing is missing")
    }
}

/// So that each of them is used up now and then.
fn small() -> Budgets {
    Budgets {
        batch: 3,
        accepts: 2,
        expired: 2,
        posted: 2,
        closing: 2,
    }
}
