//! How tokens, listeners and the ticker share the poller's key space.
//!
//! The poller is given one id for the ticker, then one for each listener, and the tokens' indices
//! behind them. The keys of those that are no token have the generation 0, which no token has.

use evcore_poller::MAX_ID;
use evcore_token::Token;

/// Whom an event of the poller means.
#[derive(Debug)]
pub(crate) enum Named {
    Token(Token),
    Listener(u32),
    Ticker,
}

/// The names of one loop: they depend on how many listeners it was built with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naming {
    /// How many ids come before the tokens'.
    before: u32,
}

/// The poller's key of the ticker.
pub(crate) const TICKER_KEY: u64 = 0;

/// How many ids come before the listeners'.
const BEFORE_LISTENERS: u32 = 1;

impl Naming {
    pub(crate) fn behind(listeners: usize) -> Self {
        let listeners = u32::try_from(listeners).expect("there are fewer descriptors than that");
        Self {
            before: BEFORE_LISTENERS + listeners,
        }
    }

    /// The highest index that the poller has an id for.
    pub(crate) fn index_max(self) -> u32 {
        MAX_ID.saturating_sub(self.before)
    }

    /// The poller's key of a token whose index is at most [`index_max`](Self::index_max).
    #[inline]
    pub(crate) fn key(self, token: Token) -> u64 {
        token.to_bits() + u64::from(self.before)
    }

    /// Whom a key names. One that was never given out names a token that does not live.
    #[inline]
    pub(crate) fn named(self, key: u64) -> Named {
        match Token::from_bits(key) {
            Some(behind) => {
                let index = behind.index().wrapping_sub(self.before);
                Named::Token(Token::new(index, behind.generation()))
            }
            None if key == TICKER_KEY => Named::Ticker,
            #[expect(clippy::cast_possible_truncation, reason = "the high half is zero")]
            None => Named::Listener(key as u32 - BEFORE_LISTENERS),
        }
    }
}

/// The poller's key of a listener.
pub(crate) fn listener_key(listener: u32) -> u64 {
    u64::from(BEFORE_LISTENERS + listener)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn token(index: u32, generation: u32) -> Token {
        Token::new(index, NonZeroU32::new(generation).expect("not zero"))
    }

    #[test]
    fn a_key_names_whom_it_was_made_from() {
        for (index, generation, listeners) in [(0, 1, 0), (0, 1, 3), (77, u32::MAX, 1)] {
            let (token, naming) = (token(index, generation), Naming::behind(listeners));
            match naming.named(naming.key(token)) {
                Named::Token(found) => assert_eq!(found, token),
                other => panic!("{token} became {other:?}"),
            }
        }
        let naming = Naming::behind(3);
        assert!(matches!(naming.named(listener_key(2)), Named::Listener(2)));
        assert!(matches!(naming.named(TICKER_KEY), Named::Ticker));
    }

    #[test]
    fn a_key_that_was_never_given_out_names_nobody_who_lives() {
        let naming = Naming::behind(3);
        match naming.named((7 << 32) | 2) {
            Named::Token(token) => assert!(token.index() > naming.index_max()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_highest_index_has_the_highest_id() {
        for listeners in [0, 5] {
            let naming = Naming::behind(listeners);
            let key = naming.key(token(naming.index_max(), 1));
            assert_eq!(key & 0xffff_ffff, u64::from(MAX_ID));
        }
    }
}
