//! Reports each kind of shortage of a worker once, until all shortages have ended.

use std::fmt;

use evcore::Stats;
use evcore::net::Resource;

/// A shortage that keeps a worker from accepting all waiting clients, or the end of all shortages.
///
/// [`Event::Shortage`](crate::Event::Shortage) reports each kind once when it begins. When all of
/// them have ended, it reports that once. After that, a new shortage is reported again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shortage {
    /// The worker has as many connections as its limit
    /// ([`Builder::connections`](evcore::Builder::connections)).
    Full {
        /// The limit.
        limit: u32,
    },
    /// The worker ran out of descriptors or memory while it accepted clients.
    Exhausted(Resource),
    /// No shortage has come back for ten seconds.
    Over,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { limit } => write!(
                f,
                "full at its limit of {limit} connections; new clients wait, or idle ones are closed for them"
            ),
            Self::Exhausted(resource) => write!(f, "{resource}"),
            Self::Over => write!(f, "nothing has been short for {} seconds", CALM_MS / 1000),
        }
    }
}

const CALM_MS: u64 = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Shortages {
    full: Counted,
    exhausted: Counted,
    seen_at_ms: u64,
}

#[derive(Debug, Default)]
struct Counted {
    count: u64,
    is_reported: bool,
}

impl Shortages {
    /// Returns the shortages that a turn has to report. Without a shortage, this costs a few
    /// comparisons.
    pub(crate) fn after_turn(
        &mut self,
        stats: &Stats,
        now_ms: u64,
    ) -> impl Iterator<Item = Shortage> + use<> {
        let is_full = stats.active >= stats.limit && !stats.shutting_down;
        let full = self.full.is_seen(stats.full, is_full);
        let exhausted = self.exhausted.is_seen(stats.accept_pauses, false);
        if full || exhausted {
            self.seen_at_ms = now_ms;
        }
        let limit = stats.limit;
        let full = (full && self.full.begins()).then_some(Shortage::Full { limit });
        let exhausted = (exhausted && self.exhausted.begins()).then_some(stats.last_exhausted);
        let exhausted = exhausted.flatten().map(Shortage::Exhausted);
        let over = self.end(now_ms).then_some(Shortage::Over);
        [full, exhausted, over].into_iter().flatten()
    }

    fn end(&mut self, now_ms: u64) -> bool {
        let is_reported = self.full.is_reported || self.exhausted.is_reported;
        let is_over = is_reported && now_ms.saturating_sub(self.seen_at_ms) >= CALM_MS;
        if is_over {
            self.full.is_reported = false;
            self.exhausted.is_reported = false;
        }
        is_over
    }
}

impl Counted {
    /// Returns whether the shortage lasts, or the loop has counted it since the last call.
    fn is_seen(&mut self, count: u64, lasts: bool) -> bool {
        let has_come = self.count != count;
        self.count = count;
        has_come || lasts
    }

    /// Marks the shortage as reported. Returns whether it was not reported before.
    fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Shortage = Shortage::Full { limit: 8 };

    fn after_turn(shortages: &mut Shortages, stats: &Stats, now_ms: u64) -> Vec<Shortage> {
        shortages.after_turn(stats, now_ms).collect()
    }

    fn stats(active: u32) -> Stats {
        let mut stats = Stats::default();
        (stats.active, stats.limit) = (active, 8);
        stats
    }

    #[test]
    fn a_full_worker_is_reported_once_until_it_has_had_room() {
        let mut shortages = Shortages::default();
        let mut report = |active, now_ms| after_turn(&mut shortages, &stats(active), now_ms);
        assert_eq!(report(7, 0), []);
        assert_eq!(report(8, 1), [FULL]);
        for now_ms in [2, 10_001, 20_000] {
            assert_eq!(report(8, now_ms), []);
        }
        assert_eq!(report(7, 29_999), []);
        assert_eq!(report(7, 30_000), [Shortage::Over]);
        assert_eq!(report(7, 50_000), []);
        assert_eq!(report(8, 50_001), [FULL]);
    }

    #[test]
    fn a_limit_that_is_reached_within_a_turn_is_reported() {
        let mut shortages = Shortages::default();
        let mut stats = stats(7);
        stats.full = 1;
        assert_eq!(after_turn(&mut shortages, &stats, 1), [FULL]);
        stats.full = 2;
        assert_eq!(after_turn(&mut shortages, &stats, 9_000), []);
        assert_eq!(after_turn(&mut shortages, &stats, 18_999), []);
        assert_eq!(after_turn(&mut shortages, &stats, 19_000), [Shortage::Over]);
    }

    #[test]
    fn a_resource_that_has_run_out_is_named_once() {
        let mut shortages = Shortages::default();
        let mut stats = stats(0);
        stats.last_exhausted = Some(Resource::Process);
        let expected = [Shortage::Exhausted(Resource::Process)];
        for count in 1..4 {
            stats.accept_pauses = count;
            let reported = after_turn(&mut shortages, &stats, 500 * count);
            assert_eq!(reported, expected[usize::from(count != 1)..]);
        }
        assert_eq!(after_turn(&mut shortages, &stats, 11_500), [Shortage::Over]);
    }

    #[test]
    fn a_worker_that_stops_is_not_full() {
        let mut stats = stats(8);
        stats.shutting_down = true;
        assert_eq!(after_turn(&mut Shortages::default(), &stats, 0), []);
    }
}
