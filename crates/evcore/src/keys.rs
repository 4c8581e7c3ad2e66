//! The keys under which a loop registers its sources with the poller. An event carries a key, which
//! leads to the key's owner: a token, a listener, the notifier, or the ticker that updates the
//! clock at intervals.
//!
//! A token's key is its bits. The other keys have zeros in place of a generation, and no token has
//! the generation zero. The poller's ids are given out in this order: one for the ticker, one for
//! the notifier, one for each listener, and then the indices of the tokens.

use evcore_token::Token;

/// The owner of a key that is not a current token's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyOwner {
    Listener(u32),
    Ticker,
    /// The descriptor that becomes readable when another worker notifies this one.
    Notifier,
    Ended(Token),
}

pub(crate) const TICKER_KEY: u64 = 0;

pub(crate) const NOTIFY_KEY: u64 = 1;

const FIRST_LISTENER_ID: u32 = 2;

/// The index of the first token of a loop with this many listeners.
pub(crate) fn first_index(listeners: usize) -> u32 {
    let listeners = u32::try_from(listeners).expect("there are fewer descriptors than that");
    FIRST_LISTENER_ID + listeners
}

pub(crate) fn listener_key(listener: u32) -> u64 {
    u64::from(FIRST_LISTENER_ID + listener)
}

#[inline]
pub(crate) fn is_listener(key: u64) -> bool {
    matches!(KeyOwner::of(key), KeyOwner::Listener(_))
}

impl KeyOwner {
    pub(crate) fn of(key: u64) -> Self {
        match Token::from_bits(key) {
            Some(token) => Self::Ended(token),
            None if key == TICKER_KEY => Self::Ticker,
            None if key == NOTIFY_KEY => Self::Notifier,
            #[expect(clippy::cast_possible_truncation, reason = "it has no generation")]
            None => Self::Listener(key as u32 - FIRST_LISTENER_ID),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn a_key_leads_back_to_its_owner() {
        for (index, generation) in [(0, 1), (77, u32::MAX), (u32::MAX, 1)] {
            let generation = NonZeroU32::new(generation).expect("not zero");
            let token = Token::new(index, generation);
            assert_eq!(KeyOwner::of(token.to_bits()), KeyOwner::Ended(token));
        }
        assert_eq!(KeyOwner::of(TICKER_KEY), KeyOwner::Ticker);
        assert_eq!(KeyOwner::of(NOTIFY_KEY), KeyOwner::Notifier);
        for listener in [0, 2, 1000] {
            let owner = KeyOwner::of(listener_key(listener));
            assert_eq!(owner, KeyOwner::Listener(listener));
        }
    }

    #[test]
    fn tokens_begin_behind_the_listeners() {
        for listeners in 0..3_u32 {
            let first = u64::from(first_index(listeners as usize));
            assert_eq!(first, listener_key(listeners));
            let are_listeners = (0..first).filter(|key| is_listener(*key));
            assert!(are_listeners.eq((0..listeners).map(listener_key)));
        }
        assert!(!is_listener(1 << 32));
    }
}
