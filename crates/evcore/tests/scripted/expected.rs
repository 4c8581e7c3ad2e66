//! What a loop owes its user: the oracle of the random programs, by plain maps and vectors.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use evcore::{Budgets, Ready, Timer, Token};

/// What the loop owes, written as plainly as can be.
#[derive(Default)]
pub(crate) struct Expected {
    /// Reported by the last wait, to be delivered directly.
    pub(crate) batch: HashMap<Token, Ready>,
    /// To be delivered as posted: reported under the lock, left over, or posted by the user.
    pub(crate) posted: HashMap<Token, Ready>,
    /// To be delivered as posted, in the next turn at the earliest.
    pub(crate) next: HashMap<Token, Ready>,
    /// Posted from outside, and not yet taken in.
    pub(crate) outside: VecDeque<(Token, Ready)>,
    /// Whether some of it was left there by a turn.
    pub(crate) outside_left_over: bool,
    /// When each timer may fire, in nanoseconds of the true time, whatever the clock shows.
    pub(crate) armed: HashMap<(Token, Timer), u64>,
    /// The longest idle first.
    pub(crate) idle: Vec<Token>,
    /// Whose places are wanted, the oldest first, once that was decided in this turn.
    pub(crate) chosen: Option<VecDeque<Token>>,
    /// How many more of the idle may be named in this turn.
    pub(crate) evictions_left: usize,
    /// A listener was reported, and not yet looked at.
    pub(crate) knocked: bool,
    pub(crate) shutdown_from_outside: Option<Duration>,
    /// When the shutdown is over, by the clock that the loop shows.
    pub(crate) over_ns: Option<u64>,
}

impl Expected {
    pub(crate) fn post(&mut self, token: Token, ready: Ready) {
        let waited = self.next.remove(&token).unwrap_or_default();
        *self.posted.entry(token).or_default() |= ready | waited;
    }

    pub(crate) fn post_next(&mut self, token: Token, ready: Ready) {
        match self.posted.get_mut(&token) {
            Some(posted) => *posted |= ready,
            None => *self.next.entry(token).or_default() |= ready,
        }
    }

    pub(crate) fn cancel(&mut self, token: Token) -> Ready {
        let owed = self.posted.remove(&token);
        owed.or_else(|| self.next.remove(&token))
            .unwrap_or_default()
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

    /// nginx's rule, with `free` of `capacity` places left.
    pub(crate) fn choose(&mut self, free: usize, capacity: usize) {
        let wanted = std::mem::take(&mut self.knocked) && free <= capacity / 16;
        let most = (self.idle.len() / 8).clamp(1, 32);
        let chosen = self.idle.iter().take(if wanted { most } else { 0 });
        self.chosen = Some(chosen.copied().collect());
    }

    /// The next connection to be evicted, when the turn is at its evictions.
    pub(crate) fn name_oldest(&mut self) -> Option<Token> {
        while self.evictions_left > 0 {
            self.evictions_left -= 1;
            let oldest = *self.idle.first()?;
            if self.over_ns.is_none() {
                let chosen = self.chosen.as_mut().expect("chosen before");
                while chosen.pop_front()? != oldest {}
            }
            self.idle.remove(0);
            if self.posted.contains_key(&oldest) || self.next.contains_key(&oldest) {
                self.idle.push(oldest);
            } else {
                return Some(oldest);
            }
        }
        None
    }

    pub(crate) fn shut_down(&mut self, over_ns: u64) {
        self.knocked = false;
        self.over_ns = Some(self.over_ns.map_or(over_ns, |sooner| sooner.min(over_ns)));
    }

    pub(crate) fn close(&mut self, token: Token) {
        self.batch.remove(&token);
        self.cancel(token);
        self.armed.retain(|(owner, _), _| *owner != token);
        self.idle.retain(|idle| *idle != token);
    }

    /// Whether the next wait must not wait.
    pub(crate) fn is_urgent(&self) -> bool {
        let within = [&self.posted, &self.next, &self.batch];
        let closings = self.over_ns.is_some() && !self.idle.is_empty();
        closings || self.outside_left_over || within.iter().any(|owed| !owed.is_empty())
    }

    pub(crate) fn is_nothing(&self) -> bool {
        let outside = !self.outside.is_empty() || self.shutdown_from_outside.is_some();
        !self.is_urgent() && !outside && self.armed.is_empty()
    }
}
