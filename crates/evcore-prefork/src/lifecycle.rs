//! The lifecycle, which decides when workers are started, stopped and killed, and when the server
//! has ended.
//!
//! The lifecycle is pure: it starts no process or thread, sends no signal and reads no clock, so a
//! test can try any order of events. The master reports events ([`started`](Lifecycle::started),
//! [`ended`](Lifecycle::ended), [`reload`](Lifecycle::reload) and so on). It performs the actions
//! that [`next`](Lifecycle::next) returns, up to [`Action::Wait`] or [`Action::Done`].
//!
//! The workers of one start or reload are a generation. Once the newest one [can take
//! over](Takeover), all older ones get a stop. So at least one generation serves until the server
//! is stopped or drained. A drain stops all workers, and the master stays.
//!
//! Workers stand in a table of slots. A generation has its own row, with a slot for each index,
//! until its last worker has ended.

use std::{
    mem,
    time::{Duration, Instant},
};

use crate::{exit::Outcome, reload::Reload, slot::Slot, stop::Stop};

mod escalation;
mod generation;

use escalation::{Escalation, Step};
use generation::{Coverage, Generation, Takeover, Vacancy};

/// The most generations at once, for example one that serves, one that starts, and two whose
/// workers finish. A further reload waits.
pub(crate) const GENERATIONS_MAX: usize = 4;

/// All generations, oldest first, and the requests to the master.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    config: Config,
    generations: Vec<Generation>,
    /// True if any worker has ever reported that it serves.
    has_served: bool,
    /// True if a new generation was requested, and has not begun.
    reload: bool,
    /// True if the application has got the report that the reload waits.
    reload_waits: bool,
    /// True if a reload was reported as started, and not yet as ended.
    is_reloading: bool,
    /// True if all workers got a stop and the master stays.
    drained: bool,
    /// The stop that was requested, or the harder one that it has become.
    stop: Option<Stop>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Number of workers in a generation.
    pub(crate) workers: usize,
    pub(crate) timeouts: Timeouts,
    /// True if the clients of one index are not served by workers of other indices.
    pub(crate) slots_serve_alone: bool,
    pub(crate) can_kill: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// The time from a graceful stop to a fast one.
    pub(crate) stop: Duration,
    /// The time from the start of a worker until it counts as ready.
    pub(crate) ready: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            stop: Duration::from_secs(30),
            ready: Duration::from_secs(1),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start a worker for this slot, then call `started` or `start_failed`.
    Start(Slot),
    /// Request this stop of the workers of this row.
    Stop(usize, Stop),
    /// Kill the workers of this row.
    Kill(usize),
    /// Report to the application that the workers of this row do not end.
    ReportStuck(usize),
    /// Leave the threads of this row behind, and call `ended` for each of them.
    Abandon(usize),
    Report(Reload),
    /// Wait for an event, at most until this time.
    Wait(Option<Instant>),
    /// No worker is left.
    Done(Outcome),
}

impl Lifecycle {
    /// A lifecycle with one generation, whose workers are all due at `now`.
    pub(crate) fn new(config: Config, now: Instant) -> Self {
        Self {
            config,
            generations: vec![Generation::new(0, config.workers, now)],
            has_served: false,
            reload: false,
            reload_waits: false,
            is_reloading: false,
            drained: false,
            stop: None,
        }
    }

    /// Returns the master's next step.
    pub(crate) fn next(&mut self, now: Instant) -> Action {
        self.prune();
        if let Some(outcome) = self.outcome() {
            return Action::Done(outcome);
        }
        let mut wake = Earliest::default();
        if let Some(action) = self.escalate(now, &mut wake) {
            return action;
        }
        let report = self.begin_reload(now).or_else(|| self.drop_refused());
        let report = report.or_else(|| self.take_over(now, &mut wake));
        if let Some(reload) = report {
            return Action::Report(reload);
        }
        match self.next_start() {
            Some((at, slot)) if at <= now => Action::Start(slot),
            first => {
                wake.add(first.map(|(at, _)| at));
                Action::Wait(wake.0)
            }
        }
    }

    pub(crate) fn started(&mut self, slot: Slot, now: Instant) {
        self.generation(slot.row).started(slot.index, now);
    }

    pub(crate) fn start_failed(&mut self, slot: Slot, now: Instant) {
        self.generation(slot.row).start_failed(slot.index, now);
    }

    pub(crate) fn ready(&mut self, slot: Slot) {
        self.generation(slot.row).ready(slot.index);
        self.has_served = true;
        let generations = self.generations.iter_mut();
        generations.for_each(Generation::retry_starts);
    }

    /// Records that the slot's worker has ended. If it has `refused`, it is not replaced.
    pub(crate) fn ended(&mut self, slot: Slot, refused: bool, now: Instant) {
        self.generation(slot.row).ended(slot.index, refused, now);
    }

    /// Records that the slot's worker has ended because it could not start. It is replaced once any
    /// worker has served, which may already be the case.
    pub(crate) fn cannot_start(&mut self, slot: Slot, now: Instant) {
        if self.has_served {
            self.ended(slot, false, now);
        } else {
            self.generation(slot.row).cannot_start(slot.index);
        }
    }

    /// The stop that the workers of this row got.
    pub(crate) fn requested(&self, row: usize) -> Option<Stop> {
        let generation = self.generations.iter().find(|one| one.row == row)?;
        generation.escalation.as_ref().map(Escalation::stop)
    }

    /// Requests a stop. It can become faster, never slower.
    pub(crate) fn stop(&mut self, stop: Stop, now: Instant) {
        self.stop = self.stop.max(Some(stop));
        for generation in &mut self.generations {
            match &mut generation.escalation {
                Some(escalation) => escalation.hasten(stop, now),
                None => generation.retire(Escalation::new(stop, &self.config, now)),
            }
        }
    }

    pub(crate) fn reload(&mut self) {
        self.reload = true;
        self.reload_waits = false;
        self.drained = false;
    }

    /// Requests a graceful stop of all workers. The master stays.
    pub(crate) fn drain(&mut self, now: Instant) {
        self.reload = false;
        self.drained = true;
        for generation in self.generations.iter_mut().filter(|one| one.is_serving()) {
            generation.retire(Escalation::new(Stop::Graceful, &self.config, now));
        }
    }

    pub(crate) fn serves(&self) -> bool {
        self.serving().next().is_some()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.drained
    }

    fn prune(&mut self) {
        let stop = &mut self.stop;
        self.generations
            .retain(|generation| match &generation.escalation {
                Some(escalation) if generation.is_empty() => {
                    // The stop may have become harder than the requested one.
                    *stop = stop.map(|stop| stop.max(escalation.stop()));
                    false
                }
                _ => true,
            });
    }

    fn outcome(&self) -> Option<Outcome> {
        match self.stop {
            Some(stop) => self
                .generations
                .is_empty()
                .then_some(Outcome::Stopped(stop)),
            None => match self.generations.as_slice() {
                [only] if only.is_serving() && only.all_refused() && !self.reload => {
                    Some(Outcome::AllRefused)
                }
                _ => None,
            },
        }
    }

    fn escalate(&mut self, now: Instant, wake: &mut Earliest) -> Option<Action> {
        // A stuck thread may keep its slot during a reload, but must not delay the end of the
        // server.
        let abandons = self.stop.is_some() && !self.config.can_kill;
        for generation in &mut self.generations {
            let row = generation.row;
            let Some(escalation) = &mut generation.escalation else {
                continue;
            };
            let step = escalation.next(now);
            if abandons && escalation.is_stuck() {
                return Some(Action::Abandon(row));
            }
            match step {
                Step::Request(stop) => return Some(Action::Stop(row, stop)),
                Step::Kill => return Some(Action::Kill(row)),
                Step::Stuck => return Some(Action::ReportStuck(row)),
                Step::Wait(until) => wake.add(until),
            }
        }
        None
    }

    /// Adds the requested generation if a row is free. Otherwise the reload waits, or is given up.
    fn begin_reload(&mut self, now: Instant) -> Option<Reload> {
        if !self.reload || self.stop.is_some() {
            return None;
        }
        let is_free = |row: &usize| self.generations.iter().all(|one| one.row != *row);
        let Some(row) = (0..GENERATIONS_MAX).find(is_free) else {
            return self.wait_for_row();
        };
        self.reload = false;
        self.is_reloading = true;
        self.generations
            .push(Generation::new(row, self.config.workers, now));
        Some(Reload::Started)
    }

    /// Reports once that the reload waits for a row. Gives the reload up if no row can become free,
    /// because at most one generation serves, and the workers of all others do not end.
    fn wait_for_row(&mut self) -> Option<Reload> {
        let serving = self.serving().count();
        let escalations = self
            .generations
            .iter()
            .filter_map(|one| one.escalation.as_ref());
        let stuck = escalations.filter(|one| one.is_stuck()).count();
        // If several generations serve, the newest takes over from the others, which frees rows.
        if serving > 1 || serving + stuck < GENERATIONS_MAX {
            let was_reported = mem::replace(&mut self.reload_waits, true);
            return (!was_reported).then_some(Reload::Waiting);
        }
        self.reload = false;
        self.drained = serving == 0;
        Some(Reload::Stuck)
    }

    /// Drops a generation whose workers have all refused, if another serves.
    fn drop_refused(&mut self) -> Option<Reload> {
        let serving = self.serving().count();
        let is_refused = |one: &Generation| one.is_serving() && one.all_refused();
        let at = self.generations.iter().position(is_refused)?;
        if serving == 1 {
            return None;
        }
        let is_newest = at + 1 == self.generations.len();
        self.generations.remove(at);
        // If an older generation has refused, a newer one replaces it anyway, so nothing is
        // reported.
        self.is_reloading &= !is_newest;
        is_newest.then_some(Reload::Refused)
    }

    /// Ends a reload if the newest generation can take over, and stops the older ones. Also ends a
    /// reload if the newest generation was stopped before it could take over.
    fn take_over(&mut self, now: Instant, wake: &mut Earliest) -> Option<Reload> {
        let newest = self.generations.split_last_mut();
        let Some((newest, older)) = newest.filter(|(newest, _)| newest.is_serving()) else {
            let is_drained = mem::take(&mut self.is_reloading) && self.stop.is_none();
            return is_drained.then_some(Reload::Drained);
        };
        if !self.is_reloading && !older.iter().any(Generation::is_serving) {
            return None;
        }
        match newest.takeover(self.config.timeouts.ready, now) {
            Takeover::Now => {
                for generation in older.iter_mut().filter(|one| one.is_serving()) {
                    generation.retire(Escalation::new(Stop::Graceful, &self.config, now));
                }
                self.is_reloading = false;
                Some(Reload::Done)
            }
            Takeover::At(at) => {
                wake.add(Some(at));
                None
            }
            Takeover::NotYet => None,
        }
    }

    /// The slot whose worker is started next, and the time of the start. None if no slot is vacant.
    fn next_start(&self) -> Option<(Instant, Slot)> {
        if self.config.slots_serve_alone {
            let start = |(vacancy, slot): (Vacancy, Slot)| {
                let coverage = self.serving().map(|one| one.coverage_at(slot.index));
                (vacancy.start_at(coverage.collect()), slot)
            };
            return self.vacancies().map(start).min();
        }
        // Chooses the slot whose full pause ends first, even if pauses are shortened. So each slot
        // has its turn.
        let (vacancy, slot) = self.vacancies().min()?;
        let coverage: Coverage = self.serving().map(Generation::coverage).collect();
        Some((vacancy.start_at(coverage), slot))
    }

    fn vacancies(&self) -> impl Iterator<Item = (Vacancy, Slot)> {
        self.serving().flat_map(|generation| {
            let row = generation.row;
            let slot = move |index| Slot { row, index };
            let vacancies = generation.vacancies();
            vacancies.map(move |vacancy| (vacancy, slot(vacancy.index)))
        })
    }

    fn serving(&self) -> impl Iterator<Item = &Generation> {
        self.generations.iter().filter(|one| one.is_serving())
    }

    fn generation(&mut self, row: usize) -> &mut Generation {
        let generation = self.generations.iter_mut().find(|one| one.row == row);
        generation.expect("a generation is kept as long as it has workers")
    }
}

#[derive(Debug, Default)]
struct Earliest(Option<Instant>);

impl Earliest {
    fn add(&mut self, at: Option<Instant>) {
        self.0 = self.0.into_iter().chain(at).min();
    }
}

#[cfg(test)]
mod tests;
