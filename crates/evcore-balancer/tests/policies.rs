//! Tests the guarantees of each policy about all workers of a group, in simulated time.
//!
//! Each worker is the real `Balancer` over the real lock and the real membership. It follows a
//! random script of turns (iterations of its event loop).
//!
//! The test checks three guarantees. The lock never has two owners. A full worker does not listen.
//! If no worker listens although one has room, this lasts for at most the delay and one turn,
//! counted from the last fault.

use std::{mem, time::Duration};

use evcore_balancer::{
    AcceptMutex, Balancer, GroupMember, GroupView, Inputs, Leadership, Load, Member, Plan, Policy,
    WorkerGroup, WorkerId,
};
use proptest::prelude::*;

/// The length of a run, which is at least forty delays.
const END_MS: u64 = 2_000;
const DELAY_MS_MAX: u64 = 50;
/// Maximum time for which a leader leaves all clients to another worker.
const YIELDS_MAX: Duration = Duration::from_millis(2);
/// Handlers that take longer count as hanging.
const HANDLERS_MS_MAX: u64 = 5;

/// One turn of a worker's script, which begins again after its last turn.
#[derive(Clone, Debug)]
struct Turn {
    /// The time after which an event ends the wait, unless the limit of the plan ends it before.
    event_after_ms: Option<u64>,
    handlers_ms: u64,
    /// The load of the worker after the wait, in thousandths of its capacity.
    fullness: u32,
    accepted: u32,
    may_have_left_clients: bool,
    fate: Fate,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Lives,
    /// Hangs in a handler for this long, with listeners registered and without the lock.
    Hangs(u64),
    /// Is stopped in its wait for this long, possibly with the lock, and then continues.
    Stops(u64),
    /// Dies in its wait, possibly with the lock. After this long, its parent notices and starts a
    /// replacement.
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
    id: WorkerId,
    balancer: Balancer,
    member: Option<Member>,
    load: Load,
    /// True if the worker had room when it planned.
    had_room: bool,
    /// The time from which the worker has had room while no worker listened, or the time of a later
    /// fault or probe.
    unattended_since: Option<u64>,
    phase: Phase,
    /// The last plan. The listeners are registered if the plan listens.
    plan: Option<Plan>,
    script: Vec<Turn>,
    turns: usize,
}

impl Worker {
    fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. } | Phase::Handling { .. })
    }

    fn listens(&self) -> bool {
        self.is_running() && self.plan.is_some_and(|plan| plan.listening)
    }

    fn has_room(&self) -> bool {
        self.is_running() && self.had_room && !self.load.is_full()
    }

    fn holds_the_lock(&self) -> bool {
        let waits = matches!(self.phase, Phase::Waiting { .. } | Phase::Stopped { .. });
        waits && self.plan.is_some_and(|plan| plan.holds_lock)
    }

    fn is_notified(&self) -> bool {
        self.member.as_ref().is_some_and(Member::is_notified)
    }

    fn turn(&self) -> Turn {
        self.script[self.turns % self.script.len()].clone()
    }
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    policy: Policy,
    /// True if the workers' pollers have exclusive wake-ups.
    exclusive: bool,
    in_group: bool,
    capacity: u32,
}

impl Rules {
    fn delay(&self) -> Duration {
        self.policy.delay().unwrap_or_default()
    }

    fn delay_ms(&self) -> u64 {
        whole_ms(self.delay())
    }
}

struct Server {
    now_ms: u64,
    rules: Rules,
    group: WorkerGroup,
    workers: Vec<Worker>,
}

impl Server {
    fn new(rules: Rules, scripts: Vec<Vec<Turn>>) -> Self {
        let mut server = Self {
            now_ms: 0,
            rules,
            group: WorkerGroup::new(Policy::least_loaded(), scripts.len()).unwrap(),
            workers: Vec::new(),
        };
        for (slot, script) in scripts.into_iter().enumerate() {
            let worker = server.new_worker(WorkerId::from_slot(slot), script);
            server.workers.push(worker);
        }
        server
    }

    fn new_worker(&self, id: WorkerId, script: Vec<Turn>) -> Worker {
        Worker {
            id,
            balancer: Balancer::new(self.rules.policy),
            member: self.rules.in_group.then(|| self.group.join(id)),
            load: Load {
                active: 0,
                capacity: self.rules.capacity,
            },
            had_room: false,
            unattended_since: None,
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
        // The first worker differs from tick to tick.
        let first = usize::try_from(self.now_ms).unwrap();
        for i in 0..self.workers.len() {
            self.advance((first + i) % self.workers.len());
        }
        self.check();
        self.now_ms += 1;
    }

    fn advance(&mut self, index: usize) {
        loop {
            let worker = &self.workers[index];
            match worker.phase {
                Phase::Waiting { until } if until <= self.now_ms => self.end_wait(index),
                Phase::Waiting { .. } if worker.is_notified() => self.begin_turn(index),
                Phase::Handling { until } if until <= self.now_ms => self.begin_turn(index),
                Phase::Hanging { until } if until <= self.now_ms => {
                    self.restart_gap();
                    self.begin_turn(index);
                }
                Phase::Stopped { until } if until <= self.now_ms => {
                    self.restart_gap();
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
        let mutex = self.group.mutex();
        // A loop releases the lock after its accepts, so the lock may be free already.
        mutex.unlock(worker.id);
        let before = worker.turn();
        let inputs = Inputs {
            load: worker.load,
            accepted: before.accepted,
            reported: before.accepted > 0,
            may_have_left_clients: before.may_have_left_clients,
            notified: worker.is_notified(),
            exclusive: self.rules.exclusive,
            in_group: self.rules.in_group,
            ..Inputs::at(Duration::from_millis(now_ms))
        };
        let plan = plan(worker, mutex, &inputs);
        if let Some(member) = &worker.member {
            follow(&plan, member);
        }
        check_plan(&plan, worker.plan.as_ref(), &inputs, &self.rules);
        let wait_ms = [
            worker.turn().event_after_ms,
            plan.wait_at_most.map(whole_ms),
        ]
        .into_iter()
        .flatten()
        .min();
        // A turn that accepts clients that were left waiting takes at least 1 ms.
        let at_least_ms = u64::from(inputs.may_have_left_clients);
        let until = wait_ms.map_or(u64::MAX, |ms| now_ms + ms.max(at_least_ms));
        worker.plan = Some(plan);
        worker.had_room = !worker.load.is_full();
        worker.phase = Phase::Waiting { until };
        if plan.listening {
            // The wait finds the clients that wait, however short it is.
            self.restart_gap();
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
        if !self.workers[index].is_running() {
            self.restart_gap();
        }
    }

    fn begin_handlers(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        let held = worker.holds_the_lock();
        assert_eq!(self.group.mutex().unlock(worker.id), held);
        let turn = worker.turn();
        worker.turns += 1;
        let active = u64::from(worker.load.capacity) * u64::from(turn.fullness) / 1000;
        worker.load.active = u32::try_from(active).unwrap();
        worker.phase = Phase::Handling {
            until: self.now_ms + turn.handlers_ms,
        };
    }

    /// Releases a dead worker and starts a replacement, as a parent does.
    fn replace(&mut self, index: usize) {
        let (id, turns) = (self.workers[index].id, self.workers[index].turns + 1);
        self.group.release_dead(id);
        let script = self.workers[index].script.clone();
        let replacement = self.new_worker(id, script);
        let dead = mem::replace(&mut self.workers[index], replacement);
        self.workers[index].turns = turns;
        // A process that dies drops nothing.
        mem::forget(dead.member);
        self.restart_gap();
    }

    /// Restarts the measured time, because a worker listens now, or a fault has happened.
    fn restart_gap(&mut self) {
        for worker in &mut self.workers {
            worker.unattended_since = None;
        }
    }

    fn check(&mut self) {
        let holders = self.workers.iter().filter(|w| w.holds_the_lock()).count();
        assert!(holders <= 1, "{holders} workers hold the lock");

        if self.workers.iter().any(Worker::listens) {
            return self.restart_gap();
        }
        for worker in &mut self.workers {
            if !worker.has_room() {
                worker.unattended_since = None;
                continue;
            }
            let since = *worker.unattended_since.get_or_insert(self.now_ms);
            let (unattended_ms, delay_ms) = (self.now_ms - since, self.rules.delay_ms());
            assert!(
                unattended_ms <= delay_ms + HANDLERS_MS_MAX,
                "unattended for {unattended_ms} ms, with a delay of {delay_ms} ms"
            );
        }
    }
}

fn plan(worker: &mut Worker, mutex: &AcceptMutex, inputs: &Inputs) -> Plan {
    let (id, member) = (worker.id, &worker.member);
    let sync = || match member {
        Some(member) => member.sync(inputs.load),
        None => GroupView::alone(),
    };
    if let Some(member) = member {
        member.add_clients(inputs.accepted);
    }
    worker.balancer.plan(inputs, || mutex.try_lock(id), sync)
}

fn follow(plan: &Plan, member: &Member) {
    match plan.leadership {
        Leadership::Acquire => member.lead(),
        Leadership::Release => member.step_down(),
        Leadership::Keep => {}
    }
    if let Some(peer) = plan.notify {
        member.notify(peer);
    }
    member.set_resting(plan.rests);
    if plan.rouses {
        member.rouse();
    }
}

fn check_plan(plan: &Plan, before: Option<&Plan>, now: &Inputs, rules: &Rules) {
    let probes = plan.wait_at_most == Some(Duration::ZERO);
    let had_its_turn = before.is_some_and(|before| before.holds_lock);
    if now.load.is_full() {
        assert!(!plan.listening, "a full worker listens");
    }
    assert!(plan.listening || !plan.holds_lock && plan.accepts_at_most.is_none());
    assert!(plan.listening || !plan.register_again && !plan.exclusive);
    let accepts_nothing = plan.accepts_at_most == Some(0);
    assert!(accepts_nothing == plan.edge_triggered || accepts_nothing && plan.rests);
    if plan.rests {
        assert!(!plan.exclusive && plan.wait_at_most.is_none() && !plan.rouses);
        assert!(now.accepted == 0 && !now.may_have_left_clients && !now.notified);
    }
    assert!(plan.exclusive || !plan.edge_triggered);
    assert!(rules.exclusive || !plan.exclusive);
    assert!(plan.leadership != Leadership::Acquire || plan.listening);
    if let Some(before) = before.filter(|before| before.listening && plan.listening) {
        let kind = |plan: &Plan| (plan.exclusive, plan.edge_triggered);
        let is_same = kind(before) == kind(plan);
        assert!(is_same || plan.register_again, "{before:?}, then {plan:?}");
    }
    if probes {
        assert!(plan.register_again && !plan.holds_lock);
        assert!(!had_its_turn, "a worker that has just listened probes");
    }
    let is_by_policy = match rules.policy {
        Policy::Mutex { .. } => plan.listening == (plan.holds_lock || probes),
        Policy::LeastLoaded { .. } if !rules.exclusive => {
            plan.listening == (plan.holds_lock || probes)
        }
        // A worker that is alone or rests listens without exclusive wake-ups, and waits without a
        // limit.
        Policy::LeastLoaded { .. } => {
            let limited = plan.wait_at_most.is_some();
            !plan.holds_lock && (!plan.listening || plan.exclusive == limited)
        }
        _ => plan.listening != now.load.is_full(),
    };
    assert!(is_by_policy, "{plan:?}");
    let is_nginx = matches!(rules.policy, Policy::Mutex { .. }) && !rules.in_group;
    if is_nginx && now.load.is_crowded() && had_its_turn {
        assert!(!plan.holds_lock, "a crowded worker has two turns in a row");
    }
    // A worker with room plans again in time, unless it listens.
    if let Some(limit) = plan.wait_at_most {
        assert!(limit <= rules.delay(), "waits {limit:?}");
        let yields_briefly = !plan.edge_triggered || limit <= YIELDS_MAX;
        assert!(yields_briefly, "accepts nothing for {limit:?}");
    } else if !now.load.is_full() {
        assert!(plan.listening, "does not listen and waits without a limit");
    }
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
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
            |(event_after_ms, handlers_ms, fullness, accepted, left, fate)| Turn {
                event_after_ms,
                handlers_ms,
                fullness,
                accepted,
                may_have_left_clients: left && accepted > 0,
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

/// Generates rules of every policy, with and without exclusive wake-ups.
fn rules() -> impl Strategy<Value = Rules> {
    let policy = prop_oneof![
        2 => Just(Policy::Off),
        1 => Just(Policy::exclusive()),
        3 => Just(Policy::mutex()),
        6 => (0..9_u32).prop_map(|slack| Policy::LeastLoaded {
            slack,
            delay: Policy::DEFAULT_DELAY
        }),
    ];
    let capacity = prop_oneof![0..10_u32, 16..200_u32];
    let flags = (any::<bool>(), any::<bool>());
    (policy, 1..=DELAY_MS_MAX, flags, capacity).prop_map(
        |(policy, delay_ms, (exclusive, in_group), capacity)| Rules {
            policy: policy.with_delay(Duration::from_millis(delay_ms)),
            exclusive,
            in_group: in_group || matches!(policy, Policy::LeastLoaded { .. }),
            capacity,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn without_faults_a_worker_listens_within_delay_and_turn(
        rules in rules(),
        scripts in scripts(|| Just(Fate::Lives)),
    ) {
        Server::new(rules, scripts).run();
    }

    #[test]
    fn after_any_fault_a_worker_listens_within_delay_and_turn(
        rules in rules(),
        scripts in scripts(rare_faults),
    ) {
        Server::new(rules, scripts).run();
    }
}

#[test]
fn crowded_workers_take_turns() {
    let crowded = Turn {
        event_after_ms: Some(1),
        handlers_ms: 1,
        fullness: 950,
        accepted: 0,
        may_have_left_clients: false,
        fate: Fate::Lives,
    };
    let rules = Rules {
        policy: Policy::mutex().with_delay(Duration::from_millis(10)),
        exclusive: true,
        in_group: false,
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
    // Each worker yields for 10 ms and then serves for 1 ms, so it has one turn in 11 ms at most.
    for turns in served {
        assert!((100..=200).contains(&turns), "{served:?}");
    }
}

/// A regression that proptest found: a worker fills up and hangs while others start and stop.
#[test]
fn a_worker_that_fills_up_and_hangs_leaves_no_gap() {
    let turn = |event_after_ms, handlers_ms, fullness, fate| Turn {
        event_after_ms,
        handlers_ms,
        fullness,
        accepted: 0,
        may_have_left_clients: false,
        fate,
    };
    let rules = Rules {
        policy: Policy::LeastLoaded {
            slack: 0,
            delay: Duration::from_millis(35),
        },
        exclusive: true,
        in_group: true,
        capacity: 16,
    };
    let scripts = vec![
        vec![
            turn(Some(33), 0, 125, Fate::Lives),
            turn(None, 0, 1000, Fate::Lives),
            turn(None, 0, 0, Fate::Lives),
        ],
        vec![
            turn(Some(1), 0, 870, Fate::Lives),
            turn(Some(1), 3, 0, Fate::Lives),
            turn(None, 0, 0, Fate::Hangs(42)),
        ],
        vec![
            turn(Some(3), 0, 870, Fate::Lives),
            turn(Some(1), 0, 1000, Fate::Lives),
            turn(Some(38), 0, 870, Fate::Lives),
            turn(Some(35), 5, 0, Fate::Lives),
        ],
    ];
    Server::new(rules, scripts).run();
}
