//! Random numbers from a seed.
//!
//! The sequence of a seed is part of the interface: it is the same in every version, on every
//! machine and in every profile. The numbers are not fit for secrets.

use std::{ops::RangeInclusive, time::Duration};

use crate::probability::Probability;

/// A random number generator whose numbers depend on its seed alone.
///
/// It is `SplitMix64`, which has 64 bits of state and passes the usual statistical tests (Steele,
/// Lea and Flood: *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014).
///
/// ```
/// use evcore_sim::Rng;
///
/// let (mut one, mut two) = (Rng::new(7), Rng::new(7));
/// assert_eq!(one.next_u64(), two.next_u64());
/// assert!(one.below(6) < 6);
/// ```
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator from a seed. Every seed is suitable, also 0.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns a new generator, which is independent of this one. This one advances by one number.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    ///
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        // The bias is below 2^-32 for bounds below 2^32.
        let product = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(product >> 64).expect("the high half of 128 bits")
    }

    /// The same as [`below`](Self::below), for lengths and indices.
    ///
    /// # Panics
    ///
    /// If `bound` is 0.
    pub fn index(&mut self, bound: usize) -> usize {
        let number = self.below(bound as u64);
        usize::try_from(number).expect("it is below a usize")
    }

    /// Returns whether an event of this probability happens now. [`Probability::NEVER`] draws no
    /// number.
    pub fn happens(&mut self, probability: Probability) -> bool {
        !probability.is_never() && probability.covers(self.next_u64())
    }

    /// A duration from a range, both ends included, to the nanosecond.
    ///
    /// A range of one value draws no number. An empty range gives its start.
    pub fn duration(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let (least_ns, most_ns) = (whole_ns(*range.start()), whole_ns(*range.end()));
        if most_ns <= least_ns {
            return *range.start();
        }
        let width_ns = (most_ns - least_ns).saturating_add(1);
        Duration::from_nanos(least_ns + self.below(width_ns))
    }

    /// A random element of `list`, or `None` if the list is empty.
    pub fn choose<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        if list.is_empty() {
            return None;
        }
        list.get(self.index(list.len()))
    }

    /// Shuffles `list`. Every order is equally likely.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.index(last + 1));
        }
    }
}

/// The time in whole nanoseconds, at most 584 years.
pub(crate) fn whole_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for number in published {
            assert_eq!(rng.next_u64(), number);
        }
    }

    #[test]
    fn every_number_below_the_bound_is_drawn() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 6];
        for _ in 0..6_000 {
            seen[rng.index(6)] += 1;
        }
        assert!(
            seen.iter().all(|count| (850..1_150).contains(count)),
            "{seen:?}"
        );
    }

    #[test]
    fn a_duration_is_in_its_range_and_both_ends_are_drawn() {
        let mut rng = Rng::new(1);
        let ns = Duration::from_nanos;
        let times: Vec<_> = (0..100).map(|_| rng.duration(&(ns(3)..=ns(5)))).collect();
        assert_eq!(times.iter().min(), Some(&ns(3)));
        assert_eq!(times.iter().max(), Some(&ns(5)));
        assert_eq!(rng.duration(&(ns(7)..=ns(7))), ns(7));
        let _ = rng.duration(&(Duration::ZERO..=Duration::MAX));
    }

    #[test]
    fn a_shuffle_changes_the_order_and_keeps_every_element() {
        let mut list: Vec<u32> = (0..50).collect();
        Rng::new(1).shuffle(&mut list);
        assert_ne!(list, (0..50).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..50).collect::<Vec<_>>());
    }
}
