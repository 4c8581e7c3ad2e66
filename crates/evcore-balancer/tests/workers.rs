//! Several workers, one accept lock, made-up time: what `Policy::Mutex` promises about all of them.
//!
//! Each worker is the real `Balancer` over the real lock. It follows a script of turns, whatever that
//! does to its load, while a parent looks on. Time is a loop variable, in milliseconds.
//!
//! Checked at each moment and at each plan:
//! never two holders; a full worker does not listen; a crowded one gives way; and nobody's free place
//! is left unserved for longer than the delay and one turn, counted from the last fault.

use std::{num::NonZeroU32, time::Duration};

use evcore_balancer::{AcceptMutex, Balancer, Load, Plan, Policy};
use proptest::prelude::*;

/// How long a run is. Some forty delays at the least.
const END_MS: u64 = 2_000;
const DELAY_MS_MAX: u64 = 50;
/// A worker that takes longer over its handlers counts as one that has stopped answering.
const HANDLERS_MS_MAX: u64 = 5;

/// One turn of a worker's script; a script that is at its end begins again.
#[derive(Clone, Debug)]
struct Turn {
    /// When something happens that ends the wait, if the plan's limit does not end it before.
    event_after_ms: Option<u64>,
    handlers_ms: u64,
    /// How full the worker is after that, in thousandths of its capacity.
    fullness: u32,
    fate: Fate,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Lives,
    /// Stops answering for so long, in its handlers: with listeners registered, without the lock.
    Hangs(u64),
    /// Dies in its wait, lock and all; its parent notices after so long and starts another.
    Dies(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Waiting { until: u64 },
    Handling { until: u64 },
    Hanging { until: u64 },
    Dead { until: u64 },
}

struct Worker {
    owner: NonZeroU32,
    balancer: Balancer,
    load: Load,
    phase: Phase,
    /// The last plan: its `listening` is whether the listeners are registered.
    plan: Option<Plan>,
    script: Vec<Turn>,
    turns: usize,
}

impl Worker {
    fn answers(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. } | Phase::Handling { .. })
    }

    fn listens(&self) -> bool {
        self.answers() && self.plan.is_some_and(|plan| plan.listening)
    }

    fn has_room(&self) -> bool {
        self.answers() && !self.load.is_full()
    }

    fn holds_the_lock(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. }) && self.plan.is_some_and(|plan| plan.holds_lock)
    }

    fn turn(&self) -> Turn {
        self.script[self.turns % self.script.len()].clone()
    }
}

struct Server {
    now_ms: u64,
    delay_ms: u64,
    mutex: AcceptMutex,
    workers: Vec<Worker>,
    /// Since when, or since which later fault, a free place has been left unserved.
    deaf_since: Option<u64>,
    owners: u32,
}

impl Server {
    fn new(delay_ms: u64, capacity: u32, scripts: Vec<Vec<Turn>>) -> Self {
        let mut server = Self {
            now_ms: 0,
            delay_ms,
            mutex: AcceptMutex::local(),
            workers: Vec::new(),
            deaf_since: None,
            owners: 0,
        };
        for script in scripts {
            let worker = Worker {
                owner: server.next_owner(),
                balancer: server.balancer(),
                load: Load {
                    active: 0,
                    capacity,
                },
                phase: Phase::Handling { until: 0 },
                plan: None,
                script,
                turns: 0,
            };
            server.workers.push(worker);
        }
        server
    }

    fn run(&mut self) {
        while self.now_ms < END_MS {
            // Nobody is always first.
            let first = usize::try_from(self.now_ms).unwrap();
            for i in 0..self.workers.len() {
                self.advance((first + i) % self.workers.len());
            }
            self.check();
            self.now_ms += 1;
        }
    }

    /// Moves one worker on, as far as it gets at this moment.
    fn advance(&mut self, index: usize) {
        loop {
            match self.workers[index].phase {
                Phase::Waiting { until } if until <= self.now_ms => self.end_wait(index),
                Phase::Handling { until } if until <= self.now_ms => self.begin_turn(index),
                Phase::Hanging { until } if until <= self.now_ms => {
                    self.fault();
                    self.begin_turn(index);
                }
                Phase::Dead { until } if until <= self.now_ms => self.replace(index),
                _ => return,
            }
        }
    }

    fn begin_turn(&mut self, index: usize) {
        let (now_ms, delay_ms) = (self.now_ms, self.delay_ms);
        let worker = &mut self.workers[index];
        let (mutex, owner, load) = (&self.mutex, worker.owner, worker.load);
        let plan = worker.balancer.plan(now_ms, load, || mutex.try_lock(owner));

        let listened = worker.plan.is_some_and(|before| before.listening);
        check_plan(plan, listened, load, delay_ms);

        let turn = worker.turn();
        let wait_ms = [turn.event_after_ms, plan.wait_at_most_ms]
            .into_iter()
            .flatten()
            .min();
        let until = wait_ms.map_or(u64::MAX, |ms| now_ms + ms);
        worker.plan = Some(plan);
        worker.phase = Phase::Waiting { until };
    }

    fn end_wait(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        let turn = worker.turn();
        worker.turns += 1;
        let capacity = worker.load.capacity;
        worker.load.active =
            u32::try_from(u64::from(capacity) * u64::from(turn.fullness) / 1000).unwrap();

        let in_ms = |ms| self.now_ms + ms;
        let phase = match turn.fate {
            Fate::Lives => Phase::Handling {
                until: in_ms(turn.handlers_ms),
            },
            Fate::Hangs(ms) => Phase::Hanging { until: in_ms(ms) },
            Fate::Dies(ms) => Phase::Dead { until: in_ms(ms) },
        };
        if !matches!(phase, Phase::Dead { .. }) {
            let held = worker.holds_the_lock();
            assert_eq!(self.mutex.unlock(worker.owner), held);
        }
        worker.phase = phase;
        if !worker.answers() {
            self.fault();
        }
    }

    /// What a parent does when it has reaped a worker.
    fn replace(&mut self, index: usize) {
        self.mutex.force_unlock(self.workers[index].owner);
        let (owner, balancer) = (self.next_owner(), self.balancer());
        let worker = &mut self.workers[index];
        worker.owner = owner;
        worker.balancer = balancer;
        worker.load.active = 0;
        worker.plan = None;
        worker.phase = Phase::Handling { until: self.now_ms };
        self.fault();
    }

    /// After a fault the time that deafness may last begins anew.
    fn fault(&mut self) {
        self.deaf_since = None;
    }

    fn check(&mut self) {
        let holders = self.workers.iter().filter(|w| w.holds_the_lock()).count();
        assert!(holders <= 1, "{holders} workers hold the lock");

        let wanted = self.workers.iter().any(Worker::has_room);
        if !wanted || self.workers.iter().any(Worker::listens) {
            self.deaf_since = None;
            return;
        }
        let since = *self.deaf_since.get_or_insert(self.now_ms);
        let deaf_ms = self.now_ms - since;
        assert!(
            deaf_ms <= self.delay_ms + HANDLERS_MS_MAX,
            "deaf for {deaf_ms} ms, with a delay of {} ms",
            self.delay_ms
        );
    }

    fn next_owner(&mut self) -> NonZeroU32 {
        self.owners += 1;
        NonZeroU32::new(self.owners).unwrap()
    }

    fn balancer(&self) -> Balancer {
        Balancer::new(Policy::Mutex {
            delay: Duration::from_millis(self.delay_ms),
        })
    }
}

/// What holds of each plan; `listened`: so did the plan before.
fn check_plan(plan: Plan, listened: bool, load: Load, delay_ms: u64) {
    assert_eq!(plan.listening, plan.holds_lock);
    if load.is_full() {
        assert!(!plan.listening, "a full worker listens");
    }
    if load.is_crowded() && listened {
        assert!(
            !plan.listening,
            "a crowded worker listens two turns in a row"
        );
    }
    // Whoever can be of use comes back in time, with one exception: the one that everybody needs.
    match plan.wait_at_most_ms {
        Some(ms) => assert!((1..=delay_ms).contains(&ms), "waits {ms} ms"),
        None if load.is_full() => {}
        None => assert!(plan.listening && !load.is_crowded()),
    }
}

fn turn(fate: impl Strategy<Value = Fate>) -> impl Strategy<Value = Turn> {
    let event_after_ms = prop_oneof![
        1 => Just(None),
        2 => (1..=5_u64).prop_map(Some),
        2 => (1..=2 * DELAY_MS_MAX).prop_map(Some),
    ];
    let fullness = prop_oneof![0..=1000_u32, 870..=1000_u32, Just(1000)];
    (event_after_ms, 0..=HANDLERS_MS_MAX, fullness, fate).prop_map(
        |(event_after_ms, handlers_ms, fullness, fate)| Turn {
            event_after_ms,
            handlers_ms,
            fullness,
            fate,
        },
    )
}

fn scripts<F>(fate: impl Fn() -> F) -> impl Strategy<Value = Vec<Vec<Turn>>>
where
    F: Strategy<Value = Fate>,
{
    prop::collection::vec(prop::collection::vec(turn(fate()), 1..30), 1..6)
}

fn rare_faults() -> impl Strategy<Value = Fate> {
    prop_oneof![
        18 => Just(Fate::Lives),
        1 => (0..=4 * DELAY_MS_MAX).prop_map(Fate::Hangs),
        1 => (0..=HANDLERS_MS_MAX).prop_map(Fate::Dies),
    ]
}

fn capacity() -> impl Strategy<Value = u32> {
    prop_oneof![0..10_u32, 16..200_u32]
}

proptest! {
    #[test]
    fn without_faults_listeners_are_never_deaf_for_longer_than_the_delay_and_a_turn(
        delay_ms in 1..=DELAY_MS_MAX,
        capacity in capacity(),
        scripts in scripts(|| Just(Fate::Lives)),
    ) {
        Server::new(delay_ms, capacity, scripts).run();
    }

    #[test]
    fn after_any_fault_somebody_listens_within_the_delay_and_a_turn(
        delay_ms in 1..=DELAY_MS_MAX,
        capacity in capacity(),
        scripts in scripts(rare_faults),
    ) {
        Server::new(delay_ms, capacity, scripts).run();
    }
}

#[test]
fn with_all_workers_crowded_each_serves_in_its_turn() {
    let crowded = Turn {
        event_after_ms: Some(1),
        handlers_ms: 1,
        fullness: 950,
        fate: Fate::Lives,
    };
    let mut server = Server::new(10, 100, vec![vec![crowded]; 3]);
    let mut served = [0; 3];
    while server.now_ms < END_MS {
        for (index, served) in served.iter_mut().enumerate() {
            let before = server.workers[index].listens();
            server.advance(index);
            *served += u32::from(!before && server.workers[index].listens());
        }
        server.check();
        server.now_ms += 1;
    }
    // Each gives way for 10 ms, then serves for 1 ms: at most one turn in 11 ms or so.
    for turns in served {
        assert!((100..=200).contains(&turns), "{served:?}");
    }
}
