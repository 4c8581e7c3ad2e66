//! A histogram as Prometheus has it: counts of fixed ranges, and the sum of all values.

use evcore::Histogram;

/// The upper bounds of all ranges except the last one: in nanoseconds, and as Prometheus shows
/// them, in seconds.
pub const BOUNDS: [(u64, &str); 13] = [
    (1_000, "0.000001"),
    (5_000, "0.000005"),
    (10_000, "0.00001"),
    (50_000, "0.00005"),
    (100_000, "0.0001"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
];

/// The last range has no upper bound.
const RANGES: usize = BOUNDS.len() + 1;

/// Number of measured durations in each range, and their sum.
///
/// The ranges do not overlap. So the cumulative sums never decrease from bound to bound, even if
/// the counts are read while they are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    pub counts: [u64; RANGES],
    /// The sum of all times, where each time counts as the middle of its bucket in the histogram.
    pub sum_ns: u64,
}

impl Buckets {
    pub const LEN: usize = RANGES + 1;

    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_ns += other.sum_ns;
    }

    /// Sets the counts to the sum of `earlier` and the histogram.
    ///
    /// For each bound, the histogram's buckets below the bound are read, up to the first bound that
    /// no value exceeds. A call makes at most some 25,000 reads of a bucket.
    pub fn read(&mut self, histogram: &Histogram, mean: f64, earlier: &Self) {
        let count = histogram.count();
        let mut below = 0;
        for (at, (bound_ns, _)) in BOUNDS.into_iter().enumerate() {
            let up_to = if below == count {
                count
            } else {
                histogram.count_at_most(bound_ns)
            };
            self.counts[at] = earlier.counts[at] + up_to - below;
            below = up_to;
        }
        self.counts[RANGES - 1] = earlier.counts[RANGES - 1] + count - below;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "the precision of a sum of nanoseconds suffices, and none is negative"
        )]
        let sum_ns = (mean * count as f64) as u64;
        // Because of rounding, the new sum may be slightly less than the last one.
        self.sum_ns = self.sum_ns.max(earlier.sum_ns + sum_ns);
    }

    pub fn to_array(self) -> [u64; Self::LEN] {
        let mut values = [self.sum_ns; Self::LEN];
        values[..RANGES].copy_from_slice(&self.counts);
        values
    }

    pub fn from_array(values: [u64; Self::LEN]) -> Self {
        Self {
            counts: std::array::from_fn(|at| values[at]),
            sum_ns: values[RANGES],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_in_seconds_are_those_in_nanoseconds() {
        let mut before = 0;
        for (bound_ns, seconds) in BOUNDS {
            let seconds: f64 = seconds.parse().expect("a number");
            assert_eq!((seconds * 1e9).round(), bound_ns as f64);
            assert!(before < bound_ns);
            before = bound_ns;
        }
    }
}
