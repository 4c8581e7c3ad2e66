//! A histogram of fixed size. It wraps an HDR histogram, whose buckets are wider for greater
//! values, so that the relative error is bounded.
//!
//! Deliberately absent: merging, and file formats.

use std::fmt;

/// A distribution of values, in memory that never grows.
///
/// Values are counted in buckets. Below 256 each value has a bucket of its own; above that a bucket
/// is narrower than 1 % of its values. A result is within 1 % of the true value: a quantile and the
/// maximum are the upper bound of a bucket, and the minimum is a lower bound. A value above
/// [`limit`](Self::limit) counts as the limit.
///
/// ```
/// use evcore_instrument::Histogram;
///
/// let mut response_ms = Histogram::up_to(60_000);
/// [3, 5, 40].into_iter().for_each(|ms| response_ms.record(ms));
/// assert_eq!((response_ms.count(), response_ms.max()), (3, 40));
/// ```
#[derive(Clone)]
pub struct Histogram {
    // Invariant: tracks values from 1 to the limit, and is never resized.
    counts: hdrhistogram::Histogram<u64>,
}

/// Number of decimal digits that a value keeps.
const DIGITS: u8 = 2;

impl Histogram {
    /// Creates an empty histogram for values up to `limit`; a limit below 2 counts as 2.
    ///
    /// It takes 2,048 bytes, and 1,024 more for each power of two from 2^8 up to the limit.
    #[must_use]
    pub fn up_to(limit: u64) -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, limit.max(2), DIGITS);
        Self {
            counts: counts.expect("the limit is at least 2"),
        }
    }

    /// Counts a value, or the limit if the value is above it. Costs some 60 instructions.
    #[inline]
    pub fn record(&mut self, value: u64) {
        // hdrhistogram limits a value only to the end of its array, which may be above the limit.
        self.counts.saturating_record(value.min(self.limit()));
    }

    /// Counts `times` occurrences of a value; 0 changes nothing.
    pub fn record_n(&mut self, value: u64, times: u64) {
        if times > 0 {
            self.counts
                .saturating_record_n(value.min(self.limit()), times);
        }
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.counts.reset();
    }

    #[cfg(test)]
    pub(crate) fn ranges(&self) -> usize {
        self.counts.distinct_values()
    }

    /// The number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// The smallest value; 0 without values.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.counts.min()
    }

    /// The largest value; 0 without values.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.counts.max().min(self.limit())
    }

    /// The mean, where each value counts as the middle of its bucket; 0 without values.
    ///
    /// Reads all buckets.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.counts.mean()
    }

    /// The smallest value that at least a fraction `q` of all values does not exceed; 0 without
    /// values.
    ///
    /// `q` is clamped to 0..=1. Reads the buckets up to the result.
    ///
    /// ```
    /// # use evcore_instrument::Histogram;
    /// let mut turn_ns = Histogram::up_to(1_000_000);
    /// (1..=1_000).for_each(|ns| turn_ns.record(ns));
    /// println!("half of the turns took {} ns at most", turn_ns.quantile(0.5));
    /// println!("all but a thousandth took {} ns at most", turn_ns.quantile(0.999));
    /// assert!((500..=505).contains(&turn_ns.quantile(0.5)));
    /// ```
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        let quantile = self.counts.value_at_quantile(q.clamp(0.0, 1.0));
        quantile.min(self.limit())
    }

    /// The number of values up to the end of the bucket of `value`, as the cumulative buckets of
    /// monitoring systems count them.
    ///
    /// Reads the buckets up to the value.
    #[must_use]
    pub fn count_at_most(&self, value: u64) -> u64 {
        self.counts.count_between(0, value.min(self.limit()))
    }

    /// The limit: a value above it counts as the limit.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.counts.high()
    }
}

/// Prints the usual figures, not every bucket.
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
    fn without_values_every_figure_is_zero() {
        let none = of(&[]);
        assert_eq!((none.count(), none.min(), none.max()), (0, 0, 0));
        assert_eq!((none.quantile(0.5), none.count_at_most(LIMIT)), (0, 0));
        assert!(none.mean().abs() < f64::EPSILON);
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
    fn a_value_above_a_limit_that_is_not_a_power_of_two_counts_as_the_limit() {
        let mut histogram = Histogram::up_to(60_000);
        histogram.record(65_000);
        histogram.record_n(u64::MAX, 2);
        assert_eq!((histogram.count(), histogram.max()), (3, 60_000));
        assert!((59_000..=60_000).contains(&histogram.min()));
        assert_eq!(histogram.count_at_most(u64::MAX), 3);
    }

    #[test]
    fn a_cleared_histogram_is_like_a_new_one() {
        let mut histogram = of(&[7, 70_000]);
        histogram.clear();
        histogram.record(9);
        assert_eq!(
            (histogram.count(), histogram.min(), histogram.max()),
            (1, 9, 9)
        );
    }

    #[test]
    fn a_quantile_outside_0_to_1_is_clamped() {
        let histogram = of(&[5, 6, 7]);
        assert_eq!((histogram.quantile(-1.0), histogram.quantile(2.0)), (5, 7));
    }

    fn exact(sorted: &[u64], share: f64) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "a list of some hundreds")]
        let reached = |index: usize| (index + 1) as f64 >= share * sorted.len() as f64;
        let index = (0..sorted.len()).find(|index| reached(*index));
        sorted[index.unwrap_or(sorted.len() - 1)]
    }

    proptest! {
        #[test]
        fn figures_are_within_1_percent_of_a_sorted_list(
            mut values in prop::collection::vec(0..=LIMIT, 1..300),
            share in 0.0..=1.0,
        ) {
            let histogram = of(&values);
            values.sort_unstable();
            let (least, most) = (values[0], values[values.len() - 1]);
            prop_assert_eq!(histogram.count(), values.len() as u64);
            for (exact, found) in [
                (most, histogram.max()),
                (exact(&values, share), histogram.quantile(share)),
            ] {
                prop_assert!(exact <= found && found - exact <= exact / 100, "{} {}", exact, found);
            }
            prop_assert!(histogram.min() <= least && least - histogram.min() <= least / 100);
            let limit = share_of(most, share);
            let up_to = |limit| values.iter().filter(|value| **value <= limit).count() as u64;
            let counted = histogram.count_at_most(limit);
            prop_assert!((up_to(limit)..=up_to(limit + limit / 100)).contains(&counted));
        }
    }

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
