//! How the workers are pressed to go: asked, told, and killed, with time between.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::Stop;

/// Workers that TERM has not ended after this are killed.
const KILL_AFTER: Duration = Duration::from_secs(1);

/// Workers that KILL has not ended after this may never end: a thread, or a process that the kernel
/// does not let go.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// A stop that is under way. It only ever gets harder.
#[derive(Debug)]
pub(crate) struct Stopping {
    rung: Rung,
    /// When it gets harder by itself. None: never.
    climb_at: Option<Instant>,
    /// Whether the workers were sent this rung's signal.
    told: bool,
}

/// What to do to the workers that are left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Press {
    /// Send them this.
    Signal(Signal),
    /// Give them until then.
    Wait(Option<Instant>),
}

#[derive(Clone, Copy, Debug)]
enum Rung {
    Quit,
    Term,
    Kill,
    Stuck,
}

impl Stopping {
    pub(crate) fn new(stop: Stop, stop_timeout: Duration, now: Instant) -> Self {
        match stop {
            // A timeout past the clock's end never comes.
            Stop::Graceful => Self::at(Rung::Quit, now.checked_add(stop_timeout)),
            Stop::Fast => Self::fast(now),
        }
    }

    /// A stop was asked for again: nothing changes unless it is to be faster.
    pub(crate) fn hasten(&mut self, stop: Stop, now: Instant) {
        if stop > self.how() {
            *self = Self::fast(now);
        }
    }

    pub(crate) fn next(&mut self, now: Instant) -> Press {
        if self.told && self.climb_at.is_some_and(|at| at <= now) {
            *self = self.harder(now);
        }
        if self.told {
            return Press::Wait(self.climb_at);
        }
        self.told = true;
        match self.rung {
            Rung::Quit => Press::Signal(Signal::QUIT),
            Rung::Term => Press::Signal(Signal::TERM),
            Rung::Kill => Press::Signal(Signal::KILL),
            Rung::Stuck => Press::Wait(None),
        }
    }

    /// Whether those that are left may never end.
    pub(crate) fn is_stuck(&self) -> bool {
        matches!(self.rung, Rung::Stuck)
    }

    /// Which stop it has become.
    pub(crate) fn how(&self) -> Stop {
        match self.rung {
            Rung::Quit => Stop::Graceful,
            Rung::Term | Rung::Kill | Rung::Stuck => Stop::Fast,
        }
    }

    fn harder(&self, now: Instant) -> Self {
        match self.rung {
            Rung::Quit => Self::fast(now),
            Rung::Term => Self::at(Rung::Kill, Some(now + STUCK_AFTER)),
            Rung::Kill | Rung::Stuck => Self::at(Rung::Stuck, None),
        }
    }

    fn fast(now: Instant) -> Self {
        Self::at(Rung::Term, Some(now + KILL_AFTER))
    }

    fn at(rung: Rung, climb_at: Option<Instant>) -> Self {
        Self {
            rung,
            climb_at,
            told: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOP_TIMEOUT: Duration = Duration::from_secs(30);

    #[test]
    fn a_fast_stop_terminates_and_a_second_later_kills() {
        let start = Instant::now();
        let mut stopping = Stopping::new(Stop::Fast, STOP_TIMEOUT, start);
        assert_eq!(stopping.next(start), Press::Signal(Signal::TERM));
        let kill_at = start + Duration::from_secs(1);
        assert_eq!(stopping.next(start), Press::Wait(Some(kill_at)));
        assert_eq!(stopping.next(kill_at), Press::Signal(Signal::KILL));
        assert_eq!(stopping.how(), Stop::Fast);
    }

    #[test]
    fn workers_that_are_killed_in_vain_are_stuck_a_second_later() {
        let start = Instant::now();
        let mut stopping = Stopping::new(Stop::Fast, STOP_TIMEOUT, start);
        assert_eq!(stopping.next(start), Press::Signal(Signal::TERM));
        let kill_at = start + KILL_AFTER;
        assert_eq!(stopping.next(kill_at), Press::Signal(Signal::KILL));
        let stuck_at = kill_at + Duration::from_secs(1);
        assert_eq!(stopping.next(kill_at), Press::Wait(Some(stuck_at)));
        assert!(!stopping.is_stuck());
        assert_eq!(stopping.next(stuck_at), Press::Wait(None));
        assert!(stopping.is_stuck());
        assert_eq!(stopping.how(), Stop::Fast);
    }

    #[test]
    fn a_graceful_stop_becomes_fast_when_its_time_is_up() {
        let start = Instant::now();
        let mut stopping = Stopping::new(Stop::Graceful, STOP_TIMEOUT, start);
        assert_eq!(stopping.next(start), Press::Signal(Signal::QUIT));
        let term_at = start + STOP_TIMEOUT;
        let just_before = term_at - Duration::from_nanos(1);
        assert_eq!(stopping.next(just_before), Press::Wait(Some(term_at)));
        assert_eq!(stopping.how(), Stop::Graceful);
        assert_eq!(stopping.next(term_at), Press::Signal(Signal::TERM));
        let kill_at = term_at + KILL_AFTER;
        assert_eq!(stopping.next(term_at), Press::Wait(Some(kill_at)));
        assert_eq!(stopping.how(), Stop::Fast);
    }

    #[test]
    fn a_stop_timeout_past_the_clocks_end_never_comes() {
        let now = Instant::now();
        let mut stopping = Stopping::new(Stop::Graceful, Duration::MAX, now);
        assert_eq!(stopping.next(now), Press::Signal(Signal::QUIT));
        assert_eq!(stopping.next(now), Press::Wait(None));
    }

    #[test]
    fn asking_again_neither_slows_a_stop_nor_starts_it_anew() {
        let start = Instant::now();
        let mut stopping = Stopping::new(Stop::Fast, STOP_TIMEOUT, start);
        assert_eq!(stopping.next(start), Press::Signal(Signal::TERM));
        let later = start + KILL_AFTER / 2;
        for stop in [Stop::Graceful, Stop::Fast] {
            stopping.hasten(stop, later);
            let kill_at = start + KILL_AFTER;
            assert_eq!(stopping.next(later), Press::Wait(Some(kill_at)));
        }
    }
}
