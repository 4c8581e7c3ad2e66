//! Random programs against an oracle: whatever the user does between which steps, no step is stale,
//! and everything that was reported, posted or armed is delivered exactly once or taken back.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use evcore::{Budgets, Ready, Side, Token, balancer::Policy, clock::Source};
use proptest::prelude::*;

use crate::{script::Did, stage::Stage};

/// Something the user does between two steps. Numbers choose among the tokens there have been.
#[derive(Clone, Debug)]
enum Deed {
    Join,
    Close(usize),
    Post(usize, bool),
    PostNext(usize, bool),
    /// By a handle, as another thread would.
    PostFromOutside(usize, bool),
    Cancel(usize),
    Arm(usize, Side, Duration),
    Disarm(usize, Side),
}

#[derive(Clone, Debug)]
struct Turn {
    time_passes: Duration,
    /// Who is reported, of those who live then.
    reported: Vec<(usize, bool)>,
    lock_is_free: bool,
    interrupted: bool,
    before: Vec<Deed>,
    /// What is done after each step; the turn is left when there is no entry any more.
    after_each: Vec<Vec<Deed>>,
}

fn deed() -> impl Strategy<Value = Deed> {
    let who = any::<usize>();
    let side = prop_oneof![Just(Side::Read), Just(Side::Write)];
    // Around whole milliseconds, and often nothing at all.
    let after = prop_oneof![
        Just(Duration::ZERO),
        (0..4_000_000_u64).prop_map(Duration::from_nanos),
        (0..200_u64).prop_map(Duration::from_millis),
    ];
    let post = prop_oneof![
        (who, any::<bool>()).prop_map(|(who, bit)| Deed::Post(who, bit)),
        (who, any::<bool>()).prop_map(|(who, bit)| Deed::PostNext(who, bit)),
        (who, any::<bool>()).prop_map(|(who, bit)| Deed::PostFromOutside(who, bit)),
    ];
    let arm = (who, side.clone(), after).prop_map(|(who, side, after)| Deed::Arm(who, side, after));
    let disarm = (who, side).prop_map(|(who, side)| Deed::Disarm(who, side));
    prop_oneof![
        3 => Just(Deed::Join),
        2 => who.prop_map(Deed::Close),
        6 => post,
        1 => who.prop_map(Deed::Cancel),
        3 => arm,
        1 => disarm,
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    let deeds = |most| prop::collection::vec(deed(), 0..most);
    (
        (0..3_000_000_u64).prop_map(Duration::from_nanos),
        prop::collection::vec((any::<usize>(), any::<bool>()), 0..6),
        any::<bool>(),
        prop::bool::weighted(0.1),
        deeds(5),
        prop_oneof![
            Just(vec![Vec::new(); 1000]),
            prop::collection::vec(deeds(3), 0..8),
        ],
    )
        .prop_map(
            |(time_passes, reported, lock_is_free, interrupted, before, after_each)| Turn {
                time_passes,
                reported,
                lock_is_free,
                interrupted,
                before,
                after_each,
            },
        )
}

fn budgets() -> impl Strategy<Value = Budgets> {
    (1..8_usize, 1..4_usize, 1..4_usize).prop_map(|(batch, expired, posted)| Budgets {
        batch,
        expired,
        posted,
        ..Budgets::default()
    })
}

/// What the loop owes, written as plainly as can be.
#[derive(Default)]
struct Owed {
    /// Reported by the last wait, to be delivered directly.
    batch: HashMap<Token, Ready>,
    /// To be delivered as posted: reported under the lock, left over, or posted by the user.
    posted: HashMap<Token, Ready>,
    /// To be delivered as posted, in the next turn at the earliest.
    next: HashMap<Token, Ready>,
    /// Posted from outside, and not yet taken in.
    outside: VecDeque<(Token, Ready)>,
    /// Whether some of it was left there by a turn.
    outside_left_over: bool,
    /// When each timer may fire, in nanoseconds of the true time, whatever the clock shows.
    armed: HashMap<(Token, Side), u64>,
}

impl Owed {
    fn post(&mut self, token: Token, ready: Ready) {
        let waited = self.next.remove(&token).unwrap_or_default();
        *self.posted.entry(token).or_default() |= ready | waited;
    }

    fn post_next(&mut self, token: Token, ready: Ready) {
        match self.posted.get_mut(&token) {
            Some(posted) => *posted |= ready,
            None => *self.next.entry(token).or_default() |= ready,
        }
    }

    fn cancel(&mut self, token: Token) -> Ready {
        let owed = self.posted.remove(&token);
        owed.or_else(|| self.next.remove(&token))
            .unwrap_or_default()
    }

    fn post_rest_of_batch(&mut self) {
        for (token, ready) in std::mem::take(&mut self.batch) {
            self.post(token, ready);
        }
    }

    fn begin_turn(&mut self) {
        self.post_rest_of_batch();
        self.posted.extend(self.next.drain());
    }

    fn close(&mut self, token: Token) {
        self.batch.remove(&token);
        self.cancel(token);
        self.armed.retain(|(owner, _), _| *owner != token);
    }

    /// Whether the next wait must not wait.
    fn is_urgent(&self) -> bool {
        let within = [&self.posted, &self.next, &self.batch];
        self.outside_left_over || within.iter().any(|owed| !owed.is_empty())
    }

    fn is_nothing(&self) -> bool {
        !self.is_urgent() && self.outside.is_empty() && self.armed.is_empty()
    }
}

/// A loop, and what it owes.
struct Run {
    stage: Stage,
    resolution: Option<Duration>,
    owed: Owed,
    /// Everybody who ever was there, and whether they still are.
    tokens: Vec<(Token, bool)>,
    /// Steps that came as posted, timers that fired, and posts from outside that came in, with how
    /// many of them were stale.
    posted: u64,
    expired: u64,
    received: u64,
    received_stale: u64,
}

impl Run {
    fn new(budgets: Budgets, locks: bool, watched: bool, resolution: Option<Duration>) -> Self {
        let stage = Stage::built(1, |builder, script| {
            let mut builder = builder.budgets(budgets);
            if let Some(resolution) = resolution {
                builder = builder.timer_resolution(resolution);
            }
            if watched {
                builder = builder.watchdog(Duration::from_micros(500));
            }
            if locks {
                builder.policy(Policy::mutex()).lock(script.clone())
            } else {
                builder
            }
        });
        Self {
            stage,
            resolution,
            owed: Owed::default(),
            tokens: Vec::new(),
            posted: 0,
            expired: 0,
            received: 0,
            received_stale: 0,
        }
    }

    fn now_ns(&self) -> u64 {
        self.stage.time.read().monotonic_ns
    }

    fn chosen(&self, who: usize) -> Option<(usize, Token, bool)> {
        let at = who.checked_rem(self.tokens.len())?;
        let (token, lives) = self.tokens[at];
        Some((at, token, lives))
    }

    fn does(&mut self, deed: &Deed) {
        match *deed {
            Deed::Join => {
                let token = self.stage.join();
                assert!(self.tokens.iter().all(|(other, _)| *other != token));
                self.tokens.push((token, true));
            }
            Deed::Close(who) => {
                let Some((at, token, lives)) = self.chosen(who) else {
                    return;
                };
                if lives {
                    self.stage.leave(token);
                    self.owed.close(token);
                    self.tokens[at].1 = false;
                } else {
                    assert!(!self.stage.ev.close(token));
                }
            }
            Deed::Post(who, bit) => {
                let Some((_, token, lives)) = self.chosen(who) else {
                    return;
                };
                let ready = one_of_two(bit);
                assert_eq!(self.stage.ev.post(token, ready), lives);
                if lives {
                    self.owed.post(token, ready);
                }
            }
            Deed::PostNext(who, bit) => {
                let Some((_, token, lives)) = self.chosen(who) else {
                    return;
                };
                let ready = one_of_two(bit);
                assert_eq!(self.stage.ev.post_next(token, ready), lives);
                if lives {
                    self.owed.post_next(token, ready);
                }
            }
            Deed::PostFromOutside(who, bit) => {
                let Some((_, token, _)) = self.chosen(who) else {
                    return;
                };
                let ready = one_of_two(bit);
                self.stage.ev.handle().post(token, ready).unwrap();
                self.owed.outside.push_back((token, ready));
            }
            Deed::Cancel(who) => {
                let Some((_, token, _)) = self.chosen(who) else {
                    return;
                };
                assert_eq!(self.stage.ev.cancel(token), self.owed.cancel(token));
            }
            Deed::Arm(who, side, after) => {
                let Some((_, token, lives)) = self.chosen(who) else {
                    return;
                };
                assert_eq!(self.stage.ev.arm(token, side, after), lives);
                if lives {
                    let after_ns = u64::try_from(after.as_nanos()).unwrap();
                    self.owed
                        .armed
                        .insert((token, side), self.now_ns() + after_ns);
                }
            }
            Deed::Disarm(who, side) => {
                let Some((_, token, _)) = self.chosen(who) else {
                    return;
                };
                let armed = self.owed.armed.remove(&(token, side)).is_some();
                assert_eq!(self.stage.ev.disarm(token, side), armed);
            }
        }
    }

    /// Schedules what the next wait brings, and says what that is.
    fn reports(&mut self, turn: &Turn, batch: usize) -> HashMap<Token, Ready> {
        let mut events = HashMap::new();
        for (who, both) in &turn.reported {
            match self.chosen(*who) {
                Some((_, token, true)) if events.len() < batch => {
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
            self.stage.script.interrupt();
            return HashMap::new();
        }
        let fds = events
            .iter()
            .map(|(token, ready)| (self.stage.fd(*token), *ready));
        self.stage.script.report(fds.collect());
        events
    }

    /// What the wait finds posted from outside comes in, as far as the budget goes.
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

    fn waits(&mut self, turn: &Turn, budgets: Budgets) {
        let events = self.reports(turn, budgets.batch);
        let before_ns = self.now_ns();
        self.stage.time.advance(turn.time_passes);
        self.stage.script.set_lock_free(turn.lock_is_free);
        self.owed.begin_turn();
        self.stage.script.record();
        self.stage.wait();
        let timeout = self.stage.script.timeouts()[0];
        self.check_timeout(before_ns, timeout);
        self.takes_in_posts(budgets.posted);
        self.owed.batch = events;
        if self.stage.script.holds_lock() {
            self.owed.post_rest_of_batch();
        }
    }

    /// It waits for nothing that is there, and past nothing that is armed.
    fn check_timeout(&self, now_ns: u64, timeout: Option<Duration>) {
        if self.owed.is_urgent() {
            assert_eq!(timeout, Some(Duration::ZERO));
        }
        if let Some(resolution) = self.resolution {
            assert!(timeout.expect("there is a next tick") <= resolution);
        } else if let Some(first_ns) = self.owed.armed.values().min() {
            let latest_ns = first_ns.saturating_sub(now_ns) + 999_999;
            assert!(timeout.expect("a timer is armed").as_nanos() <= latest_ns.into());
        }
    }

    /// Takes one step, which must be owed; whether there was one.
    fn steps(&mut self) -> bool {
        match self.stage.step() {
            None => return false,
            Some(Did::Ready(token, ready)) => {
                // What is delivered directly comes before all that is posted.
                let direct = self.owed.batch.remove(&token);
                self.posted += u64::from(direct.is_none());
                let owed = direct.or_else(|| self.owed.posted.remove(&token));
                assert_eq!(owed, Some(ready), "{token}");
            }
            Some(Did::Expired(token, side)) => {
                let due_ns = self.owed.armed.remove(&(token, side));
                let due_ns = due_ns.unwrap_or_else(|| panic!("{token} {side:?} is not armed"));
                assert!(due_ns <= self.now_ns(), "early");
                self.expired += 1;
            }
            Some(did) => panic!("{did:?} out of nowhere"),
        }
        true
    }

    fn takes(&mut self, turn: &Turn, budgets: Budgets) {
        turn.before.iter().for_each(|deed| self.does(deed));
        self.waits(turn, budgets);
        for deeds in &turn.after_each {
            if !self.steps() {
                break;
            }
            deeds.iter().for_each(|deed| self.does(deed));
        }
    }

    /// With time enough and nothing new, all that is owed is delivered.
    fn settles(&mut self, budgets: Budgets) {
        let quiet = Turn {
            time_passes: Duration::from_millis(100),
            reported: Vec::new(),
            lock_is_free: true,
            interrupted: false,
            before: Vec::new(),
            after_each: vec![Vec::new(); 1000],
        };
        let mut turns = 0;
        while !self.owed.is_nothing() {
            self.takes(&quiet, budgets);
            turns += 1;
            assert!(turns < 1000, "some of it never comes");
        }
    }
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
    fn no_step_is_stale_and_everything_is_delivered_once_or_taken_back(
        budgets in budgets(),
        locks: bool,
        watched: bool,
        resolution in prop::option::of((1..50_000_000_u64).prop_map(Duration::from_nanos)),
        turns in prop::collection::vec(turn(), 0..30),
    ) {
        let mut run = Run::new(budgets, locks, watched, resolution);
        for turn in &turns {
            run.takes(turn, budgets);
        }
        run.settles(budgets);
        let stats = *run.stage.ev.stats();
        prop_assert_eq!((stats.posted, stats.expired), (run.posted, run.expired));
        prop_assert!(stats.turns >= turns.len() as u64);
        prop_assert_eq!(stats.received, run.received);
        let histograms = run.stage.ev.histograms();
        prop_assert_eq!(histograms.timer_lateness_ns().count(), stats.expired);
        prop_assert_eq!(histograms.events().count(), stats.turns);
        if watched || resolution.is_none() {
            // All but the last, which is not over.
            prop_assert_eq!(histograms.turn_ns().count(), stats.turns.saturating_sub(1));
        }
        prop_assert!(stats.stale >= run.received_stale);
        prop_assert!(stats.stale <= stats.events + run.received_stale);
        let live = run.tokens.iter().filter(|(_, lives)| *lives).count();
        prop_assert_eq!(run.stage.ev.active() as usize, live);
    }
}
