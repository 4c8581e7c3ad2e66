//! The first call in which a replay differs from its recording.

use std::{error, fmt};

use crate::call::Call;

/// The first call in which a replay differs from its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the turn of the recording, from 0.
    pub turn: usize,
    /// The number of the call in that turn, from 0.
    pub call: usize,
    /// The call that was recorded.
    pub recorded: Call,
    /// The call of the replay, without a result.
    pub replayed: Call,
    /// The call before the difference, which was the same in both; `None` at the beginning.
    pub after: Option<Call>,
    /// The first turn that another thread began through the loop's own handle; `None` if there is none.
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
        after
            .iter()
            .try_for_each(|after| write!(f, "; the call before is {after:?}"))
    }
}

impl error::Error for Difference {}

impl Difference {
    /// Advice on how to make the program repeatable.
    #[must_use]
    pub fn advice(&self) -> String {
        if let Some(turn) = self.foreign_wake {
            return format!(
                "another thread used the handle of the loop in turn {turn}, which a recording does \
                 not see: let it use `Outside::handle` or `Outside::pool`"
            );
        }
        let (recorded, replayed) = (&self.recorded, &self.replayed);
        let is_same_call = (recorded.what, recorded.of) == (replayed.what, replayed.of);
        let source = match is_same_call {
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
