//! What a loop measures of its turns, if the builder turns it on: histograms and a watchdog.
//!
//! They wrap the turn: one reading of a clock before the wait, and with a watchdog one for each
//! step. A loop without them has none of this, and `next_step` has no branch for it: a watchdog
//! withholds the batch between two steps, which leads each step to [`EventLoop::next_watched`].

pub(crate) mod histogram;
pub(crate) mod histograms;
pub(crate) mod slow_turn;
pub(crate) mod watchdog;

use std::time::Duration;

use histograms::Histograms;
use slow_turn::{SlowTurn, StepKind};
use watchdog::{EndedTurn, Watchdog};

use crate::{Acceptor, EventLoop, Step};

/// The instruments of one loop.
#[derive(Debug)]
pub(crate) struct Instruments {
    histograms: Option<Histograms>,
    watchdog: Option<Watchdog>,
    /// When the current turn began, if it is measured.
    began_ns: Option<u64>,
}

impl Instruments {
    /// `None` if both are off. `limit` is the watchdog's.
    pub(crate) fn new(histograms: bool, limit: Option<Duration>) -> Option<Box<Self>> {
        let is_wanted = histograms || limit.is_some();
        is_wanted.then(|| {
            Box::new(Self {
                histograms: histograms.then(Histograms::new),
                watchdog: limit.map(Watchdog::new),
                began_ns: None,
            })
        })
    }

    pub(crate) fn timer_was_late(&mut self, ns: u64) {
        if let Some(histograms) = &mut self.histograms {
            histograms.timer_was_late(ns);
        }
    }
}

impl<L: Acceptor> EventLoop<L> {
    /// The distributions of the loop's figures: the length of turns, the lateness of timers, the
    /// length of queues. `None` without [`Builder::histograms`](crate::Builder::histograms).
    #[must_use]
    pub fn histograms(&self) -> Option<&Histograms> {
        self.instruments.as_ref()?.histograms.as_ref()
    }

    /// Empties the [histograms](Self::histograms), for example once a minute. It writes 100 KiB.
    ///
    /// The current turn is recorded when it ends.
    pub fn clear_histograms(&mut self) {
        let instruments = self.instruments.as_mut();
        if let Some(histograms) = instruments.and_then(|it| it.histograms.as_mut()) {
            histograms.clear();
        }
    }

    /// Takes the slowest of the turns that took longer than the
    /// [watchdog](crate::Builder::watchdog)'s limit since the last call. `None` if there was none,
    /// or if there is no watchdog.
    ///
    /// A turn ends when the next wait begins, so call this after a wait.
    /// [`Stats::slow_turns`](crate::Stats::slow_turns) counts all slow turns.
    pub fn take_slow_turn(&mut self) -> Option<SlowTurn> {
        self.instruments.as_mut()?.watchdog.as_mut()?.take_worst()
    }

    /// A turn begins; the clock was updated for it, or was not.
    #[cold]
    pub(crate) fn begin_measuring(&mut self, clock_is_updated: bool) {
        let Some(instruments) = &mut self.instruments else {
            return;
        };
        if let Some(histograms) = &mut instruments.histograms {
            histograms.turn_began(self.batch.len(), self.slots.posted());
        }
        instruments.began_ns = clock_is_updated.then(|| self.clock.monotonic_ns());
        if let Some(watchdog) = &mut instruments.watchdog {
            let read = || self.clock.monotonic_ns_now();
            let began_ns = *instruments.began_ns.get_or_insert_with(read);
            watchdog.begin_turn(began_ns, self.clock.unix_ms());
            self.batch.withhold();
        }
    }

    /// The turn has ended, if one is measured. Returns the time, if a clock was read.
    #[cold]
    pub(crate) fn end_measuring(&mut self) -> Option<u64> {
        let instruments = self.instruments.as_mut()?;
        self.batch.give_back();
        let began_ns = instruments.began_ns.take()?;
        let now_ns = self.clock.monotonic_ns_now();
        let took_ns = now_ns.saturating_sub(began_ns);
        if let Some(histograms) = &mut instruments.histograms {
            histograms.turn_took(took_ns);
        }
        if let Some(watchdog) = &mut instruments.watchdog {
            let is_slow = watchdog.end_turn(EndedTurn {
                turn: self.stats.turns,
                took: Duration::from_nanos(took_ns),
                now_ns,
            });
            self.stats.slow_turns += u64::from(is_slow);
        }
        Some(now_ns)
    }

    /// Whether a watchdog has to see each step.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        let instruments = self.instruments.as_ref();
        instruments.is_some_and(|instruments| instruments.watchdog.is_some())
    }

    /// The next step of a loop with a watchdog: it ends the step before, and begins this one.
    #[cold]
    pub(crate) fn next_watched(&mut self) -> Option<Step<L::Stream>> {
        let now_ns = self.clock.monotonic_ns_now();
        self.batch.give_back();
        let step = self.next_in_order();
        self.batch.withhold();
        let instruments = self.instruments.as_mut();
        if let Some(watchdog) = instruments.and_then(|it| it.watchdog.as_mut()) {
            watchdog.begin_step(now_ns, step.as_ref().map(StepKind::of));
        }
        step
    }
}
