//! The counters that `/status.json` shows for each worker, from the start of the worker.
//!
//! The counters of a slot on the scoreboard continue from worker to worker, so that no sum over the
//! slots goes back. What they were when a worker started is subtracted for the list of workers.

/// Counters of a slot, or of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub accepted: u64,
    pub handled: u64,
    pub requests: u64,
    pub turns: u64,
    pub events: u64,
    pub stale: u64,
    pub timers_fired: u64,
}

impl Counters {
    /// The number of values.
    pub const LEN: usize = 7;

    /// What was counted since the counters were `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (now, earlier) = (self.to_array(), earlier.to_array());
        Self::from_array(std::array::from_fn(|at| {
            now[at].saturating_sub(earlier[at])
        }))
    }

    pub fn to_array(self) -> [u64; Self::LEN] {
        let Self {
            accepted,
            handled,
            requests,
            turns,
            events,
            stale,
            timers_fired,
        } = self;
        [
            accepted,
            handled,
            requests,
            turns,
            events,
            stale,
            timers_fired,
        ]
    }

    pub fn from_array(values: [u64; Self::LEN]) -> Self {
        let [
            accepted,
            handled,
            requests,
            turns,
            events,
            stale,
            timers_fired,
        ] = values;
        Self {
            accepted,
            handled,
            requests,
            turns,
            events,
            stale,
            timers_fired,
        }
    }
}
