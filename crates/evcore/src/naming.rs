//! How tokens, listeners, the notifier and the ticker share the poller's key space.
//!
//! The poller is given one id for the ticker, one for the notifier, then one for each listener, and the
//! tokens' indices behind them. The keys of those that are no token have the generation 0, which no
//! token has.

use evcore_poller::MAX_ID;
use evcore_token::Token;

/// Whom an event of the poller means, if not a token that lives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Other {
    Listener(u32),
    Ticker,
    /// Another worker has notified this one.
    Notification,
    /// A token that was closed.
    Gone,
}

/// The names of one loop: they depend on how many listeners it was built with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naming {
    /// How many ids come before the tokens'.
    before: u32,
}

/// The poller's key of the ticker.
pub(crate) const TICKER_KEY: u64 = TICKER_ID as u64;
const TICKER_ID: u32 = 0;

/// The poller's key of the notifier, by which other workers wake this one.
pub(crate) const NOTIFY_KEY: u64 = NOTIFY_ID as u64;
const NOTIFY_ID: u32 = 1;

/// How many ids come before the listeners'.
const BEFORE_LISTENERS: u32 = 2;

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

    /// The bits of a key's token. Of a key that is no token's: such as are no token's either, or of
    /// one whose index is above [`index_max`](Self::index_max), so that it does not live.
    ///
    /// For each event, before anything else is asked of its key.
    #[inline]
    pub(crate) fn bits(self, key: u64) -> u64 {
        // What is less than the first token's key wraps around.
        key.wrapping_sub(u64::from(self.before))
    }

    /// Whom a key names that is not the key of a token that lives.
    pub(crate) fn other(key: u64) -> Other {
        match u32::try_from(key) {
            Ok(TICKER_ID) => Other::Ticker,
            Ok(NOTIFY_ID) => Other::Notification,
            Ok(id) => Other::Listener(id - BEFORE_LISTENERS),
            Err(_) => Other::Gone,
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
            let key = naming.key(token);
            assert_eq!(naming.bits(key), token.to_bits());
            assert_eq!(Naming::other(key), Other::Gone, "should it not live");
        }
        assert_eq!(Naming::other(listener_key(2)), Other::Listener(2));
        assert_eq!(Naming::other(TICKER_KEY), Other::Ticker);
        assert_eq!(Naming::other(NOTIFY_KEY), Other::Notification);
    }

    #[test]
    fn a_key_that_is_no_tokens_or_was_never_given_out_is_of_none_that_can_live() {
        let naming = Naming::behind(3);
        let no_tokens = (0..=4).chain([(1 << 32) | 2, (7 << 32) | 2]);
        for key in no_tokens {
            let token = Token::from_bits(naming.bits(key));
            let cannot_live = token.is_none_or(|token| token.index() > naming.index_max());
            assert!(cannot_live, "{key:#x} is {token:?}");
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
