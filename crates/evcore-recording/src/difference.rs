//! A replay that differs from its recording.

use std::{error, fmt};

use crate::call::{Call, HEAD, HEAD_AT, What};

/// The first call in which a replay differs from its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the turn (iteration of the event loop) in the recording, from 0.
    pub turn: usize,
    /// The number of the call in that turn, from 0.
    pub call: usize,
    /// The call that was recorded.
    pub recorded: Call,
    /// The call of the replay, without a result.
    pub replayed: Call,
    /// The call before the difference, which was the same in both. `None` at the beginning.
    pub after: Option<Call>,
    /// The first turn whose wait another thread has ended by a `Handle` of the loop. `None` if there
    /// was none before the difference.
    pub foreign_wake: Option<usize>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            turn,
            call,
            recorded,
            replayed,
            after,
            ..
        } = self;
        write!(
            f,
            "in turn {turn}, call {call}, the program calls {replayed:?}, and the recording has \
             {recorded:?}"
        )?;
        if self.is_behind_heads() {
            write!(
                f,
                "; the recording keeps the first {HEAD} bytes of each send, which are the same"
            )?;
        }
        after
            .iter()
            .try_for_each(|after| write!(f, "; the call before is {after:?}"))
    }
}

impl error::Error for Difference {}

impl Difference {
    /// Returns whether recording and replay have the same call, perhaps with other bytes.
    fn is_same_call(&self) -> bool {
        let call = |one: &Call| (one.what, one.of);
        call(&self.recorded) == call(&self.replayed)
    }

    /// Returns whether the bytes of a send differ only after those that the recording keeps.
    fn is_behind_heads(&self) -> bool {
        let [recorded, replayed] =
            [&self.recorded, &self.replayed].map(|one| one.bytes.get(HEAD_AT..));
        self.is_same_call()
            && self.recorded.what == What::Send
            && recorded == replayed
            && recorded.is_some_and(|head| head.len() == HEAD)
    }

    /// Advice on how to make the program repeatable.
    #[must_use]
    pub fn advice(&self) -> String {
        if let Some(turn) = self.foreign_wake {
            return format!(
                "another thread used the handle of the loop in turn {turn}, which a recording does \
                 not see: let it use `Outside::handle` or `Outside::pool`"
            );
        }
        let source = match self.is_same_call() {
            true => {
                "the program makes the same call with other bytes, so it has used something that is \
                 not in the recording: a random number, a time or an identifier of its own"
            }
            false => {
                "the program makes another call, so it has chosen by something that is not in the \
                 recording: a random number, the order of a `HashMap`, or a thread"
            }
        };
        format!(
            "{source}. Read it by `Outside::value`, give the map an order, or let the thread use \
             `Outside::pool`. If the program, its options or its files have changed, replay with \
             those of the recording"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Digest;

    fn difference(recorded: &[u8], replayed: &[u8]) -> String {
        let send = |bytes| Call::new(What::Send, 0, 100).with_bytes(Digest::of(bytes).as_bytes());
        let difference = Difference {
            turn: 0,
            call: 0,
            recorded: send(recorded),
            replayed: send(replayed),
            after: None,
            foreign_wake: None,
        };
        difference.to_string()
    }

    #[test]
    fn the_message_says_that_only_later_bytes_differ() {
        let (one, mut two) = ([b'a'; 100], [b'a'; 100]);
        two[32] = b'b';
        let text = difference(&one, &two);
        assert!(
            text.contains("the first 32 bytes of each send, which are the same"),
            "{text}"
        );
        two[31] = b'b';
        for (one, two) in [(&one[..], &two[..]), (b"short", b"other"), (b"ab", b"abc")] {
            let text = difference(one, two);
            assert!(!text.contains("the same"), "{text}");
        }
    }
}
