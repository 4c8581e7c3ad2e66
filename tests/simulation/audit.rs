//! What must hold of every turn, whatever goes wrong: an account that the server under test keeps
//! of what it asked of the loop, against which each step is held.

use std::{collections::HashMap, time::Duration};

use evcore::{Budgets, Stats, Timer, Token};

const NS_PER_MS: u64 = 1_000_000;

/// How much later than it was due a wait may end: a worker takes a while to get a processor.
const WAKING: Duration = Duration::from_millis(1);

/// How many turns may pass until a wake-up is among what is reported, and all that came before it
/// is received: a batch may be small, and a wait interrupted.
const OUTSIDE: u64 = 20;

/// The account of one worker.
#[derive(Debug)]
pub(crate) struct Audit {
    living: HashMap<Token, Life>,
    budgets: Budgets,
    punctuality: Punctuality,
    turn: u64,
    /// How often somebody was called idle.
    idlers: u64,
    /// The counters when the turn began.
    before: Stats,
    asleep: Option<Asleep>,
}

/// What can be told of whether somebody is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Punctuality {
    /// A timer fires in the first turn in which it is due, and a wait ends when one is.
    Full,
    /// Only the first: the clock jumps, and who slept meanwhile is late.
    OfTurns,
    /// The clock ticks, so that timers are late by what it is behind.
    Unknown,
}

/// Who stands behind a token.
#[derive(Debug)]
struct Life {
    serial: u64,
    timers: [Option<Armed>; 2],
    posted: Option<Posted>,
    /// The number of the time when it was last called idle, if it still is.
    idle: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    not_before_ns: u64,
    in_turn: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Posted {
    ForThisTurn,
    ForTheNext {
        from_turn: u64,
    },
    /// By a handle: as soon as the kernel tells of it.
    FromOutside {
        from_turn: u64,
    },
}

/// What a wait has to end for.
#[derive(Clone, Copy, Debug)]
struct Asleep {
    since: Duration,
    /// Of the loop's clock; 0 if there is work.
    due_ns: Option<u64>,
}

impl Audit {
    pub(crate) fn new(budgets: Budgets, punctuality: Punctuality) -> Self {
        Self {
            living: HashMap::new(),
            budgets,
            punctuality,
            turn: 0,
            idlers: 0,
            before: Stats::default(),
            asleep: None,
        }
    }

    pub(crate) fn begins(&mut self, token: Token, serial: u64) {
        let life = Life {
            serial,
            timers: [None; 2],
            posted: None,
            idle: None,
        };
        let before = self.living.insert(token, life);
        assert!(before.is_none(), "{token} was given out twice");
    }

    pub(crate) fn ends(&mut self, token: Token) {
        assert!(self.living.remove(&token).is_some(), "{token} ended twice");
    }

    pub(crate) fn arms(&mut self, token: Token, timer: Timer, now_ns: u64, after: Duration) {
        let after_ns = u64::try_from(after.as_nanos()).expect("a short time");
        let armed = Armed {
            not_before_ns: now_ns + after_ns,
            in_turn: self.turn,
        };
        self.life(token).timers[usize::from(timer.number())] = Some(armed);
    }

    pub(crate) fn disarms(&mut self, token: Token, timer: Timer) {
        self.life(token).timers[usize::from(timer.number())] = None;
    }

    pub(crate) fn posts(&mut self, token: Token) {
        self.life(token).posted = Some(Posted::ForThisTurn);
    }

    pub(crate) fn posts_next(&mut self, token: Token) {
        let from_turn = self.turn;
        self.life(token)
            .posted
            .get_or_insert(Posted::ForTheNext { from_turn });
    }

    pub(crate) fn idles(&mut self, token: Token) {
        self.idlers += 1;
        self.life(token).idle = Some(self.idlers);
    }

    pub(crate) fn works(&mut self, token: Token) {
        self.life(token).idle = None;
    }

    /// A step asks for a connection's end: it must be idle, and nobody for longer.
    pub(crate) fn closing(&mut self, token: Token) {
        let since = self.life(token).idle.take();
        let since = since.unwrap_or_else(|| panic!("{token} is to go, and is not idle"));
        // With less of a budget, who has news that is not delivered counts as of use.
        let order_is_known = self.budgets == Budgets::default();
        let mut others = self.living.values().filter_map(|life| life.idle);
        assert!(
            !order_is_known || others.all(|other| other > since),
            "{token} is to go, and is not the one that was idle for the longest time"
        );
    }

    pub(crate) fn posts_from_outside(&mut self, token: Token) {
        let from_turn = self.turn;
        self.life(token).posted = Some(Posted::FromOutside { from_turn });
    }

    /// A step names a token: it must live, and stand for the connection that it was made for.
    pub(crate) fn named(&self, token: Token, serial: Option<u64>) {
        let life = self.living.get(&token);
        let life = life.unwrap_or_else(|| panic!("a step for {token}, which has ended"));
        assert_eq!(serial, Some(life.serial), "{token} is somebody else");
    }

    /// A step came from the posted queue.
    pub(crate) fn delivered(&mut self, token: Token) {
        // (Without a post, it is an event that was put off for the accept lock.)
        self.life(token).posted = None;
    }

    /// A timer has fired.
    pub(crate) fn expires(&mut self, token: Token, timer: Timer, now_ns: u64) {
        let armed = self.life(token).timers[usize::from(timer.number())].take();
        let armed = armed.unwrap_or_else(|| panic!("{token}'s timer fired, and was not armed"));
        assert!(
            armed.not_before_ns <= now_ns,
            "{token}'s timer is early by {} ns",
            armed.not_before_ns - now_ns
        );
    }

    /// The turn is over: nothing is late, and no phase did more than it may.
    pub(crate) fn turn_over(&mut self, now: Duration, now_ns: u64, stats: &Stats) {
        let done = Done {
            turn: self.turn,
            now_ms: now_ns / NS_PER_MS,
            all_timers: stats.expired - self.before.expired < self.budgets.expired as u64
                && self.punctuality != Punctuality::Unknown,
            all_posts: stats.posted - self.before.posted < self.budgets.posted as u64,
        };
        for (token, life) in &self.living {
            life.check_timers(*token, &done);
            life.check_posts(*token, &done);
        }
        self.turn_left(now, now_ns, stats);
    }

    /// The turn ends, with more to come or not: what was due in it and did not come is due in the
    /// next, for which the loop must not sleep.
    pub(crate) fn turn_left(&mut self, now: Duration, now_ns: u64, stats: &Stats) {
        self.check_budgets(stats);
        self.check_wait(now_ns);
        self.asleep = Some(Asleep {
            since: now,
            due_ns: self.due_ns(),
        });
        self.turn += 1;
        self.before = *stats;
    }

    /// Nobody is left.
    pub(crate) fn closes(&self) {
        assert!(self.living.is_empty(), "left at the end: {:?}", self.living);
    }

    fn check_budgets(&self, stats: &Stats) {
        let (budgets, before) = (self.budgets, &self.before);
        for (what, done, most) in [
            ("events", stats.events - before.events, budgets.batch),
            ("accepts", stats.accepted - before.accepted, budgets.accepts),
            ("timers", stats.expired - before.expired, budgets.expired),
            ("posted steps", stats.posted - before.posted, budgets.posted),
        ] {
            assert!(done <= most as u64, "{done} {what} in a turn of {most}");
        }
    }

    /// The wait that began this turn ended for what it had to end for.
    fn check_wait(&self, now_ns: u64) {
        let Some(Asleep { since, due_ns }) = self.asleep else {
            return;
        };
        let Some(due_ns) = due_ns.filter(|_| self.punctuality == Punctuality::Full) else {
            return;
        };
        let since_ns = u64::try_from(since.as_nanos()).expect("a short life");
        let late_ns = now_ns.saturating_sub(due_ns.max(since_ns));
        assert!(
            u128::from(late_ns) <= WAKING.as_nanos(),
            "slept for {late_ns} ns too long"
        );
    }

    /// When the next wait has to end, of its own.
    fn due_ns(&self) -> Option<u64> {
        let lives = || self.living.values();
        if lives().any(|life| life.posted.is_some()) {
            return Some(0);
        }
        let timers = lives().flat_map(|life| life.timers.iter().flatten());
        timers.map(|armed| armed.tick_ms() * NS_PER_MS).min()
    }

    fn life(&mut self, token: Token) -> &mut Life {
        let life = self.living.get_mut(&token);
        life.unwrap_or_else(|| panic!("{token} has ended"))
    }
}

/// What a turn has come to.
#[derive(Debug)]
struct Done {
    turn: u64,
    now_ms: u64,
    /// No budget kept any from being delivered, nor did the clock.
    all_timers: bool,
    all_posts: bool,
}

impl Life {
    fn check_timers(&self, token: Token, done: &Done) {
        for armed in self.timers.iter().flatten() {
            let due = armed.in_turn < done.turn && armed.tick_ms() <= done.now_ms;
            assert!(
                !(due && done.all_timers),
                "{token}'s timer was due in this turn, and did not fire: {armed:?}, {done:?}"
            );
        }
    }

    fn check_posts(&self, token: Token, done: &Done) {
        let due = match self.posted {
            None => false,
            Some(Posted::ForThisTurn) => true,
            Some(Posted::ForTheNext { from_turn }) => from_turn < done.turn,
            Some(Posted::FromOutside { from_turn }) => from_turn + OUTSIDE < done.turn,
        };
        assert!(
            !(due && done.all_posts),
            "{token} was posted, and had no step"
        );
    }
}

impl Armed {
    /// The loop counts whole milliseconds.
    fn tick_ms(self) -> u64 {
        self.not_before_ns.div_ceil(NS_PER_MS)
    }
}
