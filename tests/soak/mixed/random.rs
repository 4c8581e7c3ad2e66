//! Pseudo-random choices of one client, or of the disturbances.

use std::{ops::Range, thread, time::Duration};

/// A generator: `SplitMix64` (Steele, Lea and Flood, 2014).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Creates one of several generators with the same seed.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let mut random = Self(seed ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn within(&mut self, range: Range<usize>) -> usize {
        let length = (range.end - range.start) as u64;
        range.start + usize::try_from(self.next() % length).expect("it is below a `usize`")
    }

    /// Returns true once in this many times on average.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.within(0..times) == 0
    }

    pub(super) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.within(0..list.len())]
    }

    pub(super) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let words = (0..length.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(length).collect()
    }

    pub(super) fn pause(&mut self, ms: Range<usize>) {
        pause(Duration::from_millis(self.within(ms) as u64));
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the load is spread over time; nothing waits for something to happen"
)]
pub(super) fn pause(time: Duration) {
    thread::sleep(time);
}
