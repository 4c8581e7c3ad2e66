//! What is done to the two ends of a connection, one thing after the other.

use evcore_sim::Rng;

use crate::ends::Family;

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Near,
    Far,
}

/// One thing that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Sends so many bytes.
    Send(Side, usize),
    /// Receives with a buffer of this length.
    Receive(Side, usize),
    FinishWriting(Side),
    TakeError(Side),
    Close(Side),
    /// Closes with a linger time of zero.
    Reset(Side),
    /// Sends until it would block; how much that takes is the kernel's affair.
    Fill(Side),
    /// Receives until it would block or is at the end, with all that is still on its way.
    Empty(Side),
}

impl Act {
    pub(crate) fn side(self) -> Side {
        match self {
            Self::Send(side, _)
            | Self::Receive(side, _)
            | Self::FinishWriting(side)
            | Self::TakeError(side)
            | Self::Close(side)
            | Self::Reset(side)
            | Self::Fill(side)
            | Self::Empty(side) => side,
        }
    }
}

/// Some twenty things, with the rarer ones towards the end.
pub(crate) fn any_course(rng: &mut Rng, family: Family) -> Vec<Act> {
    (0..20).map(|place| any_act(rng, place, family)).collect()
}

fn any_act(rng: &mut Rng, place: u64, family: Family) -> Act {
    let side = if rng.below(2) == 0 {
        Side::Near
    } else {
        Side::Far
    };
    let count = 1 + rng.index(12);
    match rng.below(10 + place / 3) {
        0..=3 => Act::Send(side, count),
        4..=8 => Act::Receive(side, count),
        9 => Act::TakeError(side),
        10..=12 => Act::FinishWriting(side),
        13 | 14 => Act::Close(side),
        // There is no such thing between Unix sockets.
        _ if family == Family::Unix => Act::Close(side),
        _ => Act::Reset(side),
    }
}
