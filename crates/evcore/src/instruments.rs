//! What a loop measures and records of its turns, if the builder turns it on: histograms, a watchdog,
//! a flight recorder. With the feature `tracing`, records are always made.
//!
//! They wrap the turn: one reading of a clock before the wait, and with a watchdog one for each
//! step. A loop without them has none of this, and `next_step` has no branch for it: if steps are
//! watched, the batch is withheld between two of them, which leads each step to
//! [`EventLoop::next_watched`].

pub(crate) mod options;
pub(crate) mod record;
pub(crate) mod slow_turn;
#[cfg(feature = "tracing")]
mod trace;
pub(crate) mod view;

use evcore_instrument::{FlightRecorder, Histograms, Watchdog};
use options::InstrumentOptions;
use record::Record;
use slow_turn::StepKind;

use crate::{Acceptor, EventLoop, Step};

/// The instruments of one loop.
#[derive(Debug)]
pub(crate) struct InstrumentSet {
    histograms: Option<Histograms>,
    watchdog: Option<Watchdog<StepKind>>,
    recorder: Option<FlightRecorder<Record>>,
    /// When the current turn began, if it is measured.
    began_ns: Option<u64>,
}

impl InstrumentSet {
    /// `None` if all are off.
    pub(crate) fn new(options: InstrumentOptions) -> Option<Box<Self>> {
        let records = options.flight_records;
        let set = Self {
            histograms: options.histograms.then(Histograms::new),
            watchdog: options.watchdog.map(Watchdog::new),
            recorder: (records > 0).then(|| FlightRecorder::with_capacity(records)),
            began_ns: None,
        };
        let is_wanted = set.measures() || set.keeps_records();
        is_wanted.then(|| Box::new(set))
    }

    fn measures(&self) -> bool {
        self.histograms.is_some() || self.watchdog.is_some()
    }

    /// Whether anything reads records.
    pub(crate) fn keeps_records(&self) -> bool {
        cfg!(feature = "tracing") || self.recorder.is_some()
    }

    /// Whether each step is recorded, or timed by a watchdog.
    fn watches_steps(&self) -> bool {
        self.watchdog.is_some() || self.keeps_records()
    }

    pub(crate) fn timer_was_late(&mut self, ns: u64) {
        if let Some(histograms) = &mut self.histograms {
            histograms.timer_was_late(ns);
        }
    }
}

impl<L: Acceptor> EventLoop<L> {
    /// A turn begins; the clock was updated for it, or was not.
    #[inline]
    pub(crate) fn begin_measuring(&mut self, clock_is_updated: bool) {
        let Some(instruments) = &mut self.instruments else {
            return;
        };
        if let Some(histograms) = &mut instruments.histograms {
            histograms.turn_began(self.batch.len(), self.slots.posted() as usize);
        }
        instruments.began_ns = clock_is_updated.then(|| self.clock.monotonic_ns());
        if let Some(watchdog) = &mut instruments.watchdog {
            let read = || self.clock.monotonic_ns_now();
            let began_ns = *instruments.began_ns.get_or_insert_with(read);
            watchdog.begin_turn(began_ns, self.clock.unix_ms());
        }
        if instruments.watches_steps() {
            self.batch.withhold();
        }
    }

    /// The turn has ended, if one is measured. Returns the time, if a clock was read for more than a
    /// record.
    #[inline]
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
            watchdog.end_turn(now_ns);
            self.stats.slow_turns = watchdog.slow_turns();
        }
        instruments.record(Record::TurnEnded { took_ns });
        // A plan that is made with a fresh time may differ, and records change nothing.
        instruments.measures().then_some(now_ns)
    }

    /// Whether each step is recorded, or timed by a watchdog.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        let instruments = self.instruments.as_ref();
        instruments.is_some_and(|instruments| instruments.watches_steps())
    }

    /// The next step of a loop whose steps are watched: it ends the step before, and begins this one.
    #[cold]
    pub(crate) fn next_watched(&mut self) -> Option<Step<L::Stream>> {
        let is_timed = self
            .instruments
            .as_ref()
            .is_some_and(|it| it.watchdog.is_some());
        let now_ns = if is_timed {
            self.clock.monotonic_ns_now()
        } else {
            0
        };
        self.batch.give_back();
        // As without instruments: most steps are events, and need no phase to be looked up.
        let step = self.next_event().or_else(|| self.next_in_order());
        self.batch.withhold();
        let instruments = self.instruments.as_mut()?;
        if let Some(watchdog) = &mut instruments.watchdog {
            match &step {
                Some(step) => watchdog.begin_step(now_ns, StepKind::of(step)),
                None => watchdog.end_step(now_ns),
            }
        }
        if let Some(step) = &step {
            instruments.record(Record::of_step(step));
        }
        step
    }
}
