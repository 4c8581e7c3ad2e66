//! What every worker is doing, for all of them to see: one cache line a worker in shared memory.
//!
//! Each line has one writer, its worker, whose stores cost no more than stores.
//! Anybody may read at any time. Each number read is one that was written; the numbers of a line
//! may be of two moments, since nothing holds the writer up.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use crate::{
    Line, Snapshot,
    cells::Cells,
    header::{Kind, unfit},
    jain::jain,
    shared::Shared,
};

/// A page of numbers that the workers of a server share, a line a worker.
///
/// A clone is another handle to the same board. It is made before the fork and shared with every
/// process forked from then on; between threads it works as well.
///
/// ```
/// use evcore_balancer::{Board, Snapshot};
///
/// # fn main() -> std::io::Result<()> {
/// let board = Board::shared(2)?; // before the fork
///
/// // In the workers:
/// board.line(0).publish(&Snapshot { active: 3, accepted: 10, ..Snapshot::default() });
/// board.line(1).publish(&Snapshot { active: 1, accepted: 5, ..Snapshot::default() });
///
/// // Anywhere:
/// assert_eq!(board.sum().accepted, 15);
/// assert_eq!(board.jain(), 0.8);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Board {
    lines: Arc<Shared<Cells>>,
}

impl Board {
    /// The most workers that a board has lines for: 4096, which take 256 KiB.
    pub const MAX_WORKERS: usize = 4096;

    /// A board for `workers` workers, from 1 to [`MAX_WORKERS`](Board::MAX_WORKERS); all numbers
    /// are 0.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for no or too many workers; else the operating
    /// system's, if it has no memory to map.
    pub fn shared(workers: usize) -> io::Result<Self> {
        check_workers("board", workers)?;
        Ok(Self {
            lines: Arc::new(Shared::new(workers)?),
        })
    }

    /// A board like a [`shared`](Self::shared) one that a new program can [inherit](Self::inherit)
    /// too, so that its counters go on.
    ///
    /// # Errors
    ///
    /// Those of [`shared`](Self::shared), and [`Unsupported`](io::ErrorKind::Unsupported) where
    /// there are no files in memory (Linux and FreeBSD have them).
    pub fn inheritable(workers: usize) -> io::Result<Self> {
        check_workers("board", workers)?;
        Ok(Self {
            lines: Arc::new(Shared::inheritable(Kind::Board, workers)?),
        })
    }

    /// The board that another program has made [inheritable](Self::inheritable); it has as many
    /// [`workers`](Self::workers) as there.
    ///
    /// While the workers of both programs run, each line still has one writer only: leave those of
    /// the old to them.
    ///
    /// ```
    /// use evcore_balancer::{Board, Snapshot};
    ///
    /// # #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    /// # fn main() -> std::io::Result<()> {
    /// let old = Board::inheritable(4)?;
    /// old.line(0).publish(&Snapshot { accepted: 10, ..Snapshot::default() });
    /// // What the old program passes on: not closed on exec, and its number told.
    /// let passed_on = old.file().expect("it has one").try_clone_to_owned()?;
    ///
    /// // What the new program does with it:
    /// let new = Board::inherit(passed_on)?;
    /// assert_eq!((new.workers(), new.sum().accepted), (4, 10));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidData`](io::ErrorKind::InvalidData) with the reason, if the descriptor is of another
    /// version of this crate, of another size, of something else, or of a file whose size is not
    /// sealed; [`Unsupported`](io::ErrorKind::Unsupported) where there are no such files (Linux and
    /// FreeBSD have them; macOS, NetBSD, OpenBSD and illumos do not); else the operating system's.
    pub fn inherit(file: OwnedFd) -> io::Result<Self> {
        let lines = Shared::inherit(file, Kind::Board)?;
        if lines.len() > Self::MAX_WORKERS {
            return Err(unfit("board", format!("it has {} lines", lines.len())));
        }
        Ok(Self {
            lines: Arc::new(lines),
        })
    }

    /// What to pass on to a new program, if the board is inheritable. It is closed on `exec` unless
    /// you change that.
    #[must_use]
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.lines.file().map(AsFd::as_fd)
    }

    /// The line of worker `index`, for that worker to write to.
    ///
    /// # Panics
    ///
    /// If there is no worker `index`; so do the other methods that take an index.
    #[must_use]
    pub fn line(&self, index: usize) -> Line {
        self.assert_worker(index);
        Line::new(self.clone(), index)
    }

    /// Sets the gauges of worker `index` to 0: active, reading, writing and waiting; and its
    /// heartbeat, so that the line is [nobody's](Snapshot::is_live).
    ///
    /// For the parent, after the worker has ended and before its replacement starts.
    /// The counters stay, so that sums do not go back; the replacement goes on from there with
    /// [`Line::resume`].
    ///
    /// # Panics
    ///
    /// If there is no worker `index`.
    pub fn reset_gauges(&self, index: usize) {
        self.cells(index).reset_gauges();
    }

    /// The numbers of worker `index`.
    ///
    /// # Panics
    ///
    /// If there is no worker `index`.
    #[must_use]
    pub fn snapshot(&self, index: usize) -> Snapshot {
        self.cells(index).load()
    }

    /// The numbers of all workers together, those of ended ones too; `heartbeat` is the smallest of
    /// the [live](Snapshot::is_live) lines, or 0.
    ///
    /// Costs a cache line a worker.
    #[must_use]
    pub fn sum(&self) -> Snapshot {
        self.lines
            .iter()
            .map(Cells::load)
            .reduce(Snapshot::plus)
            .unwrap_or_default()
    }

    /// How evenly the active connections are spread: Jain's fairness index.
    ///
    /// From 1/n, where one of n workers has all, to 1.0, where all have the same number.
    /// 1.0 as well where nobody has any: nothing is spread unevenly.
    /// The workers are those whose lines are [live](Snapshot::is_live), since a board may have
    /// lines for more than there are; where nobody publishes a heartbeat, every line is a worker.
    /// Costs a cache line a line.
    ///
    /// Source: Jain, Chiu, Hawe: *A Quantitative Measure of Fairness and Discrimination for
    /// Resource Allocation in Shared Computer Systems*, DEC-TR-301, 1984.
    #[must_use]
    pub fn jain(&self) -> f64 {
        let lines = || self.lines.iter().map(Cells::load);
        let any_live = lines().any(|line| line.is_live());
        let workers = lines().filter(|line| line.is_live() || !any_live);
        jain(workers.map(|worker| worker.active))
    }

    /// How many workers the board has lines for.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.lines.len()
    }

    pub(crate) fn cells(&self, index: usize) -> &Cells {
        self.assert_worker(index);
        &self.lines[index]
    }

    fn assert_worker(&self, index: usize) {
        assert!(
            index < self.workers(),
            "no worker {index} on a board for {}",
            self.workers()
        );
    }
}

/// Refuses to make what has a line a worker for nobody or for too many.
pub(crate) fn check_workers(what: &str, workers: usize) -> io::Result<()> {
    if (1..=Board::MAX_WORKERS).contains(&workers) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "cannot make a {what} for {workers} workers: from 1 to {} are possible",
            Board::MAX_WORKERS
        ),
    ))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const ONE_OF_EACH: Snapshot = Snapshot {
        active: 1,
        accepted: 2,
        handled: 3,
        requests: 4,
        reading: 5,
        writing: 6,
        waiting: 7,
        heartbeat: 8,
    };

    #[test]
    fn what_a_worker_publishes_is_what_others_read() {
        let board = Board::shared(3).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| board.line(1).publish(&ONE_OF_EACH));
        });
        assert_eq!(board.snapshot(1), ONE_OF_EACH);
        assert_eq!(board.snapshot(0), Snapshot::default());
        assert_eq!(board.snapshot(2), Snapshot::default());
    }

    #[test]
    fn the_sum_adds_all_but_the_heartbeat_which_is_the_oldest() {
        let board = Board::shared(2).unwrap();
        board.line(0).publish(&ONE_OF_EACH);
        board.line(1).publish(&Snapshot {
            heartbeat: 100,
            ..ONE_OF_EACH
        });
        let expected = Snapshot {
            active: 2,
            accepted: 4,
            handled: 6,
            requests: 8,
            reading: 10,
            writing: 12,
            waiting: 14,
            heartbeat: 8,
        };
        assert_eq!(board.sum(), expected);
    }

    #[test]
    fn after_a_crash_gauges_are_zero_and_no_counter_goes_back() {
        let board = Board::shared(2).unwrap();
        board.line(0).publish(&ONE_OF_EACH);
        board.line(1).publish(&ONE_OF_EACH);

        board.reset_gauges(1);

        assert_eq!(board.snapshot(0), ONE_OF_EACH);
        let left = Snapshot {
            accepted: 2,
            handled: 3,
            requests: 4,
            ..Snapshot::default()
        };
        assert_eq!(board.snapshot(1), left);
        assert!(!left.is_live());
    }

    #[test]
    fn the_sums_heartbeat_is_the_oldest_of_live_lines() {
        let board = Board::shared(3).unwrap();
        assert_eq!(board.sum().heartbeat, 0);
        board.line(1).publish(&ONE_OF_EACH);
        assert_eq!(board.sum().heartbeat, 8);
        board.reset_gauges(1);
        assert_eq!(board.sum().heartbeat, 0);
    }

    #[test]
    fn a_line_that_nobody_writes_to_is_nobodys_unfair_share() {
        let board = Board::shared(8).unwrap();
        let publish = |index, active, heartbeat| {
            board.line(index).publish(&Snapshot {
                active,
                heartbeat,
                ..Snapshot::default()
            });
        };
        publish(0, 10, 1);
        publish(5, 10, 1);
        assert_eq!(board.jain(), 1.0);
        publish(6, 0, 1);
        assert!(board.jain() < 0.7, "a worker without connections counts");
        board.reset_gauges(6);
        assert_eq!(board.jain(), 1.0, "until it has ended");
    }

    #[test]
    fn where_nobody_publishes_a_heartbeat_every_line_is_a_worker() {
        let board = Board::shared(4).unwrap();
        board.line(3).publish(&Snapshot {
            heartbeat: 0,
            ..ONE_OF_EACH
        });
        assert_eq!(board.jain(), 0.25);
    }

    #[test]
    fn a_replacement_goes_on_from_the_counters_it_finds() {
        let board = Board::shared(1).unwrap();
        board.line(0).publish(&ONE_OF_EACH);

        let mut replacement = board.line(0);
        let mut mine = replacement.resume();
        assert_eq!(mine.active + mine.reading + mine.writing + mine.waiting, 0);
        mine.accepted += 1;
        replacement.publish(&mine);

        assert_eq!(board.sum().accepted, ONE_OF_EACH.accepted + 1);
    }

    #[test]
    fn a_board_has_from_one_to_4096_lines() {
        assert_eq!(Board::shared(1).unwrap().workers(), 1);
        assert_eq!(Board::shared(4096).unwrap().workers(), 4096);
        for workers in [0, 4097, usize::MAX] {
            let error = Board::shared(workers).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("from 1 to 4096"), "{error}");
        }
    }

    #[test]
    #[should_panic(expected = "no worker 2 on a board for 2")]
    fn a_line_that_is_not_there_cannot_be_had() {
        let _ = Board::shared(2).unwrap().line(2);
    }

    #[test]
    fn no_connections_at_all_are_evenly_spread() {
        assert_eq!(Board::shared(4).unwrap().jain(), 1.0);
    }

    #[test]
    fn one_of_four_having_all_is_a_quarter() {
        let board = Board::shared(4).unwrap();
        for index in 0..3 {
            board.line(index).publish(&Snapshot {
                active: 0,
                ..ONE_OF_EACH
            });
        }
        board.line(3).publish(&ONE_OF_EACH);
        assert_eq!(board.jain(), 0.25);
    }
}
