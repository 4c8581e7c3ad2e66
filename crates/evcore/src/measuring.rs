//! Feeds the instruments of `evcore-instrument`, which measure and record the turns (iterations) of
//! a loop.
//!
//! The instruments read a clock once before the wait, and with a watchdog once for each step.
//! Without instruments, an event is yielded without a branch for them. Steps are *watched* if each
//! of them is recorded or timed, or changes [idle marks](crate::idle_marks). Watched steps come
//! from [`EventLoop::next_watched`]. The loop calls it only if it sees no more events, so the
//! events of the wait are hidden between two watched steps.

use std::time::Duration;

use evcore_timer::Timer;
use evcore_token::Token;

use crate::{
    acceptor::Acceptor,
    event_loop::EventLoop,
    instruments::{Instruments, TRACES},
    record::Record,
    step::Step,
};

impl<L: Acceptor> EventLoop<L> {
    /// The instruments that [`Builder::instruments`](crate::Builder::instruments) turned on:
    /// histograms, the slowest turn, and the last records.
    ///
    /// After a panic of a handler, this program logs the last records:
    ///
    /// ```
    /// use evcore::{EventLoop, InstrumentOptions, Ready, Record};
    /// use std::panic::{AssertUnwindSafe, catch_unwind};
    ///
    /// let instruments = InstrumentOptions::new().flight_recorder(100);
    /// let mut ev = EventLoop::builder().instruments(instruments).build()?;
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
    /// for record in ev.instruments().flight_records() {
    ///     eprintln!("{record:?}");
    /// }
    /// let last = ev.instruments().flight_records().last();
    /// assert_eq!(last, Some(Record::Ready(token, Ready::READABLE)));
    /// # Ok::<(), evcore::Error>(())
    /// ```
    #[must_use]
    pub fn instruments(&mut self) -> &mut Instruments {
        &mut self.instruments
    }

    /// Begins to measure a turn. `clock_is_updated` is true if the clock shows the beginning of the
    /// turn.
    pub(crate) fn begin_measuring(&mut self, clock_is_updated: bool) {
        let clock = &self.clock;
        let lengths = (self.batch.len(), self.slots.posted() as usize);
        let began_ns = clock_is_updated.then(|| clock.monotonic_ns());
        let read_ns = || clock.monotonic_ns_now();
        self.instruments
            .begin_turn(lengths, began_ns, read_ns, || clock.unix_ms());
    }

    /// Makes the steps of this turn take the path through [`next_watched`](Self::next_watched), if
    /// they are watched.
    pub(crate) fn watch_steps(&mut self) {
        if self.is_watched() {
            self.batch.withhold();
        }
    }

    pub(crate) fn end_steps(&mut self) {
        self.batch.give_back();
        if let Some(marks) = &mut self.marks {
            marks.end_turn(|index| self.evictions.idle.contains(index));
        }
    }

    /// Ends the measured turn, if there is one. Returns the present time if the turn was measured
    /// for histograms or a watchdog.
    pub(crate) fn end_measuring(&mut self) -> Option<u64> {
        let clock = &self.clock;
        let (now_ns, took_ns) = self.instruments.end_turn(|| clock.monotonic_ns_now())?;
        self.record(Record::TurnEnded { took_ns });
        // Records must not change what the loop decides before its next wait. So a time that was
        // read only for a record is not returned.
        self.instruments.measures().then_some(now_ns)
    }

    /// Returns whether each step is recorded, timed by a watchdog, or changes a mark.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        let instruments = &self.instruments;
        TRACES
            || self.marks.is_some()
            || instruments.is_on() && (instruments.times_steps() || instruments.keeps_records())
    }

    /// Ends the previous step, and returns the next one, for a loop whose steps are watched.
    #[cold]
    pub(crate) fn next_watched(&mut self) -> Option<Step<L::Stream>> {
        let is_timed = self.instruments.times_steps();
        let now_ns = is_timed.then(|| self.clock.monotonic_ns_now());
        self.batch.give_back();
        // Events come first in a turn. So the phase of the turn, which says what comes next, is
        // looked up only if no event is left.
        let step = self.next_event().or_else(|| self.next_in_order());
        self.batch.withhold();
        if let Some(marks) = &mut self.marks {
            let token = step.as_ref().and_then(Step::token);
            token
                .into_iter()
                .for_each(|token| marks.touch(token.index()));
        }
        let record = step.as_ref().map(Record::of_step);
        if let Some(now_ns) = now_ns {
            self.instruments.time_step(now_ns, record);
        }
        if let Some(record) = record {
            self.record(record);
        }
        step
    }

    #[inline]
    pub(crate) fn record(&mut self, record: Record) {
        if self.instruments.is_on() {
            self.write(record);
        }
    }

    #[cold]
    fn write(&mut self, record: Record) {
        #[cfg(feature = "tracing")]
        crate::trace::emit(&record);
        self.instruments.record(record);
    }

    /// This is out of line, so that the code that is inlined into each handler is short.
    #[cold]
    #[inline(never)]
    pub(crate) fn record_arm(&mut self, token: Token, timer: Timer, after: Duration) {
        let now_ns = self.clock.monotonic_ns();
        let deadline_ms = self.timers.deadline_after(now_ns, after);
        self.record(Record::Armed {
            token,
            timer,
            deadline_ms,
        });
    }
}
