//! The scoreboard: numbers that every worker publishes about itself, in shared memory.
//!
//! Each worker has a line of numbers, which it alone writes, by plain stores. Any process may read
//! any line at any time. A reader sees no half-written number, but the numbers of one line may be
//! of different moments, because the writer never waits.
//!
//! `tests/loom_scoreboard.rs` runs this file over loom's atomics.

use std::{
    array, io,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use crate::{
    group::{ReleaseDead, WorkerGroup},
    line::Line,
    notify::Notify,
    shared_memory::SharedSlice,
    sync::AtomicU64,
    worker_id::{WorkerId, check_workers},
};

/// A line of `N` numbers for each worker, which all workers of a server can read.
///
/// Make it before the fork. Every process forked after that shares it, and so do threads. A clone
/// is another handle to the same scoreboard.
///
/// The first numbers of a line are *gauges*, such as the number of open connections. They are set
/// to 0 when the worker has died. The other numbers are *counters*. They stay for the replacement
/// of the worker, which must continue them, so that sums over all workers do not decrease.
///
/// ```
/// use evcore_balancer::{Policy, Scoreboard, WorkerGroup, WorkerId};
///
/// # fn main() -> std::io::Result<()> {
/// // Open connections, and requests since the server started.
/// let scoreboard = Scoreboard::<2>::new(4, 1)?; // before the fork
/// let group = WorkerGroup::new(Policy::Off, 4)?.with_scoreboard(&scoreboard);
///
/// // In the worker of slot 3, once per iteration of its event loop:
/// let me = WorkerId::from_slot(3);
/// let [_, requests] = scoreboard.read(me);
/// scoreboard.publish(me, &[17, requests + 1]);
///
/// // Anywhere:
/// assert_eq!(scoreboard.read(me), [17, 1]);
/// // In the parent, when that worker has died:
/// group.release_dead(me);
/// assert_eq!(scoreboard.read(me), [0, 1]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Scoreboard<const N: usize> {
    board: Arc<Board<N>>,
}

#[derive(Debug)]
struct Board<const N: usize> {
    lines: SharedSlice<Line<N>>,
    gauges: usize,
}

impl<const N: usize> Scoreboard<N> {
    /// Makes a scoreboard for this many workers, from 1 to 4096, with all numbers 0. The first
    /// `gauges` numbers of a line are gauges, the others are counters. `N` must be from 1 to 512,
    /// which the compiler checks.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `workers` is out of range. Otherwise the
    /// error of the operating system, if it has no memory left.
    ///
    /// # Panics
    ///
    /// If there are more gauges than numbers.
    pub fn new(workers: usize, gauges: usize) -> io::Result<Self> {
        const { assert!(N > 0 && N <= 512, "a line has from 1 to 512 numbers") };
        assert!(gauges <= N, "{gauges} gauges in a line of {N} numbers");
        check_workers("scoreboard", workers)?;
        let board = Board {
            lines: SharedSlice::new(workers)?,
            gauges,
        };
        Ok(Self {
            board: Arc::new(board),
        })
    }

    /// Publishes the numbers of this worker, by `N` plain stores.
    ///
    /// Only the worker itself may call this, because two writers would overwrite each other.
    ///
    /// # Panics
    ///
    /// If the scoreboard has no such slot.
    pub fn publish(&self, id: WorkerId, numbers: &[u64; N]) {
        for (word, number) in self.board.words(id).iter().zip(numbers) {
            word.store(*number, Relaxed);
        }
    }

    /// Publishes some numbers of this worker, by one plain store each. Each number comes with its
    /// position in the line.
    ///
    /// Only the worker itself may call this, as for [`publish`](Self::publish).
    ///
    /// # Panics
    ///
    /// If the scoreboard has no such slot, or a position is not below `N`.
    ///
    /// ```
    /// # use evcore_balancer::{Scoreboard, WorkerId};
    /// let scoreboard = Scoreboard::<3>::new(1, 1)?;
    /// let me = WorkerId::from_slot(0);
    /// scoreboard.publish(me, &[1, 2, 3]);
    /// scoreboard.update(me, [(0, 17), (2, 4)]);
    /// assert_eq!(scoreboard.read(me), [17, 2, 4]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn update<const M: usize>(&self, id: WorkerId, numbers: [(usize, u64); M]) {
        let words = self.board.words(id);
        for (at, number) in numbers {
            words[at].store(number, Relaxed);
        }
    }

    /// The numbers that this worker, or its predecessor in the same slot, has published. All are 0
    /// before the first publish.
    ///
    /// # Panics
    ///
    /// If the scoreboard has no such slot.
    #[must_use]
    pub fn read(&self, id: WorkerId) -> [u64; N] {
        let words = self.board.words(id);
        array::from_fn(|at| words[at].load(Relaxed))
    }

    /// The numbers of every slot, including slots without a worker.
    pub fn iter(&self) -> impl Iterator<Item = (WorkerId, [u64; N])> {
        let ids = (0..self.workers()).map(WorkerId::from_slot);
        ids.map(|id| (id, self.read(id)))
    }

    /// Sets the gauges of a dead worker to 0. The parent calls it after the worker has ended and
    /// before its replacement starts. [`WorkerGroup::release_dead`] does the same for each
    /// scoreboard of the group.
    ///
    /// # Panics
    ///
    /// If the scoreboard has no such slot.
    pub fn release_dead(&self, dead: WorkerId) {
        self.board.release_dead(dead);
    }

    /// The number of workers for which the scoreboard has lines.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.board.lines.len()
    }
}

impl<N: Notify> WorkerGroup<N> {
    /// Adds a scoreboard. [`release_dead`](Self::release_dead) then sets the gauges of the dead
    /// worker to 0 on this scoreboard, too. Clones of the group from before this call do not do
    /// that.
    ///
    /// # Panics
    ///
    /// If the scoreboard has lines for fewer workers than the group.
    #[must_use]
    pub fn with_scoreboard<const C: usize>(self, scoreboard: &Scoreboard<C>) -> Self {
        let (lines, workers) = (scoreboard.workers(), self.workers());
        assert!(
            lines >= workers,
            "{lines} lines on a scoreboard for a group of {workers} workers"
        );
        self.also_release(scoreboard.board.clone())
    }
}

impl<const N: usize> Board<N> {
    #[inline]
    fn words(&self, id: WorkerId) -> &[AtomicU64; N] {
        let workers = self.lines.len();
        assert!(
            id.slot() < workers,
            "there is no {id} on a scoreboard for {workers} workers: slots count from 0"
        );
        &self.lines[id.slot()].0
    }
}

impl<const N: usize> ReleaseDead for Board<N> {
    fn release_dead(&self, dead: WorkerId) {
        for gauge in &self.words(dead)[..self.gauges] {
            gauge.store(0, Relaxed);
        }
    }
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use std::thread;

    use super::*;
    use crate::policy::Policy;

    fn id(slot: usize) -> WorkerId {
        WorkerId::from_slot(slot)
    }

    #[test]
    fn all_read_the_numbers_that_a_worker_publishes() {
        let scoreboard = Scoreboard::<9>::new(3, 0).unwrap();
        let numbers = array::from_fn(|at| at as u64 + 1);
        thread::scope(|scope| {
            scope.spawn(|| scoreboard.publish(id(1), &numbers));
        });
        assert_eq!(scoreboard.read(id(1)), numbers);
        let all: Vec<_> = scoreboard.iter().collect();
        assert_eq!(all, [(id(0), [0; 9]), (id(1), numbers), (id(2), [0; 9])]);
    }

    #[test]
    fn an_update_changes_the_named_numbers_of_one_worker() {
        let scoreboard = Scoreboard::<3>::new(2, 0).unwrap();
        for slot in [0, 1] {
            scoreboard.publish(id(slot), &[1, 2, 3]);
        }
        scoreboard.update(id(1), [(2, 7), (0, 5)]);
        assert_eq!(scoreboard.read(id(0)), [1, 2, 3]);
        assert_eq!(scoreboard.read(id(1)), [5, 2, 7]);
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn an_update_beyond_the_line_panics() {
        let scoreboard = Scoreboard::<1>::new(1, 0).unwrap();
        scoreboard.update(id(0), [(1, 7)]);
    }

    #[test]
    fn after_a_death_gauges_are_zero_and_counters_stay() {
        let scoreboard = Scoreboard::<3>::new(2, 2).unwrap();
        let group = WorkerGroup::new(Policy::Off, 2).unwrap();
        let group = group.with_scoreboard(&scoreboard);
        for slot in [0, 1] {
            scoreboard.publish(id(slot), &[1, 2, 3]);
        }
        group.release_dead(id(1));
        assert_eq!(scoreboard.read(id(0)), [1, 2, 3]);
        assert_eq!(scoreboard.read(id(1)), [0, 0, 3]);
    }

    #[test]
    fn a_scoreboard_without_a_group_can_release_a_dead_worker() {
        let scoreboard = Scoreboard::<2>::new(2, 1).unwrap();
        scoreboard.publish(id(0), &[1, 2]);
        scoreboard.publish(id(1), &[1, 2]);
        scoreboard.release_dead(id(1));
        assert_eq!(scoreboard.read(id(0)), [1, 2]);
        assert_eq!(scoreboard.read(id(1)), [0, 2]);
    }

    #[test]
    fn a_group_releases_the_gauges_of_all_its_scoreboards() {
        let (one, two) = (
            Scoreboard::<1>::new(1, 1).unwrap(),
            Scoreboard::<2>::new(4, 1).unwrap(),
        );
        let group = WorkerGroup::new(Policy::Off, 1).unwrap();
        let group = group.with_scoreboard(&one).with_scoreboard(&two);
        one.publish(id(0), &[1]);
        two.publish(id(0), &[2, 3]);
        group.clone().release_dead(id(0));
        assert_eq!((one.read(id(0)), two.read(id(0))), ([0], [0, 3]));
    }

    #[test]
    fn a_scoreboard_is_for_one_to_4096_workers() {
        for workers in [0, 4097, usize::MAX] {
            let error = Scoreboard::<1>::new(workers, 0).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("a scoreboard for"), "{error}");
        }
        assert_eq!(Scoreboard::<1>::new(4096, 1).unwrap().workers(), 4096);
        assert_eq!(Scoreboard::<512>::new(2, 512).unwrap().workers(), 2);
    }

    #[test]
    #[should_panic(expected = "there is no worker 2 on a scoreboard for 2")]
    fn a_slot_beyond_the_scoreboard_panics() {
        let _ = Scoreboard::<1>::new(2, 0).unwrap().read(id(2));
    }

    #[test]
    #[should_panic(expected = "2 gauges in a line of 1 numbers")]
    fn more_gauges_than_numbers_panic() {
        let _ = Scoreboard::<1>::new(2, 2);
    }

    #[test]
    #[should_panic(expected = "1 lines on a scoreboard for a group of 2 workers")]
    fn a_scoreboard_too_small_for_the_group_panics() {
        let scoreboard = Scoreboard::<1>::new(1, 0).unwrap();
        let group = WorkerGroup::new(Policy::Off, 2).unwrap();
        let _ = group.with_scoreboard(&scoreboard);
    }
}
