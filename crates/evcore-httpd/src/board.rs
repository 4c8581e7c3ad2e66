//! The scoreboard of the server: what each worker counts, in memory that all workers share.

use std::io;

use evcore::balancer::Scoreboard;

use crate::figures::Figures;

/// A line for each worker that can live at the same time.
pub type Board = Scoreboard<{ Line::NUMBERS }>;

/// What one worker publishes, or all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// How many connections are open now.
    pub active: u64,
    /// On how many of them a request is being read.
    pub reading: u64,
    /// On how many of them a response is being written.
    pub writing: u64,
    /// How many of them are idle between two requests.
    pub waiting: u64,
    pub figures: Figures,
    /// How many connections were accepted.
    pub accepted: u64,
    /// How many of them were served, and not dropped because a resource was missing.
    pub handled: u64,
    pub requests: u64,
}

impl Line {
    /// The first numbers go back to 0 when the worker dies. The other three stay.
    const GAUGES: usize = 4 + Figures::WORDS;
    pub const NUMBERS: usize = Self::GAUGES + 3;

    /// A scoreboard for this many workers.
    pub fn board(workers: usize) -> io::Result<Board> {
        Scoreboard::new(workers, Self::GAUGES)
    }

    /// The sums over all workers, also over those that have ended. The figures are no sums.
    pub fn sum_of(board: &Board) -> Self {
        let lines = board.iter().map(|(_, numbers)| Self::from_numbers(numbers));
        lines.fold(Self::default(), |sum, line| Self {
            active: sum.active + line.active,
            reading: sum.reading + line.reading,
            writing: sum.writing + line.writing,
            waiting: sum.waiting + line.waiting,
            accepted: sum.accepted + line.accepted,
            handled: sum.handled + line.handled,
            requests: sum.requests + line.requests,
            ..sum
        })
    }

    /// The lines of the workers that live.
    pub fn living(board: &Board) -> impl Iterator<Item = Self> {
        let lines = board.iter().map(|(_, numbers)| Self::from_numbers(numbers));
        lines.filter(|line| line.figures.pid != 0)
    }

    pub fn to_numbers(self) -> [u64; Self::NUMBERS] {
        let mut numbers = [0; Self::NUMBERS];
        let (gauges, counters) = numbers.split_at_mut(Self::GAUGES);
        gauges[..4].copy_from_slice(&[self.active, self.reading, self.writing, self.waiting]);
        gauges[4..].copy_from_slice(&self.figures.to_words());
        counters.copy_from_slice(&[self.accepted, self.handled, self.requests]);
        numbers
    }

    pub fn from_numbers(numbers: [u64; Self::NUMBERS]) -> Self {
        let figures = std::array::from_fn(|at| numbers[4 + at]);
        Self {
            active: numbers[0],
            reading: numbers[1],
            writing: numbers[2],
            waiting: numbers[3],
            figures: Figures::from_words(figures),
            accepted: numbers[Self::GAUGES],
            handled: numbers[Self::GAUGES + 1],
            requests: numbers[Self::GAUGES + 2],
        }
    }
}

/// How evenly something is spread: Jain's fairness index, (Σx)² / (n · Σx²).
///
/// From 1/n, where one of n has all, to 1.0, where all have the same; 1.0 as well where none has
/// any. Source: Jain, Chiu, Hawe: *A Quantitative Measure of Fairness and Discrimination for
/// Resource Allocation in Shared Computer Systems*, DEC-TR-301, 1984.
pub fn jain(shares: impl Iterator<Item = u64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        let share = share as f64;
        n += 1.0;
        sum += share;
        squares += share * share;
    }
    if squares == 0.0 {
        return 1.0;
    }
    // Rounding may end slightly above.
    f64::min(sum * sum / (n * squares), 1.0)
}

#[cfg(test)]
mod tests {
    use evcore::balancer::{Policy, WorkerGroup, WorkerId};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let numbers = std::array::from_fn(|at| at as u64 + 1);
        assert_eq!(Line::from_numbers(numbers).to_numbers(), numbers);
    }

    #[test]
    fn after_a_death_only_the_totals_stay() {
        let board = Line::board(2).expect("a page");
        let group = WorkerGroup::new(Policy::Off, 2).expect("a page");
        let group = group.with_scoreboard(&board);
        let numbers = std::array::from_fn(|at| at as u64 + 1);
        let [one, two] = [0, 1].map(WorkerId::from_slot);
        board.publish(one, &numbers);
        board.publish(two, &numbers);
        group.release_dead(one);
        let line = Line::from_numbers(numbers);
        let left = Line {
            accepted: line.accepted,
            handled: line.handled,
            requests: line.requests,
            ..Line::default()
        };
        assert_eq!(Line::from_numbers(board.read(one)), left);
        assert_eq!(board.read(two), numbers);
        assert_eq!(Line::living(&board).collect::<Vec<_>>(), [line]);
        assert_eq!(Line::sum_of(&board).accepted, 2 * line.accepted);
        assert_eq!(Line::sum_of(&board).active, line.active);
    }

    #[test]
    fn one_of_four_that_has_all_is_a_quarter() {
        assert_eq!(jain([0, 0, 0, 7].into_iter()), 0.25);
        assert_eq!(jain([0; 4].into_iter()), 1.0);
        assert_eq!(jain([].into_iter()), 1.0);
    }

    proptest! {
        #[test]
        fn the_index_is_between_one_nth_and_one(shares in prop::collection::vec(any::<u64>(), 1..20)) {
            let index = jain(shares.iter().copied());
            let least = 1.0 / shares.len() as f64;
            prop_assert!((least - 1e-9..=1.0).contains(&index), "{}", index);
        }

        #[test]
        fn equal_shares_are_fair(share: u64, n in 1_usize..20) {
            prop_assert!(jain(std::iter::repeat_n(share, n)) > 1.0 - 1e-9);
        }
    }
}
