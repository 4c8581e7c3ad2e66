//! The naive queue that every other is held against, and the scripts that do it.
//!
//! [`Oracle`] is the contract in the fewest words: a map ordered by deadline and arming.
//! [`assert_agrees`] plays one script to a queue and to the oracle and compares every answer.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use proptest::sample::Index;

use crate::TimerQueue;

/// Ids of the scripts: few, so that they meet each other again and again.
const IDS: u32 = 24;

/// Timers by deadline and number of arming.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    queue: BTreeMap<(u64, u64), u32>,
    keys: HashMap<u32, (u64, u64)>,
    armings: u64,
    /// `now` of the phase under way, and how many armings there were before it.
    phase: Option<(u64, u64)>,
}

impl TimerQueue for Oracle {
    fn arm(&mut self, id: u32, deadline: u64) {
        self.disarm(id);
        let key = (deadline, self.armings);
        self.armings += 1;
        self.queue.insert(key, id);
        self.keys.insert(id, key);
    }

    fn disarm(&mut self, id: u32) -> bool {
        let key = self.keys.remove(&id);
        key.is_some_and(|key| self.queue.remove(&key).is_some())
    }

    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        let armings_before = match self.phase {
            Some((phase_now, armings)) if phase_now == now => armings,
            _ => self.armings,
        };
        let mut due = self.queue.range(..=(now, u64::MAX));
        let found = due.find(|((_, arming), _)| *arming < armings_before);
        let expired = found.map(|(&(deadline, _), &id)| (id, deadline));
        self.phase = expired.map(|_| (now, armings_before));
        if let Some((id, _)) = expired {
            self.disarm(id);
        }
        expired
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.keys.clear();
    }

    fn deadline(&self, id: u32) -> Option<u64> {
        self.keys.get(&id).map(|&(deadline, _)| deadline)
    }

    fn next_deadline(&self) -> Option<u64> {
        self.queue.keys().next().map(|&(deadline, _)| deadline)
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}

/// What a script does between phases, and what its handlers do within.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Arm(u32, Tick),
    Disarm(u32),
    Clear,
}

/// One step of a script.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Change(Change),
    /// Expire at a tick, at most so many timers, with these changes made by the handlers in turn.
    Phase(Tick, Option<usize>, Vec<Change>),
}

/// A tick, most often near something where a queue could err.
#[derive(Clone, Debug)]
pub(crate) enum Tick {
    Absolute(u64),
    /// So many ticks after the latest `now`.
    Ahead(u64),
    /// So many ticks before the latest `now`.
    Behind(u64),
    /// At a multiple of a power of 64 above the latest `now`, one tick before it, or one after.
    Border {
        digit: u32,
        slots: u64,
        offset: i64,
    },
    /// The deadline of one of the armed timers.
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
                let shift = 6 * digit;
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

/// Scripts of every kind of step.
pub(crate) fn scripts() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..80)
}

/// Plays a script to `queue` and to the oracle, calling `verify` after each change.
///
/// `next_deadline` may be early and must not be late.
pub(crate) fn assert_agrees<Q: TimerQueue>(mut queue: Q, verify: impl Fn(&Q), script: &[Op]) {
    let mut oracle = Oracle::default();
    let mut now = 0;
    for op in script {
        match op {
            Op::Change(change) => {
                apply(change, now, &mut queue, &mut oracle);
                compare(&queue, &oracle, &verify);
            }
            Op::Phase(at, budget, handlers) => {
                now = at.resolve(now, &oracle);
                // A handler arms at most one timer for each that fired, none of which fires in this phase: so the phase ends.
                let mut handlers = handlers.iter().cycle();
                for _ in 0..budget.unwrap_or(usize::MAX) {
                    let expired = queue.pop_expired(now);
                    assert_eq!(expired, oracle.pop_expired(now), "at {now}");
                    compare(&queue, &oracle, &verify);
                    if expired.is_none() {
                        break;
                    }
                    if let Some(change) = handlers.next() {
                        apply(change, now, &mut queue, &mut oracle);
                        compare(&queue, &oracle, &verify);
                    }
                }
            }
        }
    }
}

fn apply<Q: TimerQueue>(change: &Change, now: u64, queue: &mut Q, oracle: &mut Oracle) {
    match change {
        Change::Arm(id, tick) => {
            let deadline = tick.resolve(now, oracle);
            queue.arm(*id, deadline);
            oracle.arm(*id, deadline);
        }
        Change::Disarm(id) => assert_eq!(queue.disarm(*id), oracle.disarm(*id), "disarm {id}"),
        Change::Clear => {
            queue.clear();
            oracle.clear();
        }
    }
}

fn compare<Q: TimerQueue>(queue: &Q, oracle: &Oracle, verify: impl Fn(&Q)) {
    verify(queue);
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
    let (next, exact) = (queue.next_deadline(), oracle.next_deadline());
    assert_eq!(next.is_some(), exact.is_some());
    assert!(next <= exact, "next deadline {next:?} is after {exact:?}");
}

fn op() -> impl Strategy<Value = Op> {
    let budget = prop::option::weighted(0.4, 0..6_usize);
    let handlers = prop::collection::vec(change(), 0..6);
    prop_oneof![
        3 => change().prop_map(Op::Change),
        1 => (tick(), budget, handlers).prop_map(|(at, budget, handlers)| Op::Phase(at, budget, handlers)),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        40 => (0..IDS, tick()).prop_map(|(id, tick)| Change::Arm(id, tick)),
        10 => (0..IDS).prop_map(Change::Disarm),
        1 => Just(Change::Clear),
    ]
}

fn tick() -> impl Strategy<Value = Tick> {
    let border = (0..11_u32, 0..66_u64, -1..=1_i64);
    prop_oneof![
        1 => any::<u64>().prop_map(Tick::Absolute),
        1 => prop::sample::select(&[0, 1, 63, 64, u64::MAX - 1, u64::MAX][..]).prop_map(Tick::Absolute),
        4 => (0..200_u64).prop_map(Tick::Ahead),
        2 => (0..70_000_u64).prop_map(Tick::Ahead),
        2 => (0..200_u64).prop_map(Tick::Behind),
        6 => border.prop_map(|(digit, slots, offset)| Tick::Border { digit, slots, offset }),
        4 => any::<Index>().prop_map(Tick::OfTimer),
    ]
}
