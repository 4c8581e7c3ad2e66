//! Random programs, each a sequence of actions of a loop's user, against an oracle. Whatever the
//! user does between steps, no step is stale. Everything that was reported, posted or armed is
//! delivered exactly once, unless it is cancelled. Exactly the connections that the oracle chooses
//! are evicted, and a shutdown ends in time.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use evcore::{
    Budgets, Error, InstrumentOptions, Ready, Timer, Token, balancer::Policy, clock::TimeSource,
};
use proptest::prelude::*;

use crate::{expected::Expected, fake_backend::Recorded, fixture::Fixture};

/// An action of the user between two steps. A number selects one of all tokens so far.
#[derive(Clone, Debug)]
enum Op {
    Join,
    /// Begins a token without a descriptor.
    Begin,
    SetIdle(usize),
    SetBusy(usize),
    SetBackground(usize),
    Shutdown(Duration),
    /// Requests a shutdown by a handle, as another thread would.
    ShutdownFromOutside(Duration),
    Close(usize),
    Post(usize, bool),
    PostNext(usize, bool),
    /// Posts by a handle, as another thread would.
    PostFromOutside(usize, bool),
    Arm(usize, Timer, Duration),
    Disarm(usize, Timer),
}

#[derive(Clone, Debug)]
struct Turn {
    time_passes: Duration,
    /// The tokens that the wait reports, if they are current then.
    reported: Vec<(usize, bool)>,
    /// True if the listener is reported although no client waits.
    knocks: bool,
    lock_is_free: bool,
    interrupted: bool,
    before: Vec<Op>,
    /// The actions after each step. The turn is left at the end of this list.
    after_each: Vec<Vec<Op>>,
}

fn op() -> impl Strategy<Value = Op> {
    let which = any::<usize>();
    let side = prop_oneof![Just(Timer::READ), Just(Timer::WRITE)];
    // The times are often zero or whole milliseconds.
    let after = prop_oneof![
        Just(Duration::ZERO),
        (0..4_000_000_u64).prop_map(Duration::from_nanos),
        (0..200_u64).prop_map(Duration::from_millis),
    ];
    let post = prop_oneof![
        (which, any::<bool>()).prop_map(|(which, bit)| Op::Post(which, bit)),
        (which, any::<bool>()).prop_map(|(which, bit)| Op::PostNext(which, bit)),
        (which, any::<bool>()).prop_map(|(which, bit)| Op::PostFromOutside(which, bit)),
    ];
    let arm =
        (which, side.clone(), after).prop_map(|(which, side, after)| Op::Arm(which, side, after));
    let disarm = (which, side).prop_map(|(which, side)| Op::Disarm(which, side));
    let common = prop_oneof![
        3 => Just(Op::Join),
        1 => Just(Op::Begin),
        4 => which.prop_map(Op::SetIdle),
        1 => which.prop_map(Op::SetBusy),
        1 => which.prop_map(Op::SetBackground),
        2 => which.prop_map(Op::Close),
        6 => post,
        3 => arm,
        1 => disarm,
    ];
    prop_oneof![40 => common, 1 => shutdown()]
}

fn shutdown() -> impl Strategy<Value = Op> {
    let timeout = prop_oneof![
        1 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
        8 => (0..30_000_000_u64).prop_map(Duration::from_nanos),
    ];
    (any::<bool>(), timeout).prop_map(|(here, timeout)| {
        if here {
            Op::Shutdown(timeout)
        } else {
            Op::ShutdownFromOutside(timeout)
        }
    })
}

fn turn() -> impl Strategy<Value = Turn> {
    let ops = |most| prop::collection::vec(op(), 0..most);
    (
        (0..3_000_000_u64).prop_map(Duration::from_nanos),
        prop::collection::vec((any::<usize>(), any::<bool>()), 0..6),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.1),
        ops(5),
        prop_oneof![
            Just(vec![Vec::new(); 1000]),
            prop::collection::vec(ops(3), 0..8),
        ],
    )
        .prop_map(
            |(time_passes, reported, knocks, lock_is_free, interrupted, before, after_each)| Turn {
                time_passes,
                reported,
                knocks,
                lock_is_free,
                interrupted,
                before,
                after_each,
            },
        )
}

fn budgets() -> impl Strategy<Value = Budgets> {
    let few = 1..4_usize;
    (1..8_usize, few.clone(), few.clone(), few).prop_map(|(batch, expired, posted, evictions)| {
        Budgets {
            batch,
            expired,
            posted,
            evictions,
            ..Budgets::default()
        }
    })
}

struct Run {
    fixture: Fixture,
    resolution: Option<Duration>,
    owed: Expected,
    /// All tokens so far, and whether each is current.
    tokens: Vec<(Token, bool)>,
    watched: HashSet<Token>,
    background: HashSet<Token>,
    capacity: u32,
    /// Number of evicted connections.
    named: u64,
    /// The expected counters: steps from the posted queue, turns, expired timers, posts from
    /// outside, and the stale posts among these.
    posted: u64,
    turns: u64,
    expired: u64,
    received: u64,
    received_stale: u64,
}

impl Run {
    fn new(
        budgets: Budgets,
        locks: bool,
        (watched, measured): (bool, bool),
        resolution: Option<Duration>,
        capacity: u32,
        grace: Duration,
    ) -> Self {
        let fixture = Fixture::built(1, |builder, backend| {
            let mut builder = builder.budgets(budgets).connections(capacity);
            builder = builder.idle_grace(grace);
            if let Some(resolution) = resolution {
                builder = builder.timer_resolution(resolution);
            }
            let watchdog = watched.then(|| Duration::from_micros(500));
            let instruments = InstrumentOptions::new().histograms(measured);
            builder = builder.instruments(instruments.watchdog(watchdog));
            if locks {
                builder.policy(Policy::mutex()).group(backend.clone())
            } else {
                builder
            }
        });
        Self {
            fixture,
            resolution,
            owed: Expected {
                grace_ns: grace_ns(grace, resolution),
                ..Expected::default()
            },
            tokens: Vec::new(),
            watched: HashSet::new(),
            background: HashSet::new(),
            capacity,
            named: 0,
            posted: 0,
            turns: 0,
            expired: 0,
            received: 0,
            received_stale: 0,
        }
    }

    fn now_ns(&self) -> u64 {
        self.fixture.time.monotonic_ns()
    }

    fn shown_ns(&self) -> u64 {
        self.fixture.ev.clock().monotonic_ns()
    }

    fn chosen(&self, which: usize) -> Option<(usize, Token, bool)> {
        let at = which.checked_rem(self.tokens.len())?;
        let (token, is_current) = self.tokens[at];
        Some((at, token, is_current))
    }

    fn does(&mut self, op: &Op) {
        match *op {
            Op::Join => {
                let joined = self.fixture.try_join();
                if self.watched.len() >= self.capacity as usize {
                    assert!(matches!(joined, Err(Error::Full { .. })), "{joined:?}");
                    return;
                }
                let token = joined.expect("a slot is free");
                assert!(self.tokens.iter().all(|(other, _)| *other != token));
                self.tokens.push((token, true));
                self.watched.insert(token);
            }
            Op::Begin => {
                let token = self.fixture.begin();
                self.tokens.push((token, true));
            }
            Op::SetIdle(which) => {
                let Some((_, token, _)) = self.chosen(which) else {
                    return;
                };
                let watched = self.watched.contains(&token);
                assert_eq!(self.fixture.ev.set_idle(token), watched);
                if watched {
                    self.owed.set_idle(token, self.shown_ns());
                }
            }
            Op::SetBusy(which) => {
                let Some((_, token, _)) = self.chosen(which) else {
                    return;
                };
                let idle = self.owed.is_idle(token);
                assert_eq!(self.fixture.ev.set_busy(token), idle);
                self.owed.set_busy(token);
            }
            Op::SetBackground(which) => {
                let Some((_, token, is_current)) = self.chosen(which) else {
                    return;
                };
                assert_eq!(self.fixture.ev.timers().set_background(token), is_current);
                self.background.insert(token);
            }
            Op::Shutdown(timeout) => {
                self.fixture.ev.shutdown(timeout);
                self.begins_shutdown(timeout);
            }
            Op::ShutdownFromOutside(timeout) => {
                self.fixture.ev.handle().shutdown(timeout);
                let requested = [self.owed.shutdown_from_outside, Some(timeout)];
                self.owed.shutdown_from_outside = requested.into_iter().flatten().min();
            }
            Op::Close(which) => {
                let Some((at, token, is_current)) = self.chosen(which) else {
                    return;
                };
                if is_current {
                    self.fixture.leave(token);
                    self.owed.close(token);
                    self.tokens[at].1 = false;
                    self.watched.remove(&token);
                } else {
                    assert!(!self.fixture.ev.remove(token));
                }
            }
            Op::Post(which, bit) => {
                let Some((_, token, is_current)) = self.chosen(which) else {
                    return;
                };
                let ready = one_of_two(bit);
                assert_eq!(self.fixture.ev.post(token, ready), is_current);
                if is_current {
                    self.owed.post(token, ready);
                }
            }
            Op::PostNext(which, bit) => {
                let Some((_, token, is_current)) = self.chosen(which) else {
                    return;
                };
                let ready = one_of_two(bit);
                assert_eq!(self.fixture.ev.post_next(token, ready), is_current);
                if is_current {
                    self.owed.post_next(token, ready);
                }
            }
            Op::PostFromOutside(which, bit) => {
                let Some((_, token, _)) = self.chosen(which) else {
                    return;
                };
                let ready = one_of_two(bit);
                self.fixture.ev.handle().post(token, ready);
                self.owed.post_from_outside(token, ready);
            }
            Op::Arm(which, side, after) => {
                let Some((_, token, is_current)) = self.chosen(which) else {
                    return;
                };
                assert_eq!(self.fixture.ev.arm(token, side, after), is_current);
                if is_current {
                    let after_ns = u64::try_from(after.as_nanos()).unwrap();
                    self.owed
                        .armed
                        .insert((token, side), self.now_ns() + after_ns);
                }
            }
            Op::Disarm(which, side) => {
                let Some((_, token, _)) = self.chosen(which) else {
                    return;
                };
                let armed = self.owed.armed.remove(&(token, side)).is_some();
                assert_eq!(self.fixture.ev.disarm(token, side), armed);
            }
        }
    }

    /// Queues the next wait, and returns its events.
    fn reports(&mut self, turn: &Turn, batch: usize) -> HashMap<Token, Ready> {
        let mut events = HashMap::new();
        for (which, both) in &turn.reported {
            match self.chosen(*which) {
                Some((_, token, _)) if events.len() < batch && self.watched.contains(&token) => {
                    let ready = if *both {
                        Ready::READABLE | Ready::ERROR
                    } else {
                        Ready::READABLE
                    };
                    events.insert(token, ready);
                }
                _ => {}
            }
        }
        if turn.interrupted {
            self.fixture.backend.interrupt();
            return HashMap::new();
        }
        let fds = events
            .iter()
            .map(|(token, ready)| (self.fixture.fd(*token), *ready));
        let mut fds: Vec<_> = fds.collect();
        if turn.knocks && fds.len() < batch && self.fixture.ev.stats().listening {
            fds.push((self.fixture.listener_fd(0), Ready::READABLE));
            self.owed.knocked = true;
        }
        self.fixture.backend.report(fds);
        events
    }

    /// Begins a shutdown, whose timeout counts from now, whatever time the loop's clock shows. With
    /// a timeout of zero, the shutdown is over at once.
    fn begins_shutdown(&mut self, timeout: Duration) {
        let shown_ns = self.shown_ns();
        let now_ns = match timeout {
            Duration::ZERO => shown_ns,
            _ => shown_ns.max(self.now_ns()),
        };
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let over_ns = now_ns.saturating_add(timeout_ns);
        self.owed.shut_down(over_ns, now_ns, shown_ns);
    }

    /// Begins the shutdown that a handle has requested, in the turn that the request causes.
    fn takes_shutdown(&mut self) {
        if let Some(requested) = self.owed.shutdown_from_outside.take() {
            let ms = u64::try_from(requested.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
            self.begins_shutdown(Duration::from_millis(ms));
        }
    }

    fn is_done(&self) -> bool {
        let mut armed = self.owed.armed.keys();
        let nothing_is_left = self.watched.is_empty()
            && !self.owed.is_urgent(self.shown_ns())
            && armed.all(|(token, _)| self.background.contains(token));
        let shown_ns = self.shown_ns();
        let is_over = |over_ns| over_ns <= shown_ns || nothing_is_left;
        self.owed.over_ns.is_some_and(is_over)
    }

    /// Takes in the posts of other threads that the wait finds, up to the budget.
    fn takes_in_posts(&mut self, budget: usize) {
        let comes_in = self.owed.outside.len().min(budget);
        for (token, ready) in self.owed.outside.drain(..comes_in).collect::<Vec<_>>() {
            self.received += 1;
            if self.tokens.contains(&(token, true)) {
                self.owed.post(token, ready);
            } else {
                self.received_stale += 1;
            }
        }
        self.owed.outside_left_over = !self.owed.outside.is_empty();
    }

    /// Waits. Returns false if the loop is shut down, so that no turn has begun.
    fn waits(&mut self, turn: &Turn, budgets: Budgets) -> bool {
        let done = self.is_done();
        assert_eq!(self.fixture.ev.stats().shut_down, done);
        if done {
            assert!(!self.fixture.ev.wait().unwrap());
            return false;
        }
        self.owed.begin_turn(budgets);
        let before_ns = self.now_ns();
        self.fixture.backend.set_lock_free(turn.lock_is_free);
        let timeout = self.fixture.ev.prepare().unwrap().timeout;
        self.check_timeout(before_ns, timeout);
        // A worker that stops listening drops the events of its listeners, and gets them again
        // later.
        self.owed.knocked &= self.fixture.ev.stats().listening;
        let events = self.reports(turn, budgets.batch);
        self.fixture.time.advance(turn.time_passes);
        assert!(self.fixture.ev.wait_at_most(timeout).unwrap());
        self.turns += 1;
        self.takes_in_posts(budgets.posted);
        self.takes_shutdown();
        self.owed.batch = events;
        if self.fixture.backend.holds_lock() {
            self.owed.post_rest_of_batch();
        }
        true
    }

    /// Checks that the wait is zero if work is left, and does not last beyond a timer, a tick, or
    /// an act of a shutdown.
    fn check_timeout(&self, now_ns: u64, timeout: Option<Duration>) {
        if self.owed.is_urgent(self.shown_ns()) {
            assert_eq!(timeout, Some(Duration::ZERO));
        }
        if let Some(resolution) = self.resolution {
            assert!(timeout.expect("there is a next tick") <= resolution);
        } else if let Some(first_ns) = self.owed.armed.values().min() {
            let latest_ns = first_ns.saturating_sub(now_ns) + 999_999;
            assert!(timeout.expect("a timer is armed").as_nanos() <= latest_ns.into());
        }
        let ends = [self.owed.over_ns, self.owed.grace_ends_ns];
        if let (Some(end_ns), None) = (ends.into_iter().flatten().min(), self.resolution) {
            let left_ns = end_ns.saturating_sub(now_ns);
            assert!(timeout.expect("a shutdown has an end").as_nanos() <= left_ns.into());
        }
    }

    /// Takes one step, which the oracle must expect. Returns whether there was one.
    fn steps(&mut self) -> bool {
        if self.owed.batch.is_empty() && self.owed.chosen.is_none() {
            let free = self.capacity.saturating_sub(self.fixture.ev.stats().active);
            self.owed.end_grace(self.shown_ns());
            self.owed.choose(free as usize);
        }
        let step = self.fixture.step();
        self.owed.is_announced = self.fixture.announcements > 0;
        match step {
            None => {
                assert_eq!(self.owed.name_oldest(self.shown_ns()), None);
                return false;
            }
            Some(Recorded::Evict(token)) => {
                assert_eq!(self.owed.name_oldest(self.shown_ns()), Some(token));
                self.named += 1;
            }
            Some(Recorded::Ready(token, ready)) => {
                // Events that are delivered directly come before all posts.
                let direct = self.owed.batch.remove(&token);
                self.posted += u64::from(direct.is_none());
                let owed = direct.or_else(|| self.owed.posted.remove(&token));
                assert_eq!(owed, Some(ready), "{token}");
            }
            Some(Recorded::Expired(token, side)) => {
                let due_ns = self.owed.armed.remove(&(token, side));
                let due_ns = due_ns.unwrap_or_else(|| panic!("{token} {side:?} is not armed"));
                assert!(due_ns <= self.now_ns(), "early");
                self.expired += 1;
            }
            Some(recorded) => panic!("{recorded:?} is not expected"),
        }
        true
    }

    fn takes(&mut self, turn: &Turn, budgets: Budgets) {
        turn.before.iter().for_each(|op| self.does(op));
        if !self.waits(turn, budgets) {
            return;
        }
        for ops in &turn.after_each {
            if !self.steps() {
                break;
            }
            ops.iter().for_each(|op| self.does(op));
        }
    }

    /// Checks that all expected steps are delivered, given enough time and no new events.
    fn settles(&mut self, budgets: Budgets) {
        let quiet = Turn {
            time_passes: Duration::from_millis(100),
            reported: Vec::new(),
            knocks: false,
            lock_is_free: true,
            interrupted: false,
            before: Vec::new(),
            after_each: vec![Vec::new(); 1000],
        };
        let mut turns = 0;
        while !self.owed.is_nothing(self.shown_ns()) && !self.is_done() {
            self.takes(&quiet, budgets);
            turns += 1;
            assert!(turns < 1000, "an expected step never comes");
        }
    }
}

fn grace() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        (0..20_000_000_u64).prop_map(Duration::from_nanos),
    ]
}

/// The grace on the loop's clock, which may be behind by a resolution. So the resolution is added.
fn grace_ns(grace: Duration, resolution: Option<Duration>) -> u64 {
    let behind = resolution.filter(|_| !grace.is_zero());
    let shown = grace + behind.unwrap_or_default();
    u64::try_from(shown.as_nanos()).expect("a short time")
}

fn one_of_two(bit: bool) -> Ready {
    if bit {
        Ready::WRITABLE
    } else {
        Ready::PRIORITY
    }
}

proptest! {
    #[test]
    fn everything_is_delivered_once_or_cancelled(
        budgets in budgets(),
        locks: bool,
        watched: bool,
        measured: bool,
        resolution in prop::option::of((1..50_000_000_u64).prop_map(Duration::from_nanos)),
        capacity in 0..20_u32,
        grace in grace(),
        turns in prop::collection::vec(turn(), 0..30),
    ) {
        let mut run = Run::new(budgets, locks, (watched, measured), resolution, capacity, grace);
        for turn in &turns {
            run.takes(turn, budgets);
        }
        run.settles(budgets);
        let stats = run.fixture.ev.stats();
        prop_assert_eq!((stats.posted, stats.expired), (run.posted, run.expired));
        prop_assert_eq!(stats.turns, run.turns);
        prop_assert_eq!(stats.received, run.received);
        prop_assert_eq!(run.fixture.ev.instruments().histograms().is_some(), measured);
        if let Some(histograms) = run.fixture.ev.instruments().histograms() {
            prop_assert_eq!(histograms.timer_lateness_ns().count(), stats.expired);
            prop_assert_eq!(histograms.events().count(), stats.turns);
            if watched || resolution.is_none() {
                // All turns except the last one are recorded, because the last one is not over.
                prop_assert_eq!(histograms.turn_ns().count(), stats.turns.saturating_sub(1));
            }
        }
        prop_assert!(stats.stale >= run.received_stale);
        prop_assert!(stats.stale <= stats.events + run.received_stale);
        prop_assert_eq!(run.fixture.ev.stats().active as usize, run.watched.len());
        prop_assert_eq!(run.fixture.ev.stats().idle as usize, run.owed.idle.len());
        prop_assert_eq!(stats.evictions, run.named);
    }
}
