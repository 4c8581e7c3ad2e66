//! A stop that gets harder with time: a graceful stop, then a fast one, then a kill.

use std::time::{Duration, Instant};

use super::Config;
use crate::stop::Stop;

/// The time from a fast stop to the kill, or until a thread counts as stuck.
const KILL_AFTER: Duration = Duration::from_secs(1);

/// The time from the kill until a worker counts as stuck, because the kernel does not release its
/// process.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// A stop that is under way, and can only get harder.
#[derive(Debug)]
pub(crate) struct Escalation {
    stage: Stage,
    /// The time at which the next stage begins by itself. `None` if it never does.
    next_at: Option<Instant>,
    /// True if `next` has returned the step of this stage.
    is_taken: bool,
    can_kill: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Request(Stop),
    Kill,
    Stuck,
    /// Wait for the workers until this time.
    Wait(Option<Instant>),
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Graceful,
    Fast,
    Kill,
    Stuck,
}

impl Escalation {
    pub(crate) fn new(stop: Stop, config: &Config, now: Instant) -> Self {
        let (stage, next_at) = match stop {
            // A far timeout exceeds the clock's range, and never passes.
            Stop::Graceful => (Stage::Graceful, now.checked_add(config.timeouts.stop)),
            Stop::Fast => (Stage::Fast, Some(now + KILL_AFTER)),
        };
        Self {
            stage,
            next_at,
            is_taken: false,
            can_kill: config.can_kill,
        }
    }

    /// Requests a stop again. A stop that is not faster than the present one changes nothing.
    pub(crate) fn hasten(&mut self, stop: Stop, now: Instant) {
        if stop > self.stop() {
            self.enter(Stage::Fast, now);
        }
    }

    pub(crate) fn next(&mut self, now: Instant) -> Step {
        if self.is_taken && self.next_at.is_some_and(|at| at <= now) {
            self.enter(self.harder(), now);
        }
        if self.is_taken {
            return Step::Wait(self.next_at);
        }
        self.is_taken = true;
        match self.stage {
            Stage::Graceful => Step::Request(Stop::Graceful),
            Stage::Fast => Step::Request(Stop::Fast),
            Stage::Kill => Step::Kill,
            Stage::Stuck => Step::Stuck,
        }
    }

    pub(crate) fn is_stuck(&self) -> bool {
        matches!(self.stage, Stage::Stuck)
    }

    pub(crate) fn stop(&self) -> Stop {
        match self.stage {
            Stage::Graceful => Stop::Graceful,
            Stage::Fast | Stage::Kill | Stage::Stuck => Stop::Fast,
        }
    }

    fn harder(&self) -> Stage {
        match self.stage {
            Stage::Graceful => Stage::Fast,
            Stage::Fast if self.can_kill => Stage::Kill,
            Stage::Fast | Stage::Kill | Stage::Stuck => Stage::Stuck,
        }
    }

    fn enter(&mut self, stage: Stage, now: Instant) {
        self.next_at = match stage {
            Stage::Fast => Some(now + KILL_AFTER),
            Stage::Kill => Some(now + STUCK_AFTER),
            Stage::Graceful | Stage::Stuck => None,
        };
        self.stage = stage;
        self.is_taken = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Timeouts;

    const STOP_TIMEOUT: Duration = Duration::from_secs(30);

    fn config(stop: Duration) -> Config {
        let ready = Duration::ZERO;
        Config {
            workers: 1,
            timeouts: Timeouts { stop, ready },
            slots_serve_alone: false,
            can_kill: true,
        }
    }

    fn escalation(stop: Stop, now: Instant) -> Escalation {
        Escalation::new(stop, &config(STOP_TIMEOUT), now)
    }

    #[test]
    fn a_fast_stop_kills_a_second_later() {
        let start = Instant::now();
        let mut escalation = escalation(Stop::Fast, start);
        assert_eq!(escalation.next(start), Step::Request(Stop::Fast));
        let kill_at = start + Duration::from_secs(1);
        assert_eq!(escalation.next(start), Step::Wait(Some(kill_at)));
        assert_eq!(escalation.next(kill_at), Step::Kill);
        assert_eq!(escalation.stop(), Stop::Fast);
    }

    #[test]
    fn workers_are_stuck_a_second_after_the_kill() {
        let start = Instant::now();
        let mut escalation = escalation(Stop::Fast, start);
        assert_eq!(escalation.next(start), Step::Request(Stop::Fast));
        let kill_at = start + KILL_AFTER;
        assert_eq!(escalation.next(kill_at), Step::Kill);
        let stuck_at = kill_at + Duration::from_secs(1);
        assert_eq!(escalation.next(kill_at), Step::Wait(Some(stuck_at)));
        assert!(!escalation.is_stuck());
        assert_eq!(escalation.next(stuck_at), Step::Stuck);
        assert_eq!(escalation.next(stuck_at), Step::Wait(None));
        assert!(escalation.is_stuck());
        assert_eq!(escalation.stop(), Stop::Fast);
    }

    #[test]
    fn threads_are_stuck_a_second_after_the_fast_stop() {
        let start = Instant::now();
        let can_kill = false;
        let config = Config {
            can_kill,
            ..config(STOP_TIMEOUT)
        };
        let mut escalation = Escalation::new(Stop::Fast, &config, start);
        assert_eq!(escalation.next(start), Step::Request(Stop::Fast));
        let stuck_at = start + Duration::from_secs(1);
        assert_eq!(escalation.next(start), Step::Wait(Some(stuck_at)));
        assert!(!escalation.is_stuck());
        assert_eq!(escalation.next(stuck_at), Step::Stuck);
        assert_eq!(escalation.next(stuck_at), Step::Wait(None));
    }

    #[test]
    fn a_graceful_stop_becomes_fast_at_its_timeout() {
        let start = Instant::now();
        let mut escalation = escalation(Stop::Graceful, start);
        assert_eq!(escalation.next(start), Step::Request(Stop::Graceful));
        let fast_at = start + STOP_TIMEOUT;
        let just_before = fast_at - Duration::from_nanos(1);
        assert_eq!(escalation.next(just_before), Step::Wait(Some(fast_at)));
        assert_eq!(escalation.stop(), Stop::Graceful);
        assert_eq!(escalation.next(fast_at), Step::Request(Stop::Fast));
        let kill_at = fast_at + KILL_AFTER;
        assert_eq!(escalation.next(fast_at), Step::Wait(Some(kill_at)));
        assert_eq!(escalation.stop(), Stop::Fast);
    }

    #[test]
    fn a_stop_timeout_past_the_clocks_end_never_comes() {
        let now = Instant::now();
        let mut escalation = Escalation::new(Stop::Graceful, &config(Duration::MAX), now);
        assert_eq!(escalation.next(now), Step::Request(Stop::Graceful));
        assert_eq!(escalation.next(now), Step::Wait(None));
    }

    #[test]
    fn a_repeated_stop_neither_slows_nor_restarts_the_escalation() {
        let start = Instant::now();
        let mut escalation = escalation(Stop::Fast, start);
        assert_eq!(escalation.next(start), Step::Request(Stop::Fast));
        let later = start + KILL_AFTER / 2;
        for stop in [Stop::Graceful, Stop::Fast] {
            escalation.hasten(stop, later);
            let kill_at = start + KILL_AFTER;
            assert_eq!(escalation.next(later), Step::Wait(Some(kill_at)));
        }
    }
}
