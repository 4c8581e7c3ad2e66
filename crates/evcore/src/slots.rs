//! The state of each token: whether it is watched, and its posted readiness, which is delivered
//! later in this turn (iteration of the loop) or in the next one.
//!
//! The loop gives out the tokens, so the tokens of two maps of the application do not collide.

use std::{collections::BTreeSet, mem};

use evcore_poller::Ready;
use evcore_posted::TurnQueue;
use evcore_token::{Token, TokenSet};

#[derive(Debug)]
pub(crate) struct Slots {
    tokens: TokenSet,
    // Invariant: one state for each index of `tokens`.
    states: Vec<State>,
    // Invariant: the indices with a post, for this turn or the next. Each index is occupied.
    posted: TurnQueue,
    // Invariant: the number of tokens that are connections.
    connections: u32,
    // Invariant: the indices of all background tokens.
    background: BTreeSet<u32>,
}

// Invariant: the default if the index is vacant.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    kind: Kind,
    /// True if a shutdown does not wait for the token's timers.
    background: bool,
    /// Merged readiness, delivered when the queue reaches this index.
    posted: Ready,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Unwatched,
    Connection,
    /// A descriptor that is not a connection.
    Background,
}

impl Slots {
    /// Makes slots for indices from `first_index` to about `expected`. Higher indices are possible,
    /// up to `index_max`. Allocates nothing yet.
    pub(crate) fn new(first_index: u32, expected: u32, index_max: u32) -> Self {
        Self {
            tokens: TokenSet::new(first_index, expected, index_max),
            states: Vec::new(),
            posted: TurnQueue::default(),
            connections: 0,
            background: BTreeSet::new(),
        }
    }

    /// The token that begins next; `None` if every index is taken.
    pub(crate) fn next_token(&self) -> Option<Token> {
        self.tokens.next()
    }

    /// Begins the [next token](Self::next_token).
    pub(crate) fn begin(&mut self, token: Token, kind: Kind) {
        self.tokens.begin(token);
        let (held, needed) = (self.states.len(), self.tokens.indices());
        if needed > held {
            self.states.reserve_exact(self.tokens.capacity() - held);
            self.states.resize(needed, State::default());
        }
        self.states[token.index() as usize].kind = kind;
        self.connections += u32::from(kind == Kind::Connection);
        if kind == Kind::Background {
            self.set_background(token);
        }
    }

    /// Ends a token's generation, and returns whether the poller watched it; `None` if the token is
    /// stale.
    pub(crate) fn end(&mut self, token: Token) -> Option<bool> {
        let State {
            kind, background, ..
        } = mem::take(self.state_mut(token)?);
        self.tokens.end(token);
        self.posted.cancel(token.index());
        self.connections -= u32::from(kind == Kind::Connection);
        if background {
            self.background.remove(&token.index());
        }
        Some(kind != Kind::Unwatched)
    }

    /// Merges readiness into the post of a token, which is then due in this turn. Returns `false`
    /// if the token is stale.
    #[inline]
    pub(crate) fn post(&mut self, token: Token, ready: Ready) -> bool {
        let Some(state) = self.state_mut(token) else {
            return false;
        };
        state.posted |= ready;
        self.posted.post(token.index());
        true
    }

    /// Merges readiness into the post of a token. A token without a post gets one for the next
    /// turn. Returns `false` if the token is stale.
    #[inline]
    pub(crate) fn post_next(&mut self, token: Token, ready: Ready) -> bool {
        let Some(state) = self.state_mut(token) else {
            return false;
        };
        state.posted |= ready;
        self.posted.post_next(token.index());
        true
    }

    /// Makes the deferred posts due, behind the posts that are due already.
    #[inline(never)]
    pub(crate) fn begin_turn(&mut self) {
        self.posted.begin_turn();
    }

    #[inline]
    pub(crate) fn pop_posted(&mut self) -> Option<(Token, Ready)> {
        let index = self.posted.pop()?;
        let token = self.occupant(index);
        let ready = mem::take(&mut self.states[index as usize].posted);
        Some((token, ready))
    }

    /// Excludes the timers of this token from those that a shutdown waits for. Returns `false` if
    /// the token is stale.
    pub(crate) fn set_background(&mut self, token: Token) -> bool {
        let Some(state) = self.state_mut(token) else {
            return false;
        };
        state.background = true;
        self.background.insert(token.index());
        true
    }

    /// The indices of background tokens, for whose timers a shutdown does not wait.
    pub(crate) fn background(&self) -> impl Iterator<Item = u32> {
        self.background.iter().copied()
    }

    #[inline]
    pub(crate) fn has(&self, token: Token) -> bool {
        self.tokens.contains(token)
    }

    /// The token that has these bits, if it is in use. Any bits are allowed.
    #[inline]
    pub(crate) fn find(&self, bits: u64) -> Option<Token> {
        self.tokens.find(bits)
    }

    #[inline]
    pub(crate) fn watches(&self, token: Token) -> bool {
        self.has(token) && self.states[token.index() as usize].kind != Kind::Unwatched
    }

    /// Panics if the index is vacant. No queue has a vacant index, because ending a token removes
    /// its index from the queues.
    #[inline]
    pub(crate) fn occupant(&self, index: u32) -> Token {
        let token = self.tokens.at(index);
        token.expect("ending a generation clears the queues")
    }

    /// Returns whether an index has a post, for this turn or the next.
    #[inline]
    pub(crate) fn is_posted(&self, index: u32) -> bool {
        self.posted.contains(index)
    }

    /// The number of indices with a post, for this turn or the next.
    #[inline]
    pub(crate) fn posted(&self) -> u32 {
        self.posted.len()
    }

    #[inline]
    pub(crate) fn connections(&self) -> u32 {
        self.connections
    }

    #[inline]
    fn state_mut(&mut self, token: Token) -> Option<&mut State> {
        let is_current = self.has(token);
        is_current.then(|| &mut self.states[token.index() as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots() -> Slots {
        Slots::new(0, 1000, 1 << 20)
    }

    fn begin(slots: &mut Slots, kind: Kind) -> Token {
        let token = slots.next_token().expect("an index is free");
        slots.begin(token, kind);
        token
    }

    #[test]
    fn a_state_takes_four_bytes_and_grows_with_the_tokens() {
        assert_eq!(size_of::<State>(), 4);
        let mut slots = slots();
        for _ in 0..1001 {
            begin(&mut slots, Kind::Unwatched);
        }
        assert_eq!(slots.states.capacity(), slots.tokens.capacity());
    }

    #[test]
    fn a_post_ends_with_the_generation() {
        let mut slots = slots();
        let token = begin(&mut slots, Kind::Unwatched);
        assert!(slots.post(token, Ready::READABLE));
        slots.end(token);
        assert!(slots.posted() == 0);
        begin(&mut slots, Kind::Unwatched);
        assert_eq!(slots.pop_posted(), None);
    }

    #[test]
    fn a_post_for_the_next_turn_ends_with_the_generation() {
        let mut slots = slots();
        let token = begin(&mut slots, Kind::Unwatched);
        assert!(slots.post_next(token, Ready::READABLE));
        assert!(slots.posted() == 1 && slots.pop_posted().is_none());
        slots.end(token);
        assert!(slots.posted() == 0);
        begin(&mut slots, Kind::Unwatched);
        slots.begin_turn();
        assert_eq!(slots.pop_posted(), None);
        assert!(!slots.post_next(token, Ready::READABLE));
    }

    #[test]
    fn only_connections_count() {
        let mut slots = slots();
        let kinds = [Kind::Connection, Kind::Unwatched, Kind::Background];
        let [client, job, mailbox] = kinds.map(|kind| begin(&mut slots, kind));
        assert!(slots.watches(client) && !slots.watches(job) && slots.watches(mailbox));
        assert_eq!(slots.connections(), 1);
        assert_eq!(slots.end(job), Some(false));
        assert_eq!(slots.end(mailbox), Some(true));
        assert_eq!((slots.connections(), slots.background().count()), (1, 0));
        assert_eq!(slots.end(client), Some(true));
        assert_eq!(slots.connections(), 0);
    }
}
