//! A worker's own line of a board: what it writes to, and what it goes on from.

use crate::{Board, Snapshot};

/// A worker's own line of a [`Board`].
///
/// Only one worker may write to a line: two would overwrite each other's numbers.
///
/// ```
/// use evcore_balancer::Board;
///
/// # fn main() -> std::io::Result<()> {
/// let board = Board::shared(4)?;
///
/// let mut line = board.line(2);
/// let mut mine = line.resume();
/// mine.accepted += 1;
/// mine.active += 1;
/// line.publish(&mine); // once a turn
///
/// assert_eq!(board.snapshot(2).accepted, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Line {
    board: Board,
    index: usize,
}

impl Line {
    /// Of a worker that the board has a line for.
    pub(crate) fn new(board: Board, index: usize) -> Self {
        Self { board, index }
    }

    /// Shows `snapshot` to all. Eight plain stores.
    pub fn publish(&mut self, snapshot: &Snapshot) {
        self.board.cells(self.index).store(snapshot);
    }

    /// What a worker starts from: the counters that its predecessor left, and no connections.
    ///
    /// On a line that nobody has written to yet, all 0.
    #[must_use]
    pub fn resume(&self) -> Snapshot {
        Snapshot {
            active: 0,
            reading: 0,
            writing: 0,
            waiting: 0,
            heartbeat: 0,
            ..self.board.snapshot(self.index)
        }
    }
}
