//! Numbers at random, the same in every run.

use crate::run::each;

/// `SplitMix64`, with a fixed seed.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// At its beginning.
    pub(crate) fn new() -> Random {
        Random(0x6576_636f_7265)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }

    /// An index below `end`.
    pub(crate) fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("it is below a usize")
    }

    /// A number above 0, and 1 at most.
    pub(crate) fn unit(&mut self) -> f64 {
        const STEPS: u32 = 1 << 30;
        each(self.below(STEPS.into()) + 1, STEPS as usize)
    }
}
