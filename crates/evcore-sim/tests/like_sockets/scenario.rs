//! Operations on the two endpoints of a connection.

use evcore_sim::Rng;

use crate::endpoints::Family;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Near,
    Far,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Sends this many bytes.
    Send(Side, usize),
    /// Receives with a buffer of this length.
    Recv(Side, usize),
    ShutdownWrite(Side),
    TakeError(Side),
    Close(Side),
    /// Closes with a linger time of zero.
    Reset(Side),
    /// Sends until a call would block. The number of bytes depends on the kernel.
    Fill(Side),
    /// Receives all bytes, also those in flight, until a call would block or the stream ends.
    Drain(Side),
}

impl Op {
    pub(crate) fn side(self) -> Side {
        match self {
            Self::Send(side, _)
            | Self::Recv(side, _)
            | Self::ShutdownWrite(side)
            | Self::TakeError(side)
            | Self::Close(side)
            | Self::Reset(side)
            | Self::Fill(side)
            | Self::Drain(side) => side,
        }
    }
}

/// Twenty random operations. An operation that ends a stream can come only after the first three,
/// and becomes more likely towards the end.
pub(crate) fn random_scenario(rng: &mut Rng, family: Family) -> Vec<Op> {
    (0..20).map(|index| random_op(rng, index, family)).collect()
}

fn random_op(rng: &mut Rng, index: u64, family: Family) -> Op {
    let side = if rng.below(2) == 0 {
        Side::Near
    } else {
        Side::Far
    };
    let count = 1 + rng.index(12);
    match rng.below(10 + index / 3) {
        0..=3 => Op::Send(side, count),
        4..=8 => Op::Recv(side, count),
        9 => Op::TakeError(side),
        10..=12 => Op::ShutdownWrite(side),
        13 | 14 => Op::Close(side),
        // Unix sockets have no reset.
        _ if family == Family::Unix => Op::Close(side),
        _ => Op::Reset(side),
    }
}
