//! What a loop measures and records of its turns, if the builder turns it on: histograms, a watchdog,
//! a flight recorder. With the feature `tracing`, records are always made.
//!
//! They wrap the turn: one reading of a clock before the wait, and with a watchdog one for each
//! step. A loop without them has none of this, and `next_step` has no branch for it: if steps are
//! watched, the batch is withheld between two of them, which leads each step to
//! [`EventLoop::next_watched`].

pub(crate) mod record;
pub(crate) mod slow_turn;
#[cfg(feature = "tracing")]
mod trace;

use std::time::Duration;

use evcore_instrument::{FlightRecorder, Histograms, Watchdog};
use record::Record;
use slow_turn::{SlowTurn, StepKind};

use crate::{Acceptor, EventLoop, Result, Step};

/// The instruments of one loop.
#[derive(Debug)]
pub(crate) struct Instruments {
    histograms: Option<Histograms>,
    watchdog: Option<Watchdog<StepKind>>,
    recorder: Option<FlightRecorder<Record>>,
    /// When the current turn began, if it is measured.
    began_ns: Option<u64>,
}

impl Instruments {
    /// `None` if all are off. `limit` is the watchdog's, `records` the length of the recorder.
    pub(crate) fn new(
        histograms: bool,
        limit: Option<Duration>,
        records: usize,
    ) -> Option<Box<Self>> {
        let instruments = Self {
            histograms: histograms.then(Histograms::new),
            watchdog: limit.map(Watchdog::new),
            recorder: (records > 0).then(|| FlightRecorder::with_capacity(records)),
            began_ns: None,
        };
        let is_wanted = histograms || instruments.watches_steps();
        is_wanted.then(|| Box::new(instruments))
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
        self.instruments
            .as_mut()?
            .watchdog
            .as_mut()?
            .take_slow_turn()
    }

    /// The last records of what this loop did, the oldest first, for the log after something went
    /// wrong. Empty without a [flight recorder](crate::Builder::flight_recorder).
    ///
    /// After a panic of a handler, read them where the unwinding ends, or in a destructor. (The loop
    /// belongs to one thread, so a panic hook cannot borrow it.)
    ///
    /// ```
    /// use evcore::{EventLoop, Ready, Record};
    /// use std::panic::{AssertUnwindSafe, catch_unwind};
    ///
    /// let mut ev = EventLoop::builder().flight_recorder(100).build()?;
    /// let token = ev.add_unwatched()?;
    /// ev.post(token, Ready::READABLE);
    ///
    /// let turn = catch_unwind(AssertUnwindSafe(|| {
    ///     ev.wait().expect("the loop can go on");
    ///     while let Some(_step) = ev.next_step() {
    ///         panic!("a bug in a handler");
    ///     }
    /// }));
    /// assert!(turn.is_err());
    /// for record in ev.flight_records() {
    ///     eprintln!("{record:?}");
    /// }
    /// let last = ev.flight_records().last();
    /// assert_eq!(last, Some(Record::Ready(token, Ready::READABLE)));
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn flight_records(&self) -> impl Iterator<Item = Record> {
        let recorder = self
            .instruments
            .as_ref()
            .and_then(|it| it.recorder.as_ref());
        recorder.into_iter().flat_map(FlightRecorder::iter).copied()
    }

    /// [`wait`](Self::wait), if turns are measured.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_measured(&mut self) -> Result<()> {
        let timeout = self.plan_measured_turn();
        let clock_is_updated = self.wait_for_events(timeout)?;
        self.begin_measured_turn(clock_is_updated);
        Ok(())
    }

    /// What comes before the wait, if turns are measured.
    #[expect(clippy::inline_always, reason = "the wait is one function")]
    #[inline(always)]
    pub(crate) fn plan_measured_turn(&mut self) -> Option<Duration> {
        let now_ns = self.end_measuring();
        let timeout = self.plan_turn(now_ns);
        if self.accepting.holds_lock() {
            self.record(Record::LockTaken);
        }
        timeout
    }

    /// What comes after the wait, if turns are measured. The clock was updated, or was not.
    #[expect(clippy::inline_always, reason = "the wait is one function")]
    #[inline(always)]
    pub(crate) fn begin_measured_turn(&mut self, clock_is_updated: bool) {
        self.record(Record::TurnBegan {
            turn: self.stats.turns + 1,
            at_ns: self.clock.monotonic_ns(),
            events: u32::try_from(self.batch.len()).unwrap_or(u32::MAX),
        });
        self.begin_turn();
        self.begin_measuring(clock_is_updated);
    }

    /// A turn begins; the clock was updated for it, or was not.
    #[inline]
    fn begin_measuring(&mut self, clock_is_updated: bool) {
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
