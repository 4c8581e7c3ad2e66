//! Turns that take too long, and the step that they spent the most of it in.
//!
//! A clock is read for each step, when it is asked for: that ends the step before, and begins this
//! one.
//!
//! Where there is no watchdog a step costs nothing for it, not even the question whether there is
//! one.
//! A turn that is watched has a phase of its own, behind which its true phase is kept here, and
//! between two steps its batch is withheld: so the short way, on which events go, comes to an end,
//! and the long way leads here.
//!
//! Deliberately absent: a turn that never ends. No loop can tell that of itself; who watches from
//! outside can, by a heartbeat.

use std::{mem, time::Duration};

use crate::{Acceptor, EventLoop, SlowStep, SlowTurn, Step, StepKind, turn::Phase};

/// The limit, the turn under way, and the worst of those that are over.
#[derive(Debug)]
pub(crate) struct Watchdog {
    limit: Duration,
    /// Where the turn is, while the loop says that it is watched.
    phase: Phase,
    /// When the step that is under way began or, where none is, the turn did.
    since_ns: u64,
    step: Option<StepKind>,
    steps: u64,
    longest: Option<SlowStep>,
    /// Since it was last asked for.
    worst: Option<SlowTurn>,
}

impl Watchdog {
    /// That reports turns that take longer than this.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            phase: Phase::Over,
            since_ns: 0,
            step: None,
            steps: 0,
            longest: None,
            worst: None,
        }
    }

    /// A turn begins.
    pub(crate) fn turn_begins(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
        self.step = None;
        self.steps = 0;
        self.longest = None;
    }

    /// The step that is under way ends here, if there is one.
    fn step_ends(&mut self, now_ns: u64) {
        let took = Duration::from_nanos(now_ns.saturating_sub(self.since_ns));
        self.since_ns = now_ns;
        let Some(kind) = self.step.take() else {
            return;
        };
        self.steps += 1;
        if self.longest.is_none_or(|longest| took > longest.took) {
            self.longest = Some(SlowStep { kind, took });
        }
    }

    /// The turn ends here, having taken so long. Says whether that was too long.
    pub(crate) fn turn_ends(&mut self, ended: Ended) -> bool {
        self.step_ends(ended.now_ns);
        let is_slow = ended.took > self.limit;
        if is_slow && self.worst.is_none_or(|worst| ended.took > worst.took) {
            self.worst = Some(SlowTurn {
                turn: ended.turn,
                began_unix_ms: ended.began_unix_ms,
                took: ended.took,
                steps: self.steps,
                longest: self.longest,
            });
        }
        is_slow
    }

    /// The worst since this was asked last.
    pub(crate) fn take_worst(&mut self) -> Option<SlowTurn> {
        self.worst.take()
    }
}

/// What is known of a turn when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) turn: u64,
    pub(crate) began_unix_ms: i64,
    pub(crate) took: Duration,
    pub(crate) now_ns: u64,
}

impl<L: Acceptor> EventLoop<L> {
    /// Between two steps: the next is found by [`next_watched`](Self::next_watched), if there is a
    /// watchdog.
    #[cold]
    pub(crate) fn watch(&mut self) {
        if let Some(watchdog) = &mut self.measures.watchdog {
            watchdog.phase = mem::replace(&mut self.phase, Phase::Watched);
            self.batch.withhold();
        }
    }

    /// Everything is where it would be without a watchdog.
    #[cold]
    pub(crate) fn unwatch(&mut self) {
        if let (Phase::Watched, Some(watchdog)) = (self.phase, &self.measures.watchdog) {
            self.phase = watchdog.phase;
            self.batch.give_back();
        }
    }

    /// The next step of a turn that is watched.
    #[cold]
    pub(crate) fn next_watched(&mut self) -> Option<Step<L::Stream>> {
        let now_ns = self.clock.monotonic_ns_now();
        self.unwatch();
        let step = self.next_step();
        if let Some(watchdog) = &mut self.measures.watchdog {
            watchdog.step_ends(now_ns);
            watchdog.step = step.as_ref().map(StepKind::of);
        }
        if step.is_some() {
            self.watch();
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_nanos(100);

    /// A turn from 1,000 ns on, whose steps take so long each; whether it was slow.
    fn turn(watchdog: &mut Watchdog, turn: u64, steps: &[u64]) -> bool {
        watchdog.turn_begins(1_000);
        let mut now_ns = 1_000;
        for (listener, took_ns) in steps.iter().enumerate() {
            watchdog.step_ends(now_ns);
            watchdog.step = Some(StepKind::Accepted(listener));
            now_ns += took_ns;
        }
        watchdog.turn_ends(Ended {
            turn,
            began_unix_ms: 7,
            took: Duration::from_nanos(now_ns - 1_000),
            now_ns,
        })
    }

    #[test]
    fn a_turn_is_slow_only_beyond_the_limit() {
        let mut watchdog = Watchdog::new(LIMIT);
        assert!(!turn(&mut watchdog, 1, &[100]));
        assert_eq!(watchdog.take_worst(), None);
        assert!(turn(&mut watchdog, 2, &[50, 51]));
        assert!(watchdog.take_worst().is_some());
    }

    #[test]
    fn the_longest_step_is_told_and_the_last_counts_too() {
        let mut watchdog = Watchdog::new(LIMIT);
        for (steps, longest, took_ns) in [([90, 80, 70], 0, 90), ([10, 20, 300], 2, 300)] {
            turn(&mut watchdog, 3, &steps);
            let told = watchdog.take_worst().unwrap();
            let step = told.longest.unwrap();
            assert_eq!(step.kind, StepKind::Accepted(longest));
            assert_eq!(step.took, Duration::from_nanos(took_ns));
            assert_eq!((told.turn, told.began_unix_ms, told.steps), (3, 7, 3));
        }
    }

    #[test]
    fn the_worst_since_it_was_asked_is_kept_and_the_first_of_equals() {
        let mut watchdog = Watchdog::new(LIMIT);
        for (number, took_ns) in [(1, 200), (2, 500), (3, 500), (4, 300)] {
            turn(&mut watchdog, number, &[took_ns]);
        }
        assert_eq!(watchdog.take_worst().map(|slow| slow.turn), Some(2));
        assert_eq!(watchdog.take_worst(), None);
    }

    #[test]
    fn a_turn_of_no_steps_has_no_longest() {
        let mut watchdog = Watchdog::new(Duration::ZERO);
        watchdog.turn_begins(0);
        let took = Duration::from_nanos(1);
        let ended = Ended {
            turn: 1,
            began_unix_ms: 0,
            took,
            now_ns: 1,
        };
        assert!(watchdog.turn_ends(ended));
        assert_eq!(watchdog.take_worst().unwrap().longest, None);
    }
}
