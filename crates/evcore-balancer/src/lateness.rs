//! Finds whether a worker is late: its turns (iterations of its event loop) last so long that new
//! clients should go to other workers.
//!
//! A turn is long if it lasts for 10 ms or more. Each long turn adds its length to a leaky bucket,
//! which leaks an eighth of the time that passes. A worker becomes late with a long turn that finds
//! the bucket not empty and fills it to 40 ms or more. It stays late until the bucket is empty. The
//! bucket holds at most 125 ms, which leak away within a second after the last long turn. A single
//! long turn, which any busy system causes, does not make a worker late.

pub(crate) const LONG_NS: u64 = 10 * NS_PER_MS;

const LEAK: u64 = 8;

/// Minimum content of the bucket that makes a worker late.
const LATE_NS: u64 = 40_000_000;

/// Maximum content of the bucket.
const MOST_NS: u64 = 125_000_000;

const NS_PER_MS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lateness {
    /// The time at which the bucket is empty. It is a multiple of a millisecond, because plans
    /// count in milliseconds.
    empty_at_ns: u64,
    is_late: bool,
}

impl Lateness {
    pub(crate) fn add(&mut self, lasted_ns: u64, now_ns: u64) {
        let before_ns = self.empty_at_ns.saturating_sub(now_ns) / LEAK;
        let content_ns = before_ns.saturating_add(lasted_ns).min(MOST_NS);
        let empty_ms = now_ns.saturating_add(content_ns * LEAK).div_ceil(NS_PER_MS);
        self.empty_at_ns = empty_ms.saturating_mul(NS_PER_MS);
        self.is_late |= before_ns > 0 && content_ns >= LATE_NS;
    }

    pub(crate) fn is_late(self) -> bool {
        self.is_late
    }

    /// The time at which the worker is not late any more; `None` if it is not late.
    pub(crate) fn ends_at_ns(self) -> Option<u64> {
        self.is_late.then_some(self.empty_at_ns)
    }

    /// Ends the lateness if its time has come. Returns whether it did.
    pub(crate) fn ends(&mut self, now_ns: u64) -> bool {
        let ends = self.is_late && self.empty_at_ns <= now_ns;
        self.is_late &= !ends;
        ends
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = NS_PER_MS;

    #[test]
    fn a_worker_that_blocks_repeatedly_is_late_from_the_second_time() {
        let mut lateness = Lateness::default();
        for turn in 1..100 {
            let now_ns = turn * 51 * MS;
            assert!(!lateness.ends(now_ns), "the bucket leaks less than it gets");
            lateness.add(50 * MS, now_ns);
            assert_eq!(lateness.is_late(), turn > 1);
        }
        let end_ns = lateness.ends_at_ns().unwrap();
        assert_eq!(end_ns, 99 * 51 * MS + 1_000 * MS, "at most a second later");
        assert!(!lateness.ends(end_ns - 1) && lateness.ends(end_ns));
        assert!(!lateness.is_late() && lateness.ends_at_ns().is_none());
    }

    #[test]
    fn single_stalls_make_no_worker_late() {
        let mut lateness = Lateness::default();
        for stall in 1..100 {
            lateness.add(500 * MS, stall * 2_000 * MS);
            assert!(!lateness.is_late());
        }
    }

    proptest! {
        /// The oracle counts the bucket's content in eighths of a millisecond, and takes one away
        /// in each millisecond.
        #[test]
        fn a_bucket_agrees_with_a_count_of_each_millisecond(
            turns in prop::collection::vec((10_u64..200, 1_u64..600), 1..40),
        ) {
            let (mut lateness, mut eighths, mut is_late, mut now_ms) = (Lateness::default(), 0, false, 0);
            for (lasted, pause) in turns {
                for _ in 0..lasted + pause {
                    now_ms += 1;
                    eighths = u64::saturating_sub(eighths, 1);
                    is_late &= eighths > 0;
                    lateness.ends(now_ms * MS);
                    prop_assert_eq!(lateness.is_late(), is_late);
                }
                let full = (eighths + 8 * lasted).min(1_000);
                is_late |= eighths > 0 && full >= 320;
                eighths = full;
                lateness.add(lasted * MS, now_ms * MS);
                prop_assert_eq!(lateness.is_late(), is_late);
            }
        }
    }
}
