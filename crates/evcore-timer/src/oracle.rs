//! A naive queue, and random scripts that compare other queues with it.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngAlgorithm;

use crate::queue::TimerQueue;

/// The number of ids in a script: low, so that many operations concern the same timer.
pub(crate) const IDS: u32 = 24;

/// A queue under test, and the guarantees that it gives.
pub(crate) trait TestedQueue: TimerQueue {
    /// True if equal deadlines fire in the order of arming.
    const EQUALS_IN_ORDER: bool = true;

    /// True if [`next_deadline`](TimerQueue::next_deadline) is never early.
    const EXACT_WAKE_UPS: bool = true;

    /// Re-arming a timer to a deadline that is nearer than this to the old one changes nothing.
    const SLACK: u64 = 0;

    /// Panics if an invariant does not hold.
    fn verify(&self);

    /// Arms a periodic timer; returns false if the queue has none.
    fn arm_periodic(&mut self, _id: u32, _first: u64, _period: u64) -> bool {
        false
    }
}

impl<Q: TestedQueue> TestedQueue for Box<Q> {
    const EQUALS_IN_ORDER: bool = Q::EQUALS_IN_ORDER;
    const EXACT_WAKE_UPS: bool = Q::EXACT_WAKE_UPS;
    const SLACK: u64 = Q::SLACK;

    fn verify(&self) {
        (**self).verify();
    }
}

/// Number of arming numbers that are left free before each phase, for timers that are reinserted
/// into the phase. Arming numbers order equal deadlines.
const GAP: u64 = 1 << 32;

/// The simplest implementation of the contract: timers by deadline and arming number.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    queue: BTreeMap<(u64, u64), u32>,
    keys: HashMap<u32, (u64, u64)>,
    periods: HashMap<u32, u64>,
    armings: u64,
    /// `now` of the current phase, and the first arming number that is too late for the phase.
    phase: Option<(u64, u64)>,
    /// The next of the arming numbers that were left free before the phase.
    reinsertions: u64,
    slack: u64,
}

impl Oracle {
    fn new(slack: u64) -> Self {
        Self {
            slack,
            ..Self::default()
        }
    }

    fn arm_periodic(&mut self, id: u32, first: u64, period: u64) {
        self.arm(id, first);
        self.periods.insert(id, period);
    }

    /// Removes the timer that is due first; among equal deadlines, `preferred`.
    fn pop_expired_like(&mut self, now: u64, preferred: Option<u32>) -> Option<(u32, u64)> {
        let limit = self.enter_phase(now);
        let mut eligible = self.eligible(now, limit).peekable();
        let earliest = eligible.peek().map(|((deadline, _), _)| *deadline);
        let equals: Vec<u32> = eligible
            .take_while(|((deadline, _), _)| Some(*deadline) == earliest)
            .map(|(_, &id)| id)
            .collect();
        let chosen = equals.iter().find(|&&id| preferred == Some(id));
        let expired = chosen.or(equals.first()).copied().zip(earliest);
        self.phase = expired.map(|_| (now, limit));
        if let Some((id, deadline)) = expired {
            self.fire(id, deadline, now);
        }
        expired
    }

    /// Continues or begins the phase of `now`; returns the first arming number that is too late for
    /// it.
    fn enter_phase(&mut self, now: u64) -> u64 {
        match self.phase {
            Some((phase_now, limit)) if phase_now == now => limit,
            _ => {
                self.reinsertions = self.armings;
                self.armings += GAP;
                self.phase = Some((now, self.armings));
                self.armings
            }
        }
    }

    /// The timers that may fire in a phase, in order.
    fn eligible(&self, now: u64, limit: u64) -> impl Iterator<Item = (&(u64, u64), &u32)> {
        let due = self.queue.range(..=(now, u64::MAX));
        due.filter(move |((_, arming), _)| *arming < limit)
    }

    fn fire(&mut self, id: u32, deadline: u64, now: u64) {
        let period = self.periods.get(&id).copied();
        self.disarm(id);
        let Some(period) = period else { return };
        let periods = u128::from(1 + (now - deadline) / period);
        let next = u128::from(deadline) + periods * u128::from(period);
        if let Ok(next) = u64::try_from(next) {
            self.arm_periodic(id, next, period);
        }
    }

    fn insert(&mut self, id: u32, key: (u64, u64)) {
        self.disarm(id);
        self.queue.insert(key, id);
        self.keys.insert(id, key);
    }
}

impl TimerQueue for Oracle {
    fn arm(&mut self, id: u32, deadline: u64) {
        let old = self.deadline(id);
        if old.is_some_and(|old| old.abs_diff(deadline) < self.slack) {
            return;
        }
        self.insert(id, (deadline, self.armings));
        self.armings += 1;
    }

    fn disarm(&mut self, id: u32) -> bool {
        self.periods.remove(&id);
        let key = self.keys.remove(&id);
        key.is_some_and(|key| self.queue.remove(&key).is_some())
    }

    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        self.pop_expired_like(now, None)
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        match self.phase {
            Some((now, _)) if deadline <= now => {
                self.insert(id, (deadline, self.reinsertions));
                self.reinsertions += 1;
            }
            _ => {
                self.insert(id, (deadline, self.armings));
                self.armings += 1;
            }
        }
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.keys.clear();
        self.periods.clear();
    }

    fn deadline(&self, id: u32) -> Option<u64> {
        self.keys.get(&id).map(|&(deadline, _)| deadline)
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.queue.keys().next().map(|&(deadline, _)| deadline)
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}

/// A change that a script makes between phases, or its handlers make within one.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Arm(u32, Tick),
    /// Arms a periodic timer, or does the same as `Arm` if the queue has none.
    ArmPeriodic(u32, Tick, u64),
    Reinsert(u32, Tick),
    Disarm(u32),
    Clear,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Change(Change),
    /// Calls `pop_expired` up to this many times at a tick, and makes one of these changes after
    /// each call.
    Phase(Tick, Option<usize>, Vec<Change>),
}

/// A tick, mostly near a value where a queue could be wrong.
#[derive(Clone, Debug)]
pub(crate) enum Tick {
    Absolute(u64),
    /// This many ticks after the latest `now`.
    Ahead(u64),
    /// This many ticks before the latest `now`.
    Behind(u64),
    /// A multiple of a power of 256 around or after the latest `now`, or the tick before or after
    /// it.
    Border {
        digit: u32,
        slots: u64,
        offset: i64,
    },
    /// The deadline of an armed timer, if there is one.
    OfTimer(Index),
}

impl Tick {
    fn resolve(&self, now: u64, oracle: &Oracle) -> u64 {
        match *self {
            Self::Absolute(tick) => tick,
            Self::Ahead(ticks) => now.saturating_add(ticks),
            Self::Behind(ticks) => now.saturating_sub(ticks),
            Self::Border {
                digit,
                slots,
                offset,
            } => {
                let shift = 8 * digit;
                let border = now >> shift << shift;
                let ahead = slots.saturating_mul(1 << shift);
                border.saturating_add(ahead).saturating_add_signed(offset)
            }
            Self::OfTimer(index) if oracle.is_empty() => index.index(100) as u64,
            Self::OfTimer(index) => {
                let nth = index.index(oracle.len());
                oracle.queue.keys().nth(nth).unwrap().0
            }
        }
    }
}

/// The configuration of tests with scripts. Each choice of a script seeds a generator, and seeding
/// proptest's default generator takes longer than the script itself.
pub(crate) fn config() -> ProptestConfig {
    ProptestConfig {
        rng_algorithm: RngAlgorithm::XorShift,
        ..ProptestConfig::default()
    }
}

pub(crate) fn scripts() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..80)
}

/// Runs a script on `queue` and on the oracle, and compares all results.
pub(crate) fn assert_agrees<Q: TestedQueue>(mut queue: Q, script: &[Op]) {
    let mut oracle = Oracle::new(Q::SLACK);
    let mut now = 0;
    for op in script {
        match op {
            Op::Change(change) => apply(change, now, &mut queue, &mut oracle),
            Op::Phase(at, budget, handlers) => {
                now = at.resolve(now, &oracle);
                let budget = budget.unwrap_or(usize::MAX);
                play_phase(now, budget, handlers, &mut queue, &mut oracle);
            }
        }
    }
    compare_next(&mut queue, &mut oracle);
}

fn play_phase<Q: TestedQueue>(
    now: u64,
    budget: usize,
    handlers: &[Change],
    queue: &mut Q,
    oracle: &mut Oracle,
) {
    // The handlers do not repeat, because one that reinserts a timer would keep the phase from
    // ending.
    let mut handlers = handlers.iter();
    for _ in 0..budget {
        let limit = oracle.enter_phase(now);
        let expired = queue.pop_expired(now);
        if expired.is_none() && queue.has_more() {
            assert_may_pause(now, limit, queue, oracle);
        } else {
            let preferred = expired.filter(|_| !Q::EQUALS_IN_ORDER);
            let expected = oracle.pop_expired_like(now, preferred.map(|(id, _)| id));
            assert_eq!(expired, expected, "at {now}");
        }
        compare(queue, oracle);
        if expired.is_none() && !queue.has_more() {
            break;
        }
        // A change is made in a pause, too, because the loop does other work meanwhile.
        if let Some(change) = handlers.next() {
            apply(change, now, queue, oracle);
        }
    }
}

/// Panics if a paused queue would let the caller sleep although a timer is due.
fn assert_may_pause<Q: TestedQueue>(now: u64, limit: u64, queue: &mut Q, oracle: &Oracle) {
    let is_due = oracle.eligible(now, limit).next().is_some();
    assert!(
        !is_due || queue.next_deadline() <= Some(now),
        "paused at {now}, but the next deadline is later"
    );
}

fn apply<Q: TestedQueue>(change: &Change, now: u64, queue: &mut Q, oracle: &mut Oracle) {
    match change {
        Change::Arm(id, tick) => {
            let deadline = tick.resolve(now, oracle);
            queue.arm(*id, deadline);
            oracle.arm(*id, deadline);
        }
        Change::ArmPeriodic(id, tick, period) => {
            let first = tick.resolve(now, oracle);
            if queue.arm_periodic(*id, first, *period) {
                oracle.arm_periodic(*id, first, *period);
            } else {
                queue.arm(*id, first);
                oracle.arm(*id, first);
            }
        }
        Change::Reinsert(id, tick) => {
            let deadline = tick.resolve(now, oracle);
            queue.reinsert_in_phase(*id, deadline);
            oracle.reinsert_in_phase(*id, deadline);
        }
        Change::Disarm(id) => assert_eq!(queue.disarm(*id), oracle.disarm(*id), "disarm {id}"),
        Change::Clear => {
            queue.clear();
            oracle.clear();
        }
    }
    compare(queue, oracle);
}

fn compare<Q: TestedQueue>(queue: &mut Q, oracle: &mut Oracle) {
    queue.verify();
    assert_eq!(queue.len(), oracle.len());
    assert_eq!(queue.is_empty(), oracle.is_empty());
    for id in 0..IDS {
        assert_eq!(queue.deadline(id), oracle.deadline(id), "deadline of {id}");
        assert_eq!(
            queue.is_armed(id),
            oracle.is_armed(id),
            "whether {id} is armed"
        );
    }
    compare_next(queue, oracle);
}

fn compare_next<Q: TestedQueue>(queue: &mut Q, oracle: &mut Oracle) {
    let (next, exact) = (queue.next_deadline(), oracle.next_deadline());
    assert_eq!(next.is_some(), exact.is_some());
    assert!(next <= exact, "next deadline {next:?} is after {exact:?}");
    assert!(
        next == exact || !Q::EXACT_WAKE_UPS,
        "{next:?} is before {exact:?}"
    );
}

fn op() -> impl Strategy<Value = Op> {
    let budget = prop::option::weighted(0.4, 0..6_usize);
    let handlers = prop::collection::vec(change(), 0..12);
    prop_oneof![
        3 => change().prop_map(Op::Change),
        1 => (tick(), budget, handlers).prop_map(|(at, budget, handlers)| Op::Phase(at, budget, handlers)),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        40 => (0..IDS, tick()).prop_map(|(id, tick)| Change::Arm(id, tick)),
        10 => (0..IDS, tick(), period()).prop_map(|(id, tick, period)| Change::ArmPeriodic(id, tick, period)),
        5 => (0..IDS, tick()).prop_map(|(id, tick)| Change::Reinsert(id, tick)),
        10 => (0..IDS).prop_map(Change::Disarm),
        1 => Just(Change::Clear),
    ]
}

fn period() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1..200_u64,
        2 => 1..100_000_u64,
        1 => (u64::MAX / 2)..=u64::MAX,
    ]
}

fn tick() -> impl Strategy<Value = Tick> {
    let border = (0..8_u32, 0..258_u64, -1..=1_i64);
    // The frequent ticks come first, because proptest also makes all ticks before the chosen one,
    // to shrink to them.
    prop_oneof![
        4 => (0..200_u64).prop_map(Tick::Ahead),
        6 => border.prop_map(|(digit, slots, offset)| Tick::Border { digit, slots, offset }),
        4 => any::<Index>().prop_map(Tick::OfTimer),
        2 => (0..200_000_u64).prop_map(Tick::Ahead),
        2 => (0..200_u64).prop_map(Tick::Behind),
        1 => any::<u64>().prop_map(Tick::Absolute),
        1 => prop::sample::select(&[0, 1, 255, 256, u64::MAX - 1, u64::MAX][..]).prop_map(Tick::Absolute),
    ]
}
