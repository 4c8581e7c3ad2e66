//! Several workers, one accept lock, one set of seats, made-up time: what each policy promises
//! about all of its workers.
//!
//! Each worker is the real `Balancer` over the real lock and the real seat. It follows a script of
//! turns, whatever that does to its load, while a parent looks on. Time is a loop variable, in
//! milliseconds.
//!
//! Checked at each moment and at each plan:
//! never two holders; a full worker does not listen; and nobody's free place is left unserved for
//! longer than the delay and one turn, counted from the last fault.

use std::{mem, num::NonZeroU32, time::Duration};

use evcore_balancer::{
    AcceptMutex, Balancer, Duty, Load, PeerSeat, Peers, Plan, Policy, Seat, Situation, View,
};
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
    accepted: u32,
    left_waiting: bool,
    fate: Fate,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Lives,
    /// Stops answering for so long, in its handlers: with listeners registered, without the lock.
    Hangs(u64),
    /// Is stopped for so long in its wait, lock and all, and then goes on.
    Stops(u64),
    /// Dies in its wait, lock and all; its parent notices after so long and starts another.
    Dies(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Waiting { until: u64 },
    Handling { until: u64 },
    Hanging { until: u64 },
    Stopped { until: u64 },
    Dead { until: u64 },
}

struct Worker {
    owner: NonZeroU32,
    balancer: Balancer,
    seat: Option<PeerSeat>,
    load: Load,
    /// It had a free place when it planned.
    had_room: bool,
    /// Since when, or since which later fault or look, its free place has been left unserved.
    deaf_since: Option<u64>,
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
        self.answers() && self.had_room && !self.load.is_full()
    }

    fn holds_the_lock(&self) -> bool {
        let waits = matches!(self.phase, Phase::Waiting { .. } | Phase::Stopped { .. });
        waits && self.plan.is_some_and(|plan| plan.holds_lock)
    }

    fn is_called(&self) -> bool {
        self.seat.as_ref().is_some_and(PeerSeat::is_called)
    }

    fn turn(&self) -> Turn {
        self.script[self.turns % self.script.len()].clone()
    }
}

/// What all workers of a run have in common.
#[derive(Clone, Copy, Debug)]
struct Rules {
    policy: Policy,
    /// Their pollers can wake exclusively.
    exclusive: bool,
    /// They have seats among the peers.
    seated: bool,
    capacity: u32,
}

impl Rules {
    fn delay_ms(&self) -> u64 {
        let delay = self.policy.delay().unwrap_or_default();
        u64::try_from(delay.as_millis()).unwrap()
    }
}

struct Server {
    now_ms: u64,
    rules: Rules,
    mutex: AcceptMutex,
    peers: Peers,
    workers: Vec<Worker>,
    owners: u32,
}

impl Server {
    fn new(rules: Rules, scripts: Vec<Vec<Turn>>) -> Self {
        let mut server = Self {
            now_ms: 0,
            rules,
            mutex: AcceptMutex::local(),
            peers: Peers::new(scripts.len()).unwrap(),
            workers: Vec::new(),
            owners: 0,
        };
        for script in scripts {
            let worker = server.new_worker(script);
            server.workers.push(worker);
        }
        server
    }

    fn new_worker(&mut self, script: Vec<Turn>) -> Worker {
        self.owners += 1;
        let owner = NonZeroU32::new(self.owners).unwrap();
        let sit = || self.peers.seat(owner).expect("a seat for each");
        Worker {
            owner,
            balancer: Balancer::new(self.rules.policy),
            seat: self.rules.seated.then(sit),
            load: Load {
                active: 0,
                capacity: self.rules.capacity,
            },
            had_room: false,
            deaf_since: None,
            phase: Phase::Handling { until: self.now_ms },
            plan: None,
            script,
            turns: 0,
        }
    }

    fn run(&mut self) {
        while self.now_ms < END_MS {
            self.tick();
        }
    }

    fn tick(&mut self) {
        // Nobody is always first.
        let first = usize::try_from(self.now_ms).unwrap();
        for i in 0..self.workers.len() {
            self.advance((first + i) % self.workers.len());
        }
        self.check();
        self.now_ms += 1;
    }

    /// Moves one worker on, as far as it gets at this moment.
    fn advance(&mut self, index: usize) {
        loop {
            let worker = &self.workers[index];
            match worker.phase {
                Phase::Waiting { until } if until <= self.now_ms => self.end_wait(index),
                Phase::Waiting { .. } if worker.is_called() => self.begin_turn(index),
                Phase::Handling { until } if until <= self.now_ms => self.begin_turn(index),
                Phase::Hanging { until } if until <= self.now_ms => {
                    self.nobody_is_deaf();
                    self.begin_turn(index);
                }
                Phase::Stopped { until } if until <= self.now_ms => {
                    self.nobody_is_deaf();
                    self.begin_handlers(index);
                }
                Phase::Dead { until } if until <= self.now_ms => self.replace(index),
                _ => return,
            }
        }
    }

    fn begin_turn(&mut self, index: usize) {
        let now_ms = self.now_ms;
        let worker = &mut self.workers[index];
        // What a loop does at the end of its accepts, if it has not yet.
        self.mutex.unlock(worker.owner);
        let before = worker.turn();
        let situation = Situation {
            load: worker.load,
            accepted: before.accepted,
            left_waiting: before.left_waiting,
            called: worker.is_called(),
            exclusive: self.rules.exclusive,
            seated: self.rules.seated,
            ..Situation::at(now_ms)
        };
        let (mutex, owner, seat) = (&self.mutex, worker.owner, &mut worker.seat);
        let plan = worker.balancer.plan(
            &situation,
            || mutex.try_lock(owner),
            || {
                seat.as_mut()
                    .map_or(View::alone(), |seat| seat.look(situation.load))
            },
        );
        if let Some(seat) = seat {
            follow(&plan, seat);
        }
        check_plan(&plan, worker.plan.as_ref(), &situation, &self.rules);
        let wait_ms = [worker.turn().event_after_ms, plan.wait_at_most_ms]
            .into_iter()
            .flatten()
            .min();
        // Whoever was left waiting is accepted in this turn, which takes its time.
        let at_least_ms = u64::from(situation.left_waiting);
        let until = wait_ms.map_or(u64::MAX, |ms| now_ms + ms.max(at_least_ms));
        worker.plan = Some(plan);
        worker.had_room = !worker.load.is_full();
        worker.phase = Phase::Waiting { until };
        if plan.listening {
            // Were it for a moment only: whoever was left there is found.
            self.nobody_is_deaf();
        }
    }

    fn end_wait(&mut self, index: usize) {
        let in_ms = |ms| self.now_ms + ms;
        match self.workers[index].turn().fate {
            Fate::Lives => self.begin_handlers(index),
            Fate::Hangs(ms) => {
                let until = in_ms(ms);
                self.begin_handlers(index);
                self.workers[index].phase = Phase::Hanging { until };
            }
            Fate::Stops(ms) => self.workers[index].phase = Phase::Stopped { until: in_ms(ms) },
            Fate::Dies(ms) => self.workers[index].phase = Phase::Dead { until: in_ms(ms) },
        }
        if !self.workers[index].answers() {
            self.nobody_is_deaf();
        }
    }

    fn begin_handlers(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        let held = worker.holds_the_lock();
        assert_eq!(self.mutex.unlock(worker.owner), held);
        let turn = worker.turn();
        worker.turns += 1;
        let active = u64::from(worker.load.capacity) * u64::from(turn.fullness) / 1000;
        worker.load.active = u32::try_from(active).unwrap();
        worker.phase = Phase::Handling {
            until: self.now_ms + turn.handlers_ms,
        };
    }

    /// What a parent does when it has reaped a worker.
    fn replace(&mut self, index: usize) {
        let dead = self.workers[index].owner;
        self.mutex.force_unlock(dead);
        self.peers.bury(dead);
        let script = self.workers[index].script.clone();
        let turns = self.workers[index].turns + 1;
        let replacement = self.new_worker(script);
        let dead = mem::replace(&mut self.workers[index], replacement);
        self.workers[index].turns = turns;
        // The dead drop nothing.
        mem::forget(dead.seat);
        self.nobody_is_deaf();
    }

    /// The time that deafness may last begins anew: somebody listens, or there is a fault.
    fn nobody_is_deaf(&mut self) {
        for worker in &mut self.workers {
            worker.deaf_since = None;
        }
    }

    fn check(&mut self) {
        let holders = self.workers.iter().filter(|w| w.holds_the_lock()).count();
        assert!(holders <= 1, "{holders} workers hold the lock");

        if self.workers.iter().any(Worker::listens) {
            return self.nobody_is_deaf();
        }
        for worker in &mut self.workers {
            if !worker.has_room() {
                worker.deaf_since = None;
                continue;
            }
            let since = *worker.deaf_since.get_or_insert(self.now_ms);
            let (deaf_ms, delay_ms) = (self.now_ms - since, self.rules.delay_ms());
            assert!(
                deaf_ms <= delay_ms + HANDLERS_MS_MAX,
                "deaf for {deaf_ms} ms, with a delay of {delay_ms} ms"
            );
        }
    }
}

/// What the loop does with a plan, but for the poller.
fn follow(plan: &Plan, seat: &mut PeerSeat) {
    match plan.duty {
        Duty::Take => seat.take(),
        Duty::Resign => seat.resign(),
        Duty::Same => {}
    }
    if let Some(peer) = plan.calls {
        seat.call(peer);
    }
}

/// What holds of each plan.
fn check_plan(plan: &Plan, before: Option<&Plan>, now: &Situation, rules: &Rules) {
    let looks = plan.wait_at_most_ms == Some(0);
    let had_its_turn = before.is_some_and(|before| before.holds_lock);
    if now.load.is_full() {
        assert!(!plan.listening, "a full worker listens");
    }
    assert!(plan.listening || !plan.holds_lock && plan.accepts_at_most.is_none());
    assert!(plan.listening || !plan.register_again && !plan.exclusive);
    assert_ne!(plan.accepts_at_most, Some(0));
    assert!(rules.exclusive || !plan.exclusive);
    assert!(plan.duty != Duty::Take || plan.listening);
    if looks {
        assert!(plan.register_again && !plan.holds_lock);
        assert!(!had_its_turn, "a look is for who has not listened");
    }
    let ways = match rules.policy {
        Policy::Mutex { .. } => plan.listening == (plan.holds_lock || looks),
        Policy::LeastLoaded { .. } if !rules.exclusive => {
            plan.listening == (plan.holds_lock || looks)
        }
        Policy::LeastLoaded { .. } => !plan.holds_lock && plan.listening == plan.exclusive,
        _ => plan.listening != now.load.is_full(),
    };
    assert!(ways, "{plan:?}");
    let by_nginx = matches!(rules.policy, Policy::Mutex { .. }) && !rules.seated;
    if by_nginx && now.load.is_crowded() && had_its_turn {
        assert!(!plan.holds_lock, "a crowded worker has two turns in a row");
    }
    // Whoever can be of use comes back in time, with one exception: the one that everybody needs.
    if let Some(ms) = plan.wait_at_most_ms {
        assert!(ms <= rules.delay_ms(), "waits {ms} ms");
    } else if !now.load.is_full() {
        assert!(plan.listening, "is away without an end");
    }
}

fn turn(fate: impl Strategy<Value = Fate>) -> impl Strategy<Value = Turn> {
    let event_after_ms = prop_oneof![
        1 => Just(None),
        2 => (1..=5_u64).prop_map(Some),
        2 => (1..=2 * DELAY_MS_MAX).prop_map(Some),
    ];
    let fullness = prop_oneof![0..=1000_u32, 0..=100_u32, 870..=1000_u32, Just(1000)];
    let accepted = prop_oneof![Just(0), 1..20_u32];
    (
        event_after_ms,
        0..=HANDLERS_MS_MAX,
        fullness,
        accepted,
        any::<bool>(),
        fate,
    )
        .prop_map(
            |(event_after_ms, handlers_ms, fullness, accepted, left_waiting, fate)| Turn {
                event_after_ms,
                handlers_ms,
                fullness,
                accepted,
                left_waiting: left_waiting && accepted > 0,
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
        1 => (0..=4 * DELAY_MS_MAX).prop_map(Fate::Stops),
        1 => (0..=HANDLERS_MS_MAX).prop_map(Fate::Dies),
    ]
}

/// Every policy, on a poller with exclusive wake-ups and on one without.
fn rules() -> impl Strategy<Value = Rules> {
    let policy = prop_oneof![
        1 => Just(Policy::Off),
        1 => Just(Policy::ReusePort),
        1 => Just(Policy::exclusive()),
        3 => Just(Policy::mutex()),
        6 => (0..9_u32).prop_map(|slack| Policy::LeastLoaded {
            slack,
            delay: Policy::DEFAULT_DELAY
        }),
    ];
    let capacity = prop_oneof![0..10_u32, 16..200_u32];
    let abilities = (any::<bool>(), any::<bool>());
    (policy, 1..=DELAY_MS_MAX, abilities, capacity).prop_map(
        |(policy, delay_ms, (exclusive, seated), capacity)| Rules {
            policy: policy.with_delay(Duration::from_millis(delay_ms)),
            exclusive,
            seated: seated || matches!(policy, Policy::LeastLoaded { .. }),
            capacity,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn without_faults_listeners_are_never_deaf_for_longer_than_the_delay_and_a_turn(
        rules in rules(),
        scripts in scripts(|| Just(Fate::Lives)),
    ) {
        Server::new(rules, scripts).run();
    }

    #[test]
    fn after_any_fault_somebody_listens_within_the_delay_and_a_turn(
        rules in rules(),
        scripts in scripts(rare_faults),
    ) {
        Server::new(rules, scripts).run();
    }
}

#[test]
fn with_all_workers_crowded_each_serves_in_its_turn() {
    let crowded = Turn {
        event_after_ms: Some(1),
        handlers_ms: 1,
        fullness: 950,
        accepted: 0,
        left_waiting: false,
        fate: Fate::Lives,
    };
    let rules = Rules {
        policy: Policy::mutex().with_delay(Duration::from_millis(10)),
        exclusive: true,
        seated: false,
        capacity: 100,
    };
    let mut server = Server::new(rules, vec![vec![crowded]; 3]);
    let mut served = [0; 3];
    while server.now_ms < END_MS {
        for (index, served) in served.iter_mut().enumerate() {
            let before = server.workers[index].holds_the_lock();
            server.advance(index);
            *served += u32::from(!before && server.workers[index].holds_the_lock());
        }
        server.check();
        server.now_ms += 1;
    }
    // Each gives way for 10 ms, then serves for 1 ms: at most one turn in 11 ms or so.
    for turns in served {
        assert!((100..=200).contains(&turns), "{served:?}");
    }
}
