//! What the world is like while nothing goes wrong.

use std::{ops::RangeInclusive, time::Duration};

/// How long things take, and how much there is of them.
///
/// Each range is drawn from anew, every time, to the nanosecond.
///
/// ```
/// use evcore_sim::{Conditions, World};
/// use std::time::Duration;
///
/// let world = World::new(7);
/// world.set_conditions(Conditions {
///     latency: Duration::from_millis(20)..=Duration::from_millis(80), // across an ocean
///     buffer: 4096,
///     ..Conditions::default()
/// });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// How long what is sent is under way. Default: from 50 to 500 µs.
    pub latency: RangeInclusive<Duration>,
    /// How many bytes fit between a sender and a reader who does not read. Default 65,536. Of
    /// connections that are made from here on.
    pub buffer: usize,
    /// How many clients a listener keeps waiting; who comes beyond that knocks again, after one
    /// second, two, four and so on, five times in all. Default 511 (nginx).
    pub backlog: usize,
    /// How many descriptors a process may have open (`RLIMIT_NOFILE`). Default 1,024.
    pub descriptors: usize,
    /// How long a turn takes that has nothing to do: of a loop that waits alone, and under
    /// [`Workers`](crate::Workers). Default 1 µs; never taken for less than 1 ns, so that time
    /// passes even for a loop that spins.
    pub turn: RangeInclusive<Duration>,
    /// How long the application works on a step. Default: no time. (Under
    /// [`Workers`](crate::Workers).)
    pub step: RangeInclusive<Duration>,
    /// How long a sleeping worker takes to get a processor. Default: from 1 to 20 µs. (Under
    /// [`Workers`](crate::Workers).)
    pub wake: RangeInclusive<Duration>,
    /// How long the death of a worker goes unnoticed. Default: from 1 to 10 ms. (Under
    /// [`Workers`](crate::Workers).)
    pub reap: RangeInclusive<Duration>,
}

impl Default for Conditions {
    fn default() -> Self {
        let (us, ms) = (Duration::from_micros, Duration::from_millis);
        Self {
            latency: us(50)..=us(500),
            buffer: 65_536,
            backlog: 511,
            descriptors: 1024,
            turn: us(1)..=us(1),
            step: Duration::ZERO..=Duration::ZERO,
            wake: us(1)..=us(20),
            reap: ms(1)..=ms(10),
        }
    }
}
