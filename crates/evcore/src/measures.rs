//! When a turn begins and ends, and what is made of that.
//!
//! The beginning is the reading that the clock is updated with anyway, so a turn costs one more:
//! the end, just before the next wait. Where the clock is not updated there is no beginning, and
//! nothing is asked, unless there is a watchdog.

use std::time::Duration;

use crate::{
    Acceptor, EventLoop, Histograms, SlowTurn,
    watchdog::{Ended, Watchdog},
};

/// What the loop knows of its own times.
#[derive(Debug)]
pub(crate) struct Measures {
    pub(crate) histograms: Histograms,
    pub(crate) watchdog: Option<Watchdog>,
    /// When the turn under way began, if it is measured.
    began_ns: Option<u64>,
}

impl Measures {
    /// With a watchdog that has this limit, if any.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self {
            histograms: Histograms::new(),
            watchdog: limit.map(Watchdog::new),
            began_ns: None,
        }
    }
}

impl<L: Acceptor> EventLoop<L> {
    /// How the loop's figures were spread: the time of turns, the lateness of timers, the length of
    /// queues.
    #[must_use]
    pub fn histograms(&self) -> &Histograms {
        &self.measures.histograms
    }

    /// Forgets what the [histograms](Self::histograms) hold, so that they tell of what comes: for
    /// figures of the last minute.
    ///
    /// Writes 100 KiB. The turn under way counts when it ends.
    pub fn clear_histograms(&mut self) {
        self.measures.histograms.clear();
    }

    /// The slowest of the turns that took longer than the [watchdog](crate::Builder::watchdog)'s
    /// limit, since this was asked last. `None`: there was none, or there is no watchdog.
    ///
    /// A turn is judged when the next wait begins, so this is to be asked after a wait.
    /// [`Stats::slow_turns`](crate::Stats::slow_turns) says how many there were.
    pub fn take_slow_turn(&mut self) -> Option<SlowTurn> {
        self.measures.watchdog.as_mut()?.take_worst()
    }

    /// A turn has begun, with a clock that was just updated, or was not.
    #[inline]
    pub(crate) fn begin_measuring(&mut self, updated: bool) {
        let measures = &mut self.measures;
        let (events, posted) = (self.batch.len(), self.slots.posted());
        measures.histograms.turn_began(events, posted);
        measures.began_ns = updated.then(|| self.clock.monotonic_ns());
        if let Some(watchdog) = &mut measures.watchdog {
            let ask = || self.clock.monotonic_ns_now();
            watchdog.turn_begins(*measures.began_ns.get_or_insert_with(ask));
            self.watch();
        }
    }

    /// The turn is over, if one is under way. Returns the time, if it was asked for that.
    #[inline]
    pub(crate) fn end_measuring(&mut self) -> Option<u64> {
        let measures = &mut self.measures;
        let began_ns = measures.began_ns.take()?;
        let now_ns = self.clock.monotonic_ns_now();
        let took_ns = now_ns.saturating_sub(began_ns);
        measures.histograms.turn_took(took_ns);
        if let Some(watchdog) = &mut measures.watchdog {
            let ended = Ended {
                turn: self.stats.turns,
                began_unix_ms: self.clock.unix_ms(),
                took: Duration::from_nanos(took_ns),
                now_ns,
            };
            self.stats.slow_turns += u64::from(watchdog.turn_ends(ended));
            self.unwatch();
        }
        Some(now_ns)
    }
}
