//! Invariants that must hold in every turn (iteration of the event loop) of the server.
//!
//! The server under test reports its calls to the loop, and each step is checked against them.

use std::{collections::HashMap, time::Duration};

use evcore::{Budgets, Stats, Timer, Token};

const NS_PER_MS: u64 = 1_000_000;

/// Maximum time by which a wait may end late, because a woken worker does not run at once.
const WAKE_LATENCY_MAX: Duration = Duration::from_millis(1);

/// Maximum number of turns until a step that was posted through a handle is delivered. It is above
/// 1, because batches may be small and waits may be interrupted.
const REMOTE_POST_TURNS_MAX: u64 = 20;

#[derive(Debug)]
pub(crate) struct InvariantChecker {
    entries: HashMap<Token, Entry>,
    budgets: Budgets,
    precision: Precision,
    turn: u64,
    /// Number of times that a connection was marked idle.
    idle_marks: u64,
    /// Value of `idle_marks` when the shutdown began.
    marks_before_shutdown: Option<u64>,
    /// The counters when the turn began.
    before: Stats,
    wait: Option<Wait>,
}

/// The kinds of lateness that can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// A timer fires in the first turn in which it is due, and a wait ends when a timer is due.
    Full,
    /// Only the turn in which a timer fires can be checked, because the clock jumps during waits.
    Turns,
    /// The lateness of timers and waits cannot be checked, because the clock is coarse.
    None,
}

#[derive(Debug)]
struct Entry {
    serial: u64,
    timers: [Option<Armed>; 2],
    posted: Option<Posted>,
    /// The number of the token's last idle mark; `None` if it is busy.
    idle: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    not_before_ns: u64,
    in_turn: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Posted {
    ThisTurn,
    NextTurn {
        from_turn: u64,
    },
    /// A post by a handle. The loop gets it when a wait reports the wake-up, at most
    /// `REMOTE_POST_TURNS_MAX` turns later.
    Remote {
        from_turn: u64,
    },
}

/// The time at which a wait must end.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Duration,
    /// The time on the loop's clock, 0 if a post is pending, or `None` if nothing is due.
    due_ns: Option<u64>,
}

impl InvariantChecker {
    pub(crate) fn new(budgets: Budgets, precision: Precision) -> Self {
        Self {
            entries: HashMap::new(),
            budgets,
            precision,
            turn: 0,
            idle_marks: 0,
            marks_before_shutdown: None,
            before: Stats::default(),
            wait: None,
        }
    }

    pub(crate) fn added(&mut self, token: Token, serial: u64) {
        let entry = Entry {
            serial,
            timers: [None; 2],
            posted: None,
            idle: None,
        };
        let before = self.entries.insert(token, entry);
        assert!(before.is_none(), "{token} was given out twice");
    }

    pub(crate) fn closed(&mut self, token: Token) {
        assert!(self.entries.remove(&token).is_some(), "{token} ended twice");
    }

    pub(crate) fn armed(&mut self, token: Token, timer: Timer, now_ns: u64, after: Duration) {
        let after_ns = u64::try_from(after.as_nanos()).expect("a short time");
        let armed = Armed {
            not_before_ns: now_ns + after_ns,
            in_turn: self.turn,
        };
        self.entry(token).timers[usize::from(timer.number())] = Some(armed);
    }

    pub(crate) fn disarmed(&mut self, token: Token, timer: Timer) {
        self.entry(token).timers[usize::from(timer.number())] = None;
    }

    pub(crate) fn posted(&mut self, token: Token) {
        self.entry(token).posted = Some(Posted::ThisTurn);
    }

    pub(crate) fn posted_next(&mut self, token: Token) {
        let from_turn = self.turn;
        self.entry(token)
            .posted
            .get_or_insert(Posted::NextTurn { from_turn });
    }

    pub(crate) fn set_idle(&mut self, token: Token) {
        self.idle_marks += 1;
        self.entry(token).idle = Some(self.idle_marks);
    }

    pub(crate) fn set_busy(&mut self, token: Token) {
        self.entry(token).idle = None;
    }

    pub(crate) fn shut_down(&mut self) {
        self.marks_before_shutdown.get_or_insert(self.idle_marks);
    }

    /// Records that the process is paused, so that its wait may end late.
    pub(crate) fn be_stopped(&mut self) {
        self.wait = None;
    }

    /// Checks an eviction: the connection must be the one that has been idle for the longest time.
    ///
    /// Connections that became idle just before a shutdown get a *grace*: some time in which a last
    /// request can still arrive. Connections that became idle during the shutdown get no grace, so
    /// they have an order of their own.
    pub(crate) fn check_evicted(&mut self, token: Token) {
        let since = self.entry(token).idle.take();
        let since = since.unwrap_or_else(|| panic!("{token} is evicted, and is not idle"));
        // With small budgets, a connection with an undelivered event counts as busy.
        let order_is_known = self.budgets == Budgets::default();
        let is_later = |mark: u64| self.marks_before_shutdown.is_some_and(|marks| mark > marks);
        let others = self.entries.values().filter_map(|entry| entry.idle);
        let mut others = others.filter(|other| is_later(*other) == is_later(since));
        assert!(
            !order_is_known || others.all(|other| other > since),
            "{token} is evicted, and another one was idle for longer"
        );
    }

    pub(crate) fn posted_by_handle(&mut self, token: Token) {
        let from_turn = self.turn;
        self.entry(token).posted = Some(Posted::Remote { from_turn });
    }

    /// Checks that the token of a step is live, and belongs to the connection that it was made for.
    pub(crate) fn check_token(&self, token: Token, serial: Option<u64>) {
        let entry = self.entries.get(&token);
        let entry = entry.unwrap_or_else(|| panic!("a step for {token}, which has ended"));
        assert_eq!(
            serial,
            Some(entry.serial),
            "{token} is of another connection"
        );
    }

    /// Records a step from the posted queue.
    pub(crate) fn delivered(&mut self, token: Token) {
        // A missing post is not an error: the queue also has events that were deferred under the
        // accept lock.
        self.entry(token).posted = None;
    }

    pub(crate) fn check_expired(&mut self, token: Token, timer: Timer, now_ns: u64) {
        let armed = self.entry(token).timers[usize::from(timer.number())].take();
        let armed =
            armed.unwrap_or_else(|| panic!("the timer of {token} fired, and was not armed"));
        assert!(
            armed.not_before_ns <= now_ns,
            "the timer of {token} is early by {} ns",
            armed.not_before_ns - now_ns
        );
    }

    /// Checks a turn that has ended: nothing is late, and no phase exceeds its budget.
    pub(crate) fn check_turn(&mut self, now: Duration, now_ns: u64, stats: &Stats) {
        let summary = TurnSummary {
            turn: self.turn,
            now_ms: now_ns / NS_PER_MS,
            must_fire_all: stats.expired - self.before.expired < self.budgets.expired as u64
                && self.precision != Precision::None,
            delivered_all: stats.posted - self.before.posted < self.budgets.posted as u64,
        };
        for (token, entry) in &self.entries {
            entry.check_timers(*token, &summary);
            entry.check_posts(*token, &summary);
        }
        self.check_abandoned_turn(now, now_ns, stats);
    }

    /// Checks a turn that the worker left before it took all steps (`Fault::AbandonedTurn`). The
    /// steps that were due come in the next turn, and the loop must not sleep before it.
    pub(crate) fn check_abandoned_turn(&mut self, now: Duration, now_ns: u64, stats: &Stats) {
        self.check_budgets(stats);
        self.check_wait(now_ns);
        self.wait = Some(Wait {
            since: now,
            due_ns: self.due_ns(),
        });
        self.turn += 1;
        self.before = *stats;
    }

    pub(crate) fn check_empty(&self) {
        assert!(
            self.entries.is_empty(),
            "left at the end: {:?}",
            self.entries
        );
    }

    fn check_budgets(&self, stats: &Stats) {
        let (budgets, before) = (self.budgets, &self.before);
        for (what, count, budget) in [
            ("events", stats.events - before.events, budgets.batch),
            ("accepts", stats.accepted - before.accepted, budgets.accepts),
            ("timers", stats.expired - before.expired, budgets.expired),
            ("posted steps", stats.posted - before.posted, budgets.posted),
        ] {
            assert!(
                count <= budget as u64,
                "{count} {what} in a turn with a budget of {budget}"
            );
        }
    }

    /// Checks that the wait of this turn ended in time.
    fn check_wait(&self, now_ns: u64) {
        let Some(Wait { since, due_ns }) = self.wait else {
            return;
        };
        let Some(due_ns) = due_ns.filter(|_| self.precision == Precision::Full) else {
            return;
        };
        let since_ns = u64::try_from(since.as_nanos()).expect("a short run");
        let late_ns = now_ns.saturating_sub(due_ns.max(since_ns));
        assert!(
            u128::from(late_ns) <= WAKE_LATENCY_MAX.as_nanos(),
            "the wait ended {late_ns} ns too late"
        );
    }

    fn due_ns(&self) -> Option<u64> {
        let entries = || self.entries.values();
        if entries().any(|entry| entry.posted.is_some()) {
            return Some(0);
        }
        let timers = entries().flat_map(|entry| entry.timers.iter().flatten());
        timers.map(|armed| armed.tick_ms() * NS_PER_MS).min()
    }

    fn entry(&mut self, token: Token) -> &mut Entry {
        let entry = self.entries.get_mut(&token);
        entry.unwrap_or_else(|| panic!("{token} has ended"))
    }
}

#[derive(Debug)]
struct TurnSummary {
    turn: u64,
    now_ms: u64,
    /// True if every due timer must have fired, because neither the budget nor a coarse clock can
    /// have delayed one.
    must_fire_all: bool,
    delivered_all: bool,
}

impl Entry {
    fn check_timers(&self, token: Token, summary: &TurnSummary) {
        for armed in self.timers.iter().flatten() {
            let due = armed.in_turn < summary.turn && armed.tick_ms() <= summary.now_ms;
            assert!(
                !(due && summary.must_fire_all),
                "the timer of {token} was due in this turn, and did not fire: {armed:?}, {summary:?}"
            );
        }
    }

    fn check_posts(&self, token: Token, summary: &TurnSummary) {
        let due = match self.posted {
            None => false,
            Some(Posted::ThisTurn) => true,
            Some(Posted::NextTurn { from_turn }) => from_turn < summary.turn,
            Some(Posted::Remote { from_turn }) => from_turn + REMOTE_POST_TURNS_MAX < summary.turn,
        };
        assert!(
            !(due && summary.delivered_all),
            "{token} was posted, and had no step"
        );
    }
}

impl Armed {
    /// The deadline in the loop's ticks of a millisecond.
    fn tick_ms(self) -> u64 {
        self.not_before_ns.div_ceil(NS_PER_MS)
    }
}
