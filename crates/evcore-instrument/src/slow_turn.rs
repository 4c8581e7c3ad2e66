//! The watchdog's report on a slow turn. A turn is one iteration of an event loop.

use std::time::Duration;

/// A turn that took longer than the limit of its [`Watchdog`](crate::Watchdog).
///
/// ```
/// use evcore_instrument::Watchdog;
/// use std::time::Duration;
///
/// let mut watchdog = Watchdog::new(Duration::from_nanos(50));
/// watchdog.begin_turn(1_000, 0);
/// watchdog.begin_step(1_000, "read");
/// watchdog.begin_step(1_020, "write");
/// watchdog.end_turn(1_090);
/// let slow = watchdog.take_slow_turn().expect("it took 90 ns");
/// assert_eq!((slow.turn, slow.took, slow.steps), (1, Duration::from_nanos(90), 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowTurn<K> {
    /// The number of the turn: the first turn of the watchdog has the number 1.
    pub turn: u64,
    /// The time of day when the turn began, in milliseconds since 1970-01-01T00:00:00 UTC.
    pub began_unix_ms: i64,
    /// The time that the turn took. (In `evcore`: from the end of its wait to the beginning of the
    /// next wait.)
    pub took: Duration,
    /// The number of its steps.
    pub steps: u64,
    /// The longest step (the first, if several took equally long); `None` if the turn had no step.
    pub longest: Option<SlowStep<K>>,
}

/// A step and its duration. The step ends when the next one begins, at
/// [`end_step`](crate::Watchdog::end_step), or with its turn.
///
/// ```
/// use evcore_instrument::{SlowStep, Watchdog};
/// use std::time::Duration;
///
/// let mut watchdog = Watchdog::new(Duration::ZERO); // every turn is slow
/// watchdog.begin_turn(0, 0);
/// watchdog.begin_step(0, "read");
/// watchdog.end_step(7); // what follows is in no step
/// watchdog.end_turn(9);
/// let turn = watchdog.take_slow_turn().expect("it took some time");
/// let SlowStep { kind, took, .. } = turn.longest.expect("there was a step");
/// assert_eq!((kind, took), ("read", Duration::from_nanos(7)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowStep<K> {
    /// The kind of the step, as it was passed to
    /// [`Watchdog::begin_step`](crate::Watchdog::begin_step).
    pub kind: K,
    /// The time that the step took. (In `evcore`: the time to find the step, and the time of its
    /// handler.)
    pub took: Duration,
}
