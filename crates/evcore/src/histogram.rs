//! How values are spread, in memory that is fixed from the start.
//!
//! Counts of ranges whose width grows with the value, so that the error is the same share of it
//! everywhere: the layout of Gil Tene's HDR histogram. Every turn records into some, so to record is
//! a shift and two additions, and what is asked seldom is worked out when it is asked.
//!
//! Deliberately absent: merging, and formats for files. What is wanted of it is read here, and sent
//! on as numbers.

use std::fmt;

/// How many values there were, and how they were spread.
///
/// A value counts within a range of its neighbours: below 256 each has a range of its own, above
/// that a range is less than 1 % of its values wide. What is told of a range is its highest value (of
/// the least value's, its lowest), so no figure is off by 1 %. A value above [`limit`](Self::limit) counts as
/// that: it is not lost, though it looks smaller than it was.
///
/// Its memory is allocated with the loop and never grows.
///
/// ```
/// # use evcore::EventLoop;
/// let mut ev = EventLoop::builder().build()?;
/// ev.handle().wake();
/// ev.wait()?;
/// let events = ev.histograms().events();
/// assert_eq!((events.count(), events.max()), (1, 0));
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone)]
pub struct Histogram {
    /// How many values each range had.
    // Invariant: one for each range up to that of the limit.
    counts: Box<[u64]>,
    // Invariant: the sum of the counts.
    count: u64,
    limit: u64,
}

/// Half of the values that have a range of their own; and how many ranges each power of two above
/// them has, so that each is below a hundredth of its values.
const STEPS: usize = 128;

impl Histogram {
    /// Of values to a limit, which is below 2^63.
    ///
    /// Takes 1,024 bytes for each power of two from 2^7 up to the limit.
    pub(crate) fn up_to(limit: u64) -> Self {
        Self {
            counts: vec![0; range_of(limit) + 1].into_boxed_slice(),
            count: 0,
            limit,
        }
    }

    /// Counts a value, or the limit if it is above that. Costs some 15 instructions.
    #[inline]
    pub(crate) fn record(&mut self, value: u64) {
        self.counts[range_of(value.min(self.limit))] += 1;
        self.count += 1;
    }

    /// Forgets all values.
    pub(crate) fn clear(&mut self) {
        self.counts.fill(0);
        self.count = 0;
    }

    /// How many counts are kept.
    #[cfg(test)]
    pub(crate) fn ranges(&self) -> usize {
        self.counts.len()
    }

    /// How many values there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The least value; 0 if there was none.
    ///
    /// Goes through the ranges up to the answer.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.used().next().map_or(0, |(range, _)| lowest_of(range))
    }

    /// The greatest value; 0 if there was none.
    ///
    /// Goes through the ranges down to the answer.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.used()
            .next_back()
            .map_or(0, |(range, _)| self.told_of(range))
    }

    /// The mean, in which each value counts as the middle of its range; 0 if there was none.
    ///
    /// Goes through all ranges.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let sum: f64 = self
            .used()
            .map(|(range, count)| as_f64(count) * as_f64(middle_of(range)))
            .sum();
        sum / as_f64(self.count.max(1))
    }

    /// The least value that a share of all were at or below: of 0.99, what a hundredth of them were
    /// above at most. 0 if there was none.
    ///
    /// `share` is from 0 to 1; what is outside counts as the nearer of them. Goes through the ranges
    /// up to the answer.
    ///
    /// ```
    /// # let mut ev = evcore::EventLoop::builder().build()?;
    /// # ev.handle().wake();
    /// # ev.wait()?;
    /// let turns = ev.histograms().turn_ns();
    /// println!("half of the turns took {} ns at most", turns.quantile(0.5));
    /// println!("all but a thousandth took {} ns at most", turns.quantile(0.999));
    /// assert!(turns.quantile(0.5) <= turns.max());
    /// # Ok::<(), evcore::Error>(())
    /// ```
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = share.clamp(0.0, 1.0) * as_f64(self.count);
        let mut seen = 0;
        let reached = self.used().find(|(_, count)| {
            seen += count;
            as_f64(seen) >= wanted
        });
        reached.map_or(0, |(range, _)| self.told_of(range))
    }

    /// How many values were at or below this one, all of its range included: a bucket as monitoring
    /// systems count them.
    ///
    /// Goes through the ranges up to the value.
    #[must_use]
    pub fn count_at_most(&self, value: u64) -> u64 {
        let range = range_of(value.min(self.limit));
        self.counts[..=range].iter().sum()
    }

    /// The greatest value that is told from those above it.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The ranges that had any values, and how many.
    fn used(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        let counts = self.counts.iter().copied().enumerate();
        counts.filter(|(_, count)| *count > 0)
    }

    /// What is told of a range: its highest value.
    fn told_of(&self, range: usize) -> u64 {
        (lowest_of(range + 1) - 1).min(self.limit)
    }
}

/// The range that a value counts within.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "below 256 once it is shifted"
)]
fn range_of(value: u64) -> usize {
    let own = 2 * STEPS as u64 - 1;
    // As far as it takes for the values of a power of two to have as many ranges as steps.
    let shift = (value | own).ilog2() - own.ilog2();
    shift as usize * STEPS + (value >> shift) as usize
}

/// The lowest value of a range.
fn lowest_of(range: usize) -> u64 {
    let shift = (range / STEPS).saturating_sub(1);
    ((range - shift * STEPS) as u64) << shift
}

fn middle_of(range: usize) -> u64 {
    lowest_of(range).midpoint(lowest_of(range + 1))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a share of a number needs fewer digits"
)]
fn as_f64(number: u64) -> f64 {
    number as f64
}

/// The figures that are asked for most, not every range.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("min", &self.min())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: u64 = (1 << 20) - 1;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::up_to(LIMIT);
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    }

    #[test]
    fn of_no_values_every_figure_is_zero() {
        let none = of(&[]);
        assert_eq!((none.count(), none.min(), none.max()), (0, 0, 0));
        assert_eq!((none.quantile(0.5), none.count_at_most(LIMIT)), (0, 0));
        assert!(none.mean().abs() < f64::EPSILON);
    }

    #[test]
    fn ranges_follow_each_other_and_are_below_a_hundredth_of_their_values() {
        let mut next = 0;
        for range in 0..=range_of(LIMIT) {
            let (low, end) = (lowest_of(range), lowest_of(range + 1));
            assert_eq!(
                (low, range_of(low), range_of(end - 1)),
                (next, range, range)
            );
            assert!(end - low == 1 || (end - low) * 100 < low, "{low} to {end}");
            next = end;
        }
    }

    #[test]
    fn the_mean_takes_each_value_as_the_middle_of_its_range() {
        let histogram = of(&[0, 1, 5, 1024]);
        // A range of eight, from 1,024 on.
        assert!((histogram.mean() - (0.0 + 1.0 + 5.0 + 1028.0) / 4.0).abs() < 1e-9);
    }

    #[test]
    fn small_values_are_exact() {
        let histogram = of(&[0, 1, 2, 3, 255]);
        assert_eq!((histogram.min(), histogram.max()), (0, 255));
        assert_eq!(histogram.quantile(0.6), 2);
        assert_eq!(histogram.count_at_most(2), 3);
    }

    #[test]
    fn a_value_above_the_limit_counts_as_the_limit() {
        let histogram = of(&[LIMIT + 1, u64::MAX]);
        assert_eq!((histogram.count(), histogram.max()), (2, LIMIT));
        assert_eq!((histogram.limit(), histogram.quantile(1.0)), (LIMIT, LIMIT));
        assert_eq!(histogram.count_at_most(u64::MAX), 2);
    }

    #[test]
    fn what_was_cleared_is_as_it_was_made() {
        let mut histogram = of(&[7, 70_000]);
        histogram.clear();
        histogram.record(9);
        assert_eq!(
            (histogram.count(), histogram.min(), histogram.max()),
            (1, 9, 9)
        );
    }

    #[test]
    fn a_share_outside_its_range_is_the_nearer_end() {
        let histogram = of(&[5, 6, 7]);
        assert_eq!((histogram.quantile(-1.0), histogram.quantile(2.0)), (5, 7));
    }

    /// The value at a share of a sorted list, by the definition.
    fn exact(sorted: &[u64], share: f64) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "a list of some hundreds")]
        let reached = |index: usize| (index + 1) as f64 >= share * sorted.len() as f64;
        let index = (0..sorted.len()).find(|index| reached(*index));
        sorted[index.unwrap_or(sorted.len() - 1)]
    }

    proptest! {
        #[test]
        fn figures_are_those_of_a_sorted_list_or_less_than_a_hundredth_above(
            mut values in prop::collection::vec(0..=LIMIT, 1..300),
            share in 0.0..=1.0,
        ) {
            let histogram = of(&values);
            values.sort_unstable();
            let (least, most) = (values[0], values[values.len() - 1]);
            prop_assert_eq!(histogram.count(), values.len() as u64);
            for (exact, told) in [
                (most, histogram.max()),
                (exact(&values, share), histogram.quantile(share)),
            ] {
                prop_assert!(exact <= told && told - exact <= exact / 100, "{} {}", exact, told);
            }
            prop_assert!(histogram.min() <= least && least - histogram.min() <= least / 100);
            let at_most = values.iter().filter(|value| **value <= share_of(most, share)).count();
            prop_assert!(histogram.count_at_most(share_of(most, share)) >= at_most as u64);
        }
    }

    /// Some value up to the greatest.
    fn share_of(most: u64, share: f64) -> u64 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "below 2^20, and not negative"
        )]
        let value = (most as f64 * share) as u64;
        value
    }
}
