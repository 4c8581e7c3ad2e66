//! Finds the slowest of the turns that took too long, and the longest step of that turn. A turn is
//! one iteration of an event loop, and a step is one event that it handles.
//!
//! Deliberately absent: a report of a turn that never ends. No loop can report its own endless
//! turn, but a monitor outside of it can, by a heartbeat.

use std::time::Duration;

use crate::slow_turn::{SlowStep, SlowTurn};

/// Finds the slowest of the turns that took longer than a limit, and the longest step of that turn.
///
/// `K` is the kind of a step, for example a token. Times are nanoseconds of a monotonic clock.
///
/// ```
/// use evcore_instrument::Watchdog;
/// use std::time::Duration;
///
/// let mut watchdog = Watchdog::new(Duration::from_micros(1));
/// for (began_ns, read_ns, write_ns) in [(10_000, 200, 300), (20_000, 200, 3_000)] {
///     watchdog.begin_turn(began_ns, 0);
///     watchdog.begin_step(began_ns, "read");
///     watchdog.begin_step(began_ns + read_ns, "write");
///     watchdog.end_turn(began_ns + read_ns + write_ns);
/// }
/// let slow = watchdog.take_slow_turn().expect("the second turn was slow");
/// assert_eq!((slow.turn, slow.took), (2, Duration::from_nanos(3_200)));
/// assert_eq!(slow.longest.expect("there were steps").kind, "write");
/// ```
#[derive(Clone, Debug)]
pub struct Watchdog<K> {
    limit: Duration,
    turn: u64,
    began_ns: u64,
    began_unix_ms: i64,
    /// The time at which the current step began. Without a current step, the last time that was
    /// passed in.
    since_ns: u64,
    step: Option<K>,
    steps: u64,
    longest: Option<SlowStep<K>>,
    slow_turns: u64,
    /// The slowest turn since the last call of `take_slow_turn`.
    slowest: Option<SlowTurn<K>>,
}

impl<K> Watchdog<K> {
    /// Creates a watchdog for turns that take longer than `limit`. With a limit of zero, these are
    /// all turns that take any time.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            turn: 0,
            began_ns: 0,
            began_unix_ms: 0,
            since_ns: 0,
            step: None,
            steps: 0,
            longest: None,
            slow_turns: 0,
            slowest: None,
        }
    }

    /// Begins a turn. `unix_ms` is the time of day, in milliseconds since 1970-01-01T00:00:00 UTC;
    /// the watchdog only reports it. A turn that has not [ended](Self::end_turn) is forgotten.
    pub fn begin_turn(&mut self, now_ns: u64, unix_ms: i64) {
        self.turn += 1;
        self.began_ns = now_ns;
        self.began_unix_ms = unix_ms;
        self.since_ns = now_ns;
        self.step = None;
        self.steps = 0;
        self.longest = None;
    }

    /// Ends the current step, if there is one, and begins the next one.
    pub fn begin_step(&mut self, now_ns: u64, kind: K) {
        self.end_step(now_ns);
        self.step = Some(kind);
    }

    /// Ends the current step, if there is one. The time that follows counts for the turn and for no
    /// step.
    pub fn end_step(&mut self, now_ns: u64) {
        let took = Duration::from_nanos(now_ns.saturating_sub(self.since_ns));
        self.since_ns = now_ns;
        let Some(kind) = self.step.take() else {
            return;
        };
        self.steps += 1;
        let longest = self.longest.as_ref();
        if longest.is_none_or(|longest| took > longest.took) {
            self.longest = Some(SlowStep { kind, took });
        }
    }

    /// Ends the turn and its current step. Returns how long the turn took, in nanoseconds.
    pub fn end_turn(&mut self, now_ns: u64) -> u64 {
        self.end_step(now_ns);
        let took_ns = now_ns.saturating_sub(self.began_ns);
        let took = Duration::from_nanos(took_ns);
        if took > self.limit {
            self.on_slow_turn(took);
        }
        took_ns
    }

    fn on_slow_turn(&mut self, took: Duration) {
        self.slow_turns += 1;
        let slowest = self.slowest.as_ref();
        if slowest.is_none_or(|slowest| took > slowest.took) {
            self.slowest = Some(SlowTurn {
                turn: self.turn,
                began_unix_ms: self.began_unix_ms,
                took,
                steps: self.steps,
                longest: self.longest.take(),
            });
        }
    }

    /// Takes the slowest of the turns that took longer than the limit since the last call. `None`
    /// if there was none.
    pub fn take_slow_turn(&mut self) -> Option<SlowTurn<K>> {
        self.slowest.take()
    }

    /// The number of turns that took longer than the limit, since the watchdog was created.
    #[must_use]
    pub fn slow_turns(&self) -> u64 {
        self.slow_turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_nanos(100);

    /// Makes a turn that begins at 1,000 ns and has steps of these lengths. Returns whether it was
    /// slow.
    fn turn(watchdog: &mut Watchdog<usize>, steps: &[u64]) -> bool {
        let slow_turns = watchdog.slow_turns();
        watchdog.begin_turn(1_000, 7);
        let mut now_ns = 1_000;
        for (step, took_ns) in steps.iter().enumerate() {
            watchdog.begin_step(now_ns, step);
            now_ns += took_ns;
        }
        assert_eq!(watchdog.end_turn(now_ns), now_ns - 1_000);
        watchdog.slow_turns() > slow_turns
    }

    #[test]
    fn a_turn_is_slow_only_beyond_the_limit() {
        let mut watchdog = Watchdog::new(LIMIT);
        assert!(!turn(&mut watchdog, &[100]));
        assert_eq!(watchdog.take_slow_turn(), None);
        assert!(turn(&mut watchdog, &[50, 51]));
        assert!(watchdog.take_slow_turn().is_some());
    }

    #[test]
    fn the_longest_step_is_reported_the_last_one_included() {
        let mut watchdog = Watchdog::new(LIMIT);
        for (number, steps, longest, took_ns) in
            [(1, [90, 80, 70], 0, 90), (2, [10, 20, 300], 2, 300)]
        {
            turn(&mut watchdog, &steps);
            let slow = watchdog.take_slow_turn().unwrap();
            let step = slow.longest.unwrap();
            assert_eq!(step.kind, longest);
            assert_eq!(step.took, Duration::from_nanos(took_ns));
            assert_eq!((slow.turn, slow.began_unix_ms, slow.steps), (number, 7, 3));
        }
    }

    #[test]
    fn the_slowest_turn_since_the_last_call_is_kept() {
        let mut watchdog = Watchdog::new(LIMIT);
        for took_ns in [200, 500, 500, 300] {
            turn(&mut watchdog, &[took_ns]);
        }
        assert_eq!(watchdog.take_slow_turn().map(|slow| slow.turn), Some(2));
        assert_eq!(watchdog.take_slow_turn(), None);
    }

    #[test]
    fn a_turn_without_steps_has_no_longest_step() {
        let mut watchdog = Watchdog::<u8>::new(Duration::ZERO);
        watchdog.begin_turn(0, 0);
        watchdog.end_turn(1);
        assert_eq!(watchdog.slow_turns(), 1);
        assert_eq!(watchdog.take_slow_turn().unwrap().longest, None);
    }

    #[test]
    fn time_after_the_last_step_counts_for_the_turn_alone() {
        let mut watchdog = Watchdog::new(LIMIT);
        watchdog.begin_turn(0, 0);
        watchdog.begin_step(0, 'a');
        watchdog.end_step(30);
        watchdog.end_turn(150);
        let slow = watchdog.take_slow_turn().unwrap();
        assert_eq!(slow.took, Duration::from_nanos(150));
        assert_eq!(slow.longest.unwrap().took, Duration::from_nanos(30));
    }
}
