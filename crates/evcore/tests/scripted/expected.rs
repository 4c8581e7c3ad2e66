//! The oracle of `random_programs`: a model of the loop in plain maps and vectors. It has the steps
//! that the loop must still deliver.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use evcore::{Budgets, Ready, Timer, Token};

pub(crate) struct Idle {
    pub(crate) token: Token,
    /// The beginning of the eighth of the grace in which the connection became idle. The loop
    /// measures idle times in eighths of the grace.
    since_ns: u64,
    /// True while the grace of a shutdown protects the connection, because it became idle just
    /// before the shutdown.
    waits: bool,
}

#[derive(Default)]
pub(crate) struct Expected {
    /// Events of the last wait that are delivered directly.
    pub(crate) batch: HashMap<Token, Ready>,
    /// Readiness that posted steps deliver: posts, events of a turn that holds the accept lock, and
    /// events of a turn that was left early.
    pub(crate) posted: HashMap<Token, Ready>,
    /// Readiness that posted steps deliver in the next turn at the earliest.
    pub(crate) next: HashMap<Token, Ready>,
    /// Posts from outside (from other threads) that no turn has taken in yet.
    pub(crate) outside: VecDeque<(Token, Ready)>,
    /// True if a turn has left posts in `outside`.
    pub(crate) outside_left_over: bool,
    /// The earliest time at which each timer may expire, in nanoseconds of the true time, whatever
    /// the clock shows.
    pub(crate) armed: HashMap<(Token, Timer), u64>,
    /// The idle connections, the longest idle first.
    pub(crate) idle: Vec<Idle>,
    /// The grace of connections that became idle just before a shutdown, in nanoseconds.
    pub(crate) grace_ns: u64,
    /// The beginning of the present eighth of the grace, the unit of idle times.
    pub(crate) eighth_began_ns: Option<u64>,
    /// The end of a shutdown's grace, by the clock that the loop shows.
    pub(crate) grace_ends_ns: Option<u64>,
    /// The connections whose slots are needed, the longest idle first. `None` until this turn has
    /// chosen them.
    pub(crate) chosen: Option<VecDeque<Token>>,
    pub(crate) evictions_left: usize,
    /// True if a listener was reported and has not been tried yet.
    pub(crate) knocked: bool,
    pub(crate) shutdown_from_outside: Option<Duration>,
    /// The end of the shutdown, by the clock that the loop shows.
    pub(crate) over_ns: Option<u64>,
    pub(crate) is_announced: bool,
}

impl Expected {
    pub(crate) fn post(&mut self, token: Token, ready: Ready) {
        let waited = self.next.remove(&token).unwrap_or_default();
        *self.posted.entry(token).or_default() |= ready | waited;
    }

    /// Adds a post from outside. Posts of one token merge. A post of a later generation replaces
    /// the one that waits for its index.
    pub(crate) fn post_from_outside(&mut self, token: Token, ready: Ready) {
        let mut waiting = self.outside.iter_mut();
        match waiting.find(|(other, _)| other.index() == token.index()) {
            None => self.outside.push_back((token, ready)),
            Some((other, merged)) if *other == token => *merged |= ready,
            Some(earlier) if earlier.0.generation() < token.generation() => {
                *earlier = (token, ready);
            }
            Some(_later) => {}
        }
    }

    pub(crate) fn post_next(&mut self, token: Token, ready: Ready) {
        match self.posted.get_mut(&token) {
            Some(posted) => *posted |= ready,
            None => *self.next.entry(token).or_default() |= ready,
        }
    }

    pub(crate) fn post_rest_of_batch(&mut self) {
        for (token, ready) in std::mem::take(&mut self.batch) {
            self.post(token, ready);
        }
    }

    pub(crate) fn begin_turn(&mut self, budgets: Budgets) {
        self.post_rest_of_batch();
        self.posted.extend(self.next.drain());
        self.chosen = None;
        self.evictions_left = budgets.evictions;
    }

    /// Chooses connections to evict if a listener was reported and no slot is free: an eighth of
    /// the idle ones, at least 1 and at most 32. With a free slot, the loop tries to accept, finds
    /// no client, and evicts nothing.
    pub(crate) fn choose(&mut self, free: usize) {
        let wanted = std::mem::take(&mut self.knocked) && free == 0;
        let most = (self.idle.len() / 8).clamp(1, 32);
        let chosen = self.idle.iter().take(if wanted { most } else { 0 });
        self.chosen = Some(chosen.map(|idle| idle.token).collect());
    }

    pub(crate) fn set_idle(&mut self, token: Token, shown_ns: u64) {
        self.set_busy(token);
        let eighth_ns = self.grace_ns.div_ceil(8);
        if self
            .eighth_began_ns
            .is_none_or(|ns| shown_ns >= ns + eighth_ns)
        {
            self.eighth_began_ns = Some(shown_ns);
        }
        self.idle.push(Idle {
            token,
            since_ns: self.eighth_began_ns.expect("just set"),
            waits: false,
        });
    }

    pub(crate) fn set_busy(&mut self, token: Token) {
        self.idle.retain(|idle| idle.token != token);
    }

    pub(crate) fn is_idle(&self, token: Token) -> bool {
        self.idle.iter().any(|idle| idle.token == token)
    }

    /// Ends the grace if its time is over, as the loop does before it accepts.
    pub(crate) fn end_grace(&mut self, shown_ns: u64) {
        if self
            .grace_ends_ns
            .is_some_and(|ends_ns| ends_ns <= shown_ns)
        {
            self.grace_ends_ns = None;
            self.idle.iter_mut().for_each(|idle| idle.waits = false);
        }
    }

    pub(crate) fn name_oldest(&mut self, shown_ns: u64) -> Option<Token> {
        if self.over_ns.is_some() && !self.is_announced {
            return None;
        }
        while self.evictions_left > 0 {
            self.evictions_left -= 1;
            let at = self.idle.iter().position(|idle| !idle.waits)?;
            let token = self.idle[at].token;
            if self.over_ns.is_none() {
                let chosen = self.chosen.as_mut().expect("chosen before");
                while chosen.pop_front()? != token {}
            }
            self.set_busy(token);
            if self.posted.contains_key(&token) || self.next.contains_key(&token) {
                self.set_idle(token, shown_ns);
            } else {
                return Some(token);
            }
        }
        None
    }

    pub(crate) fn shut_down(&mut self, over_ns: u64, now_ns: u64, shown_ns: u64) {
        self.knocked = false;
        if self.over_ns.is_none() && self.grace_ns > 0 {
            let kept_ns = self.grace_ns + self.grace_ns.div_ceil(8);
            for idle in &mut self.idle {
                idle.waits = idle.since_ns + kept_ns > shown_ns;
            }
            // The grace has an end even if no connection stays idle for that long.
            let any_waits = self.idle.iter().any(|idle| idle.waits);
            self.grace_ends_ns = any_waits.then_some(now_ns + self.grace_ns);
        }
        self.over_ns = Some(self.over_ns.map_or(over_ns, |sooner| sooner.min(over_ns)));
    }

    pub(crate) fn close(&mut self, token: Token) {
        self.batch.remove(&token);
        self.posted.remove(&token);
        self.next.remove(&token);
        self.armed.retain(|(owner, _), _| *owner != token);
        self.set_busy(token);
    }

    /// Returns whether the next wait must have a timeout of zero.
    pub(crate) fn is_urgent(&self, shown_ns: u64) -> bool {
        let within = [&self.posted, &self.next, &self.batch];
        let evicts = self.over_ns.is_some() && self.idle.iter().any(|idle| !idle.waits);
        let grace_is_over = self.grace_ends_ns.is_some_and(|ns| ns <= shown_ns);
        evicts
            || grace_is_over
            || self.outside_left_over
            || within.iter().any(|owed| !owed.is_empty())
    }

    pub(crate) fn is_nothing(&self, shown_ns: u64) -> bool {
        let outside = !self.outside.is_empty() || self.shutdown_from_outside.is_some();
        let waits = self.grace_ends_ns.is_some();
        !self.is_urgent(shown_ns) && !outside && !waits && self.armed.is_empty()
    }
}
