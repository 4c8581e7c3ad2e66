//! How tokens, listeners, the notifier and the ticker share the poller's keys.
//!
//! The poller's ids are given out in this order: one for the ticker, one for the notifier, one for
//! each listener, and then the indices of the tokens. The first three kinds have generation 0 in
//! their keys, which no token has.

use evcore_poller::MAX_ID;
use evcore_token::Token;

/// The owner of a key that is not a current token's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyOwner {
    Listener(u32),
    Ticker,
    /// What becomes readable when another worker notifies this one.
    Notifier,
    /// A token that was closed.
    EndedToken,
}

/// The keys of one loop, which depend on the number of its listeners.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpace {
    /// The id of the token with index 0.
    first_token_id: u32,
}

/// The poller's key of the ticker.
pub(crate) const TICKER_KEY: u64 = TICKER_ID as u64;
const TICKER_ID: u32 = 0;

/// The poller's key of the notifier, through which other workers wake this one.
pub(crate) const NOTIFY_KEY: u64 = NOTIFY_ID as u64;
const NOTIFY_ID: u32 = 1;

const FIRST_LISTENER_ID: u32 = 2;

impl KeySpace {
    pub(crate) fn with_listeners(listeners: usize) -> Self {
        let listeners = u32::try_from(listeners).expect("there are fewer descriptors than that");
        Self {
            first_token_id: FIRST_LISTENER_ID + listeners,
        }
    }

    /// The highest index that the poller has an id for.
    pub(crate) fn index_max(self) -> u32 {
        MAX_ID.saturating_sub(self.first_token_id)
    }

    /// The poller's key of a token. A token whose index is above [`index_max`](Self::index_max), which
    /// no loop has made, has a key that is never registered.
    #[inline]
    pub(crate) fn key(self, token: Token) -> u64 {
        // It saturates, because the sum must not wrap around to the key of a listener.
        token
            .to_bits()
            .saturating_add(u64::from(self.first_token_id))
    }

    /// The bits of the token that has this key.
    ///
    /// For a key that no token has, the bits are those of no current token: they have no generation,
    /// or an index above [`index_max`](Self::index_max). So this can be the first look at the key of
    /// each event.
    #[inline]
    pub(crate) fn token_bits(self, key: u64) -> u64 {
        // A key below the first token's wraps around.
        key.wrapping_sub(u64::from(self.first_token_id))
    }

    /// Whether the key is a listener's.
    #[inline]
    pub(crate) fn is_listener(self, key: u64) -> bool {
        (u64::from(FIRST_LISTENER_ID)..u64::from(self.first_token_id)).contains(&key)
    }

    /// The owner of a key that is not a current token's.
    pub(crate) fn owner(key: u64) -> KeyOwner {
        match u32::try_from(key) {
            Ok(TICKER_ID) => KeyOwner::Ticker,
            Ok(NOTIFY_ID) => KeyOwner::Notifier,
            Ok(id) => KeyOwner::Listener(id - FIRST_LISTENER_ID),
            Err(_) => KeyOwner::EndedToken,
        }
    }
}

/// The poller's key of a listener.
pub(crate) fn listener_key(listener: u32) -> u64 {
    u64::from(FIRST_LISTENER_ID + listener)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn token(index: u32, generation: u32) -> Token {
        Token::new(index, NonZeroU32::new(generation).expect("not zero"))
    }

    #[test]
    fn a_key_leads_back_to_its_owner() {
        for (index, generation, listeners) in [(0, 1, 0), (0, 1, 3), (77, u32::MAX, 1)] {
            let (token, keys) = (
                token(index, generation),
                KeySpace::with_listeners(listeners),
            );
            let key = keys.key(token);
            assert_eq!(keys.token_bits(key), token.to_bits());
            assert_eq!(KeySpace::owner(key), KeyOwner::EndedToken);
        }
        assert_eq!(KeySpace::owner(listener_key(2)), KeyOwner::Listener(2));
        let keys = KeySpace::with_listeners(3);
        let listeners = (0..9).filter(|key| keys.is_listener(*key));
        assert!(listeners.eq((0..3).map(listener_key)));
        assert_eq!(KeySpace::owner(TICKER_KEY), KeyOwner::Ticker);
        assert_eq!(KeySpace::owner(NOTIFY_KEY), KeyOwner::Notifier);
    }

    #[test]
    fn a_key_without_a_token_has_the_bits_of_no_current_token() {
        let keys = KeySpace::with_listeners(3);
        let without_token = (0..=4).chain([(1 << 32) | 2, (7 << 32) | 2]);
        for key in without_token {
            let token = Token::from_bits(keys.token_bits(key));
            let cannot_be_current = token.is_none_or(|token| token.index() > keys.index_max());
            assert!(cannot_be_current, "{key:#x} is {token:?}");
        }
    }

    #[test]
    fn no_token_has_the_key_of_a_listener() {
        let keys = KeySpace::with_listeners(3);
        for (index, generation) in [
            (u32::MAX, u32::MAX),
            (u32::MAX - 2, u32::MAX),
            (u32::MAX, 1),
        ] {
            let key = keys.key(token(index, generation));
            assert_eq!(KeySpace::owner(key), KeyOwner::EndedToken);
        }
    }

    #[test]
    fn the_highest_index_has_the_highest_id() {
        for listeners in [0, 5] {
            let keys = KeySpace::with_listeners(listeners);
            let key = keys.key(token(keys.index_max(), 1));
            assert_eq!(key & 0xffff_ffff, u64::from(MAX_ID));
        }
    }
}
