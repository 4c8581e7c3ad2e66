//! Which sets of workers there are, who is due to be started, who is to go, and whether all is
//! over.
//!
//! Decisions only: no process, no thread, no signal and no clock, so that every order of events can
//! be tried in a test. The master says what happened ([`started`](Roster::started),
//! [`ended`](Roster::ended), [`reload`](Roster::reload) and so on) and asks for its
//! [`next`](Roster::next) action until that is to wait.
//!
//! A reload adds a set beside those that serve. Once the newest set is [ready](Relief), all older
//! ones are sent away; so at every moment some set serves, but for one that never came to serve.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{
    Outcome, Reload, Stop,
    set::{Cover, Due, Relief, Set},
    stopping::{Press, Stopping},
};

/// How many sets there may be at once: one that serves, one that comes, and two that still finish.
/// A reload that would be one too many waits.
pub(crate) const SETS_MAX: usize = 4;

/// All sets, oldest first, and what was asked for.
#[derive(Debug)]
pub(crate) struct Roster {
    workers: usize,
    patience: Patience,
    /// Workers of other slots do not serve a slot's clients.
    slots_serve_alone: bool,
    sets: Vec<Set>,
    /// A new set is asked for, and has not begun.
    reload: bool,
    /// All workers were sent away, and the master stays.
    resting: bool,
    /// The stop that was asked for, or that it has become.
    stop: Option<Stop>,
}

/// How long workers may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// To finish, once they were asked to go.
    pub(crate) stop: Duration,
    /// To say that they serve.
    pub(crate) ready: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            stop: Duration::from_secs(30),
            ready: Duration::from_secs(1),
        }
    }
}

/// Where a worker sits: no two that live share a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seat {
    pub(crate) bank: usize,
    pub(crate) index: usize,
}

impl Seat {
    /// The seat as one number, below the workers of a set times `SETS_MAX`.
    pub(crate) fn number(self, workers: usize) -> usize {
        self.bank * workers + self.index
    }
}

/// What the master is to do now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start a worker for this seat, then say `started` or `start_failed`.
    Start(Seat),
    /// Send this signal to every worker of this bank.
    Signal(usize, Signal),
    /// Tell the application.
    Tell(Reload),
    /// Wait for something to happen, or until then.
    Wait(Option<Instant>),
    /// Nothing is left to watch.
    Done(Outcome),
}

impl Roster {
    /// One set of `workers`, all due at `now`.
    pub(crate) fn new(workers: usize, patience: Patience, now: Instant) -> Self {
        Self {
            workers,
            patience,
            slots_serve_alone: false,
            sets: vec![Set::new(0, workers, now)],
            reload: false,
            resting: false,
            stop: None,
        }
    }

    /// The same, where the clients of a slot are served by its own workers alone.
    pub(crate) fn slots_serve_alone(mut self, alone: bool) -> Self {
        self.slots_serve_alone = alone;
        self
    }

    /// What to do next, given all that was said so far.
    pub(crate) fn next(&mut self, now: Instant) -> Action {
        self.bury();
        if let Some(outcome) = self.outcome() {
            return Action::Done(outcome);
        }
        let mut wake = Earliest::default();
        for set in &mut self.sets {
            match set.leaving.as_mut().map(|leaving| leaving.next(now)) {
                Some(Press::Signal(signal)) => return Action::Signal(set.bank, signal),
                Some(Press::Wait(until)) => wake.add(until),
                None => {}
            }
        }
        let told = self.begin_reload(now).or_else(|| self.drop_refused());
        let told = told.or_else(|| self.relieve(now, &mut wake));
        if let Some(reload) = told {
            return Action::Tell(reload);
        }
        match self.next_due() {
            Some((at, seat)) if at <= now => Action::Start(seat),
            first => {
                wake.add(first.map(|(at, _)| at));
                Action::Wait(wake.0)
            }
        }
    }

    pub(crate) fn started(&mut self, seat: Seat, now: Instant) {
        self.set(seat.bank).started(seat.index, now);
    }

    pub(crate) fn start_failed(&mut self, seat: Seat, now: Instant) {
        self.set(seat.bank).start_failed(seat.index, now);
    }

    /// The seat's worker says that it serves.
    pub(crate) fn ready(&mut self, seat: Seat) {
        self.set(seat.bank).ready(seat.index);
    }

    /// The seat's worker is gone, and has `refused` to be replaced or not.
    pub(crate) fn ended(&mut self, seat: Seat, refused: bool, now: Instant) {
        self.set(seat.bank).ended(seat.index, refused, now);
    }

    /// The stop that the workers of a bank were asked for.
    pub(crate) fn asked(&self, bank: usize) -> Option<Stop> {
        let set = self.sets.iter().find(|set| set.bank == bank)?;
        set.leaving.as_ref().map(Stopping::how)
    }

    /// A stop was asked for. It can be made faster, never slower.
    pub(crate) fn stop(&mut self, stop: Stop, now: Instant) {
        self.stop = self.stop.max(Some(stop));
        for set in &mut self.sets {
            match &mut set.leaving {
                Some(leaving) => leaving.hasten(stop, now),
                None => set.leave(Stopping::new(stop, self.patience.stop, now)),
            }
        }
    }

    /// A new set is asked for.
    pub(crate) fn reload(&mut self) {
        self.reload = true;
        self.resting = false;
    }

    /// The workers are to go, and the master is to stay.
    pub(crate) fn rest(&mut self, now: Instant) {
        self.reload = false;
        self.resting = true;
        for set in self.sets.iter_mut().filter(|set| set.serves()) {
            set.leave(Stopping::new(Stop::Graceful, self.patience.stop, now));
        }
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.resting
    }

    /// Forgets the sets that were sent away and are gone.
    fn bury(&mut self) {
        let stop = &mut self.stop;
        self.sets.retain(|set| match &set.leaving {
            Some(leaving) if set.is_empty() => {
                // It may have taken more than what was asked for.
                *stop = stop.map(|stop| stop.max(leaving.how()));
                false
            }
            _ => true,
        });
    }

    fn outcome(&self) -> Option<Outcome> {
        match self.stop {
            Some(stop) => self.sets.is_empty().then_some(Outcome::Stopped(stop)),
            None => match self.sets.as_slice() {
                [only] if only.serves() && only.is_closed() && !self.reload => {
                    Some(Outcome::Refused)
                }
                _ => None,
            },
        }
    }

    /// Adds the set that was asked for, as soon as there is a bank for it, or gives it up.
    fn begin_reload(&mut self, now: Instant) -> Option<Reload> {
        if !self.reload || self.stop.is_some() {
            return None;
        }
        let is_free = |bank: &usize| self.sets.iter().all(|set| set.bank != *bank);
        let Some(bank) = (0..SETS_MAX).find(is_free) else {
            return self.give_reload_up();
        };
        self.reload = false;
        self.sets.push(Set::new(bank, self.workers, now));
        Some(Reload::Begins)
    }

    /// Gives a reload up if no bank can be expected to become free: one set serves, and the workers
    /// of all others do not end.
    fn give_reload_up(&mut self) -> Option<Reload> {
        let serving = self.serving().count();
        let leaving = self.sets.iter().filter_map(|set| set.leaving.as_ref());
        let stuck = leaving.filter(|leaving| leaving.is_stuck()).count();
        // Of several sets that serve, the newest takes over from the others.
        if serving > 1 || serving + stuck < SETS_MAX {
            return None;
        }
        self.reload = false;
        self.resting = serving == 0;
        Some(Reload::Stuck)
    }

    /// Drops a set of which nobody is left or wanted, if another serves.
    fn drop_refused(&mut self) -> Option<Reload> {
        let serving = self.serving().count();
        let is_refused = |set: &Set| set.serves() && set.is_closed();
        let at = self.sets.iter().position(is_refused)?;
        if serving == 1 {
            return None;
        }
        let newest = at + 1 == self.sets.len();
        self.sets.remove(at);
        // An older set that is gone is for the newer ones to replace.
        newest.then_some(Reload::Refused)
    }

    /// Sends the older sets away if the newest can take over.
    fn relieve(&mut self, now: Instant, wake: &mut Earliest) -> Option<Reload> {
        let (newest, older) = self.sets.split_last_mut()?;
        if newest.leaving.is_some() || !older.iter().any(Set::serves) {
            return None;
        }
        match newest.relief(self.patience.ready, now) {
            Relief::Ready => {
                for set in older.iter_mut().filter(|set| set.serves()) {
                    set.leave(Stopping::new(Stop::Graceful, self.patience.stop, now));
                }
                Some(Reload::Done)
            }
            Relief::ReadyAt(at) => {
                wake.add(Some(at));
                None
            }
            Relief::NotYet => None,
        }
    }

    /// The slot whose worker is started next, and when. None: no slot waits for one.
    fn next_due(&self) -> Option<(Instant, Seat)> {
        if self.slots_serve_alone {
            let start = |(due, seat): (Due, Seat)| {
                let covers = self.serving().map(|set| set.cover_at(seat.index));
                (due.start_at(covers.collect()), seat)
            };
            return self.due().map(start).min();
        }
        // The one whose pause ends first, also where pauses are cut short: so each has its turn.
        let (due, seat) = self.due().min()?;
        let cover: Cover = self.serving().map(Set::cover).collect();
        Some((due.start_at(cover), seat))
    }

    fn due(&self) -> impl Iterator<Item = (Due, Seat)> {
        let seat = |set: &Set, due: Due| Seat {
            bank: set.bank,
            index: due.index,
        };
        self.serving()
            .flat_map(move |set| set.due().map(move |due| (due, seat(set, due))))
    }

    /// The sets that take clients in.
    fn serving(&self) -> impl Iterator<Item = &Set> {
        self.sets.iter().filter(|set| set.serves())
    }

    fn set(&mut self, bank: usize) -> &mut Set {
        let set = self.sets.iter_mut().find(|set| set.bank == bank);
        set.expect("a set is kept as long as it has workers")
    }
}

/// The earliest of some times. None: there was none.
#[derive(Debug, Default)]
struct Earliest(Option<Instant>);

impl Earliest {
    fn add(&mut self, at: Option<Instant>) {
        self.0 = self.0.into_iter().chain(at).min();
    }
}

#[cfg(test)]
mod tests;
