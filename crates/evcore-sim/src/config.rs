//! The behaviour of the simulated machine and network without faults.

use std::{ops::RangeInclusive, time::Duration};

/// Delays and limits of a [`Sim`](crate::Sim).
///
/// A delay is drawn anew every time, evenly from its range, to the nanosecond.
///
/// ```
/// use evcore_sim::{Sim, SimConfig};
/// use std::time::Duration;
///
/// let sim = Sim::new(7);
/// sim.set_config(SimConfig {
///     latency: Duration::from_millis(20)..=Duration::from_millis(80), // across an ocean
///     socket_buffer: 4096,
///     ..SimConfig::default()
/// });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimConfig {
    /// The time from sending to arrival, in one direction. (Bytes of Unix sockets arrive at once.)
    /// Default: 50 to 500 µs.
    pub latency: RangeInclusive<Duration>,
    /// Number of bytes that fit between a sender and a receiver that does not read. Default:
    /// 65,536. A change applies to new connections and new UDP sockets.
    pub socket_buffer: usize,
    /// The backlog of a listener, in connections. If it is full, a client tries again after pauses
    /// of 1, 2, 4, 8 and 16 seconds, and then fails. Default: 511, as in nginx.
    pub backlog: usize,
    /// Maximum number of open descriptors of a process (`RLIMIT_NOFILE`). Default: 1,024.
    pub max_descriptors: usize,
    /// Duration of a turn (one iteration of a loop), apart from its steps. Default: 1 µs. A turn
    /// takes at least 1 ns, so that time passes even if a loop spins.
    pub turn_time: RangeInclusive<Duration>,
    /// Time that the application works on a step, under [`Workers`](crate::Workers). Default: 0.
    pub step_time: RangeInclusive<Duration>,
    /// Duration of a job of a [thread pool](crate::Process::thread_pool). Default: 100 µs to 10 ms.
    pub job_time: RangeInclusive<Duration>,
    /// The time from the wake-up of a sleeping worker until it runs, under
    /// [`Workers`](crate::Workers). Default: 1 to 20 µs.
    pub wake_latency: RangeInclusive<Duration>,
    /// The time from the death of a worker until its parent notices it, under
    /// [`Workers`](crate::Workers). Default: 1 to 10 ms.
    pub reap_delay: RangeInclusive<Duration>,
}

impl Default for SimConfig {
    fn default() -> Self {
        let (us, ms) = (Duration::from_micros, Duration::from_millis);
        Self {
            latency: us(50)..=us(500),
            socket_buffer: 65_536,
            backlog: 511,
            max_descriptors: 1024,
            turn_time: us(1)..=us(1),
            step_time: Duration::ZERO..=Duration::ZERO,
            job_time: us(100)..=ms(10),
            wake_latency: us(1)..=us(20),
            reap_delay: ms(1)..=ms(10),
        }
    }
}
