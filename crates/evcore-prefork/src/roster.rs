//! Who works, who is due to be forked, and whether all of it is over.
//!
//! Decisions only: no process, no signal and no clock, so that every order of events can be tried
//! in a test. The master says what happened ([`forked`](Roster::forked), [`ended`](Roster::ended),
//! [`stop`](Roster::stop)) and asks for its [`next`](Roster::next) action until that is to wait.

use std::{
    process::ExitStatus,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

use crate::{
    DO_NOT_RESTART, Outcome, Stop,
    stopping::{Press, Stopping},
};

/// A worker that lived this long was well: its replacement is forked at once.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// The first pause before a worker that died young is replaced; each further one doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The workers' slots, and how far a stop has come.
#[derive(Debug)]
pub(crate) struct Roster {
    slots: Vec<Slot>,
    stop_timeout: Duration,
    /// None while it serves.
    stopping: Option<Stopping>,
}

/// What the master is to do now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Fork a worker for this slot, then say `forked` or `fork_failed`.
    Fork(usize),
    /// Send this signal to every worker that runs.
    Signal(Signal),
    /// Wait for a signal, or until then.
    Wait(Option<Instant>),
    /// Nothing is left to watch.
    Done(Outcome),
}

impl Roster {
    /// `workers` slots, all due at `now`.
    pub(crate) fn new(workers: usize, stop_timeout: Duration, now: Instant) -> Self {
        let slot = Slot {
            state: State::Due(now),
            failures: 0,
        };
        Self {
            slots: vec![slot; workers],
            stop_timeout,
            stopping: None,
        }
    }

    /// What to do next, given all that was said so far.
    pub(crate) fn next(&mut self, now: Instant) -> Action {
        if let Some(outcome) = self.outcome() {
            return Action::Done(outcome);
        }
        match &mut self.stopping {
            None => self.next_fork(now),
            Some(stopping) => match stopping.next(now) {
                Press::Signal(signal) => Action::Signal(signal),
                Press::Wait(until) => Action::Wait(until),
            },
        }
    }

    /// The slot has a worker.
    pub(crate) fn forked(&mut self, index: usize, pid: Pid, now: Instant) {
        self.slots[index].state = State::Runs { pid, since: now };
    }

    /// The slot has no worker: it counts as one that died young.
    pub(crate) fn fork_failed(&mut self, index: usize, now: Instant) {
        self.slots[index].fail(now);
    }

    /// The slot's worker is gone. `status` is None where nobody knows how.
    pub(crate) fn ended(&mut self, index: usize, status: Option<ExitStatus>, now: Instant) {
        let slot = &mut self.slots[index];
        let State::Runs { since, .. } = slot.state else {
            debug_assert!(false, "slot {index} had no worker that could end");
            return;
        };
        if status.and_then(|status| status.code()) == Some(DO_NOT_RESTART) {
            slot.state = State::Closed;
        } else if now.saturating_duration_since(since) < SETTLED_AFTER {
            slot.fail(now);
        } else {
            slot.failures = 0;
            slot.state = State::Due(now);
        }
    }

    /// A stop was asked for. It can be made faster, never slower.
    pub(crate) fn stop(&mut self, stop: Stop, now: Instant) {
        match &mut self.stopping {
            Some(stopping) => stopping.hasten(stop, now),
            None => self.stopping = Some(Stopping::new(stop, self.stop_timeout, now)),
        }
    }

    /// The workers that run, by index.
    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, Pid)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| match slot.state {
            State::Runs { pid, .. } => Some((index, pid)),
            State::Due(_) | State::Closed => None,
        })
    }

    fn outcome(&self) -> Option<Outcome> {
        match &self.stopping {
            Some(stopping) => {
                let all_gone = self.running().next().is_none();
                all_gone.then(|| Outcome::Stopped(stopping.how()))
            }
            None => {
                let all_closed = self.slots.iter().all(|slot| slot.state == State::Closed);
                all_closed.then_some(Outcome::Refused)
            }
        }
    }

    fn next_fork(&self, now: Instant) -> Action {
        let due = |(index, slot): (usize, &Slot)| match slot.state {
            State::Due(at) => Some((at, index)),
            State::Runs { .. } | State::Closed => None,
        };
        match self.slots.iter().enumerate().filter_map(due).min() {
            Some((at, index)) if at <= now => Action::Fork(index),
            first => Action::Wait(first.map(|(at, _)| at)),
        }
    }
}

#[derive(Clone, Debug)]
struct Slot {
    state: State,
    /// Young deaths and failed forks in a row.
    failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Due(Instant),
    Runs {
        pid: Pid,
        since: Instant,
    },
    /// Its worker asked not to be replaced.
    Closed,
}

impl Slot {
    fn fail(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.state = State::Due(now + pause(self.failures));
    }
}

/// The pause after so many failures in a row.
fn pause(failures: u32) -> Duration {
    // 2^16 times the least pause is past the greatest, and far from overflow.
    let doublings = failures.saturating_sub(1).min(16);
    (PAUSE_MIN * (1 << doublings)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const STOP_TIMEOUT: Duration = Duration::from_secs(30);

    /// A roster, its clock, and the number that the next worker's process id is made of.
    struct Play {
        roster: Roster,
        now: Instant,
        forks: i32,
    }

    impl Play {
        fn with_workers(workers: usize) -> Self {
            let now = Instant::now();
            let roster = Roster::new(workers, STOP_TIMEOUT, now);
            let forks = 0;
            Self { roster, now, forks }
        }

        /// All workers forked and nothing left to do.
        fn serving(workers: usize) -> Self {
            let mut play = Self::with_workers(workers);
            for index in 0..workers {
                assert_eq!(play.next(), Action::Fork(index));
                play.forked(index);
            }
            assert_eq!(play.next(), Action::Wait(None));
            play
        }

        fn next(&mut self) -> Action {
            self.roster.next(self.now)
        }

        fn forked(&mut self, index: usize) {
            self.forks += 1;
            let pid = Pid::from_raw(1000 + self.forks).unwrap();
            self.roster.forked(index, pid, self.now);
        }

        fn ended(&mut self, index: usize, status: ExitStatus) {
            self.roster.ended(index, Some(status), self.now);
        }

        fn stop(&mut self, stop: Stop) {
            self.roster.stop(stop, self.now);
        }

        fn waits_for(&mut self, pause: Duration) {
            assert_eq!(self.next(), Action::Wait(Some(self.now + pause)));
            self.now += pause;
        }
    }

    fn code(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    fn killed() -> ExitStatus {
        ExitStatus::from_raw(libc::SIGKILL)
    }

    #[test]
    fn every_slot_is_forked_in_order() {
        let play = Play::serving(3);
        let indices: Vec<_> = play.roster.running().map(|(index, _)| index).collect();
        assert_eq!(indices, [0, 1, 2]);
    }

    #[test]
    fn a_settled_worker_is_replaced_at_once_whatever_its_end() {
        for status in [code(0), code(1), code(101), killed()] {
            let mut play = Play::serving(2);
            play.now += SETTLED_AFTER;
            play.ended(1, status);
            assert_eq!(play.next(), Action::Fork(1), "after {status}");
        }
    }

    #[test]
    fn a_worker_that_nobody_saw_end_is_replaced() {
        let mut play = Play::serving(1);
        play.now += SETTLED_AFTER;
        play.roster.ended(0, None, play.now);
        assert_eq!(play.next(), Action::Fork(0));
    }

    #[test]
    fn pauses_double_from_a_tenth_of_a_second_to_ten() {
        let pauses: Vec<_> = (1..=9).map(|n| pause(n).as_millis()).collect();
        assert_eq!(
            pauses,
            [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
        );
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }

    #[test]
    fn a_worker_that_dies_young_is_replaced_after_growing_pauses() {
        let mut play = Play::serving(1);
        for failures in 1..=10 {
            play.now += SETTLED_AFTER - Duration::from_nanos(1);
            play.ended(0, killed());
            play.waits_for(pause(failures));
            assert_eq!(play.next(), Action::Fork(0));
            play.forked(0);
        }
    }

    #[test]
    fn one_long_life_forgives_the_young_deaths_before_it() {
        let mut play = Play::serving(1);
        for _ in 0..3 {
            play.ended(0, killed());
            play.now += PAUSE_MAX;
            play.forked(0);
        }
        play.now += SETTLED_AFTER;
        play.ended(0, killed());
        assert_eq!(play.next(), Action::Fork(0));
        play.forked(0);
        play.ended(0, killed());
        play.waits_for(PAUSE_MIN);
    }

    #[test]
    fn one_slots_pause_holds_no_other_slot_up() {
        let mut play = Play::serving(2);
        play.ended(0, killed());
        play.now += SETTLED_AFTER / 20;
        play.ended(1, killed());
        play.waits_for(PAUSE_MIN - SETTLED_AFTER / 20);
        assert_eq!(play.next(), Action::Fork(0));
        play.forked(0);
        play.waits_for(SETTLED_AFTER / 20);
        assert_eq!(play.next(), Action::Fork(1));
    }

    #[test]
    fn a_failed_fork_is_tried_again_after_growing_pauses() {
        let mut play = Play::with_workers(1);
        for failures in 1..=3 {
            assert_eq!(play.next(), Action::Fork(0));
            play.roster.fork_failed(0, play.now);
            play.waits_for(pause(failures));
        }
    }

    #[test]
    fn exit_code_two_closes_the_slot() {
        let mut play = Play::serving(2);
        play.now += SETTLED_AFTER;
        play.ended(0, code(DO_NOT_RESTART));
        assert_eq!(play.next(), Action::Wait(None));
    }

    #[test]
    fn all_slots_closed_is_the_end() {
        let mut play = Play::serving(2);
        play.ended(0, code(DO_NOT_RESTART));
        play.ended(1, code(DO_NOT_RESTART));
        assert_eq!(play.next(), Action::Done(Outcome::Refused));
    }

    #[test]
    fn signal_two_is_not_exit_code_two() {
        let mut play = Play::serving(1);
        play.now += SETTLED_AFTER;
        play.ended(0, ExitStatus::from_raw(libc::SIGINT));
        assert_eq!(play.next(), Action::Fork(0));
    }

    #[test]
    fn a_graceful_stop_is_graceful_when_all_ended_in_time() {
        let mut play = Play::serving(2);
        play.stop(Stop::Graceful);
        assert_eq!(play.next(), Action::Signal(Signal::QUIT));
        play.ended(0, code(0));
        assert_eq!(play.next(), Action::Wait(Some(play.now + STOP_TIMEOUT)));
        play.ended(1, code(1));
        assert_eq!(play.next(), Action::Done(Outcome::Stopped(Stop::Graceful)));
    }

    #[test]
    fn a_fast_stop_overtakes_a_graceful_one() {
        let mut play = Play::serving(1);
        play.stop(Stop::Graceful);
        assert_eq!(play.next(), Action::Signal(Signal::QUIT));
        play.stop(Stop::Fast);
        assert_eq!(play.next(), Action::Signal(Signal::TERM));
        play.ended(0, code(0));
        assert_eq!(play.next(), Action::Done(Outcome::Stopped(Stop::Fast)));
    }

    #[test]
    fn nobody_is_replaced_during_a_stop() {
        let mut play = Play::serving(3);
        play.ended(0, killed());
        play.stop(Stop::Graceful);
        play.now += SETTLED_AFTER;
        play.ended(1, killed());
        assert_eq!(play.next(), Action::Signal(Signal::QUIT));
        assert!(matches!(play.next(), Action::Wait(Some(_))));
        let indices: Vec<_> = play.roster.running().map(|(index, _)| index).collect();
        assert_eq!(indices, [2]);
    }

    #[test]
    fn a_stop_with_nobody_left_is_over_at_once() {
        let mut play = Play::serving(1);
        play.ended(0, killed());
        play.stop(Stop::Graceful);
        assert_eq!(play.next(), Action::Done(Outcome::Stopped(Stop::Graceful)));
    }
}
