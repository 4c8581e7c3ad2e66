//! The slowest of the turns that took too long, and the step that took most of it.
//!
//! A clock is read for each step. The reading ends the step before and begins the next.
//!
//! Deliberately absent: a turn that never ends. No loop can report that of itself; a monitor outside
//! can, by a heartbeat.

use std::time::Duration;

use super::slow_turn::{SlowStep, SlowTurn, StepKind};

/// The limit, the current turn, and the slowest turn so far.
#[derive(Debug)]
pub(crate) struct Watchdog {
    limit: Duration,
    /// The wall clock when the current turn began.
    began_unix_ms: i64,
    /// When the current step began, or the turn if there is no current step.
    since_ns: u64,
    step: Option<StepKind>,
    steps: u64,
    longest: Option<SlowStep>,
    /// Since it was last taken.
    worst: Option<SlowTurn>,
}

impl Watchdog {
    /// Reports turns that take longer than `limit`.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            began_unix_ms: 0,
            since_ns: 0,
            step: None,
            steps: 0,
            longest: None,
            worst: None,
        }
    }

    pub(crate) fn begin_turn(&mut self, now_ns: u64, unix_ms: i64) {
        self.began_unix_ms = unix_ms;
        self.since_ns = now_ns;
        self.step = None;
        self.steps = 0;
        self.longest = None;
    }

    /// Ends the current step, and begins the next one, if there is one.
    pub(crate) fn begin_step(&mut self, now_ns: u64, next: Option<StepKind>) {
        self.end_step(now_ns);
        self.step = next;
    }

    fn end_step(&mut self, now_ns: u64) {
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

    /// Returns whether the turn took too long.
    pub(crate) fn end_turn(&mut self, ended: EndedTurn) -> bool {
        self.end_step(ended.now_ns);
        let is_slow = ended.took > self.limit;
        if is_slow && self.worst.is_none_or(|worst| ended.took > worst.took) {
            self.worst = Some(SlowTurn {
                turn: ended.turn,
                began_unix_ms: self.began_unix_ms,
                took: ended.took,
                steps: self.steps,
                longest: self.longest,
            });
        }
        is_slow
    }

    /// Takes the slowest turn since the last call.
    pub(crate) fn take_worst(&mut self) -> Option<SlowTurn> {
        self.worst.take()
    }
}

/// A turn that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedTurn {
    pub(crate) turn: u64,
    pub(crate) took: Duration,
    pub(crate) now_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_nanos(100);

    /// A turn from 1,000 ns on, with steps of these lengths; returns whether it was slow.
    fn turn(watchdog: &mut Watchdog, turn: u64, steps: &[u64]) -> bool {
        watchdog.begin_turn(1_000, 7);
        let mut now_ns = 1_000;
        for (listener, took_ns) in steps.iter().enumerate() {
            watchdog.begin_step(now_ns, Some(StepKind::Accepted(listener)));
            now_ns += took_ns;
        }
        watchdog.end_turn(EndedTurn {
            turn,
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
    fn the_longest_step_is_reported_the_last_one_included() {
        let mut watchdog = Watchdog::new(LIMIT);
        for (steps, longest, took_ns) in [([90, 80, 70], 0, 90), ([10, 20, 300], 2, 300)] {
            turn(&mut watchdog, 3, &steps);
            let slow = watchdog.take_worst().unwrap();
            let step = slow.longest.unwrap();
            assert_eq!(step.kind, StepKind::Accepted(longest));
            assert_eq!(step.took, Duration::from_nanos(took_ns));
            assert_eq!((slow.turn, slow.began_unix_ms, slow.steps), (3, 7, 3));
        }
    }

    #[test]
    fn the_slowest_turn_since_the_last_call_is_kept() {
        let mut watchdog = Watchdog::new(LIMIT);
        for (number, took_ns) in [(1, 200), (2, 500), (3, 500), (4, 300)] {
            turn(&mut watchdog, number, &[took_ns]);
        }
        assert_eq!(watchdog.take_worst().map(|slow| slow.turn), Some(2));
        assert_eq!(watchdog.take_worst(), None);
    }

    #[test]
    fn a_turn_without_steps_has_no_longest_step() {
        let mut watchdog = Watchdog::new(Duration::ZERO);
        watchdog.begin_turn(0, 0);
        let took = Duration::from_nanos(1);
        let ended = EndedTurn {
            turn: 1,
            took,
            now_ns: 1,
        };
        assert!(watchdog.end_turn(ended));
        assert_eq!(watchdog.take_worst().unwrap().longest, None);
    }
}
