//! The numbers that the master publishes about the whole server.

use evcore::clock::Clock;

/// The numbers of the master, or of the process that serves without one.
///
/// They begin at 0 with each binary, also after an upgrade: the new binary has memory of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// The time at which the server started, in milliseconds of monotonic time.
    pub started_ms: u64,
    /// The time at which the server started, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The number of reloads (HUP) whose new workers serve.
    pub reloads: u64,
    /// The number of workers that ended unasked, and were replaced.
    pub restarts: u64,
    /// Connections of workers that died, which descriptor stores have handed on.
    pub kept: u64,
    /// Connections that were closed because their worker died, as far as descriptor stores have reported them.
    pub lost: u64,
}

impl ServerStats {
    /// The number of values.
    pub const LEN: usize = 6;

    /// Sets the start to the present time.
    pub fn set_start(&mut self, clock: &Clock) {
        self.started_ms = clock.monotonic_ms();
        self.started_unix_ms = clock.unix_ms().unsigned_abs();
    }

    /// Converts to the values of a slot.
    pub fn to_array(self) -> [u64; Self::LEN] {
        [
            self.started_ms,
            self.started_unix_ms,
            self.reloads,
            self.restarts,
            self.kept,
            self.lost,
        ]
    }

    /// Converts from the values of a slot.
    pub fn from_array(values: [u64; Self::LEN]) -> Self {
        let [started_ms, started_unix_ms, reloads, restarts, kept, lost] = values;
        Self {
            started_ms,
            started_unix_ms,
            reloads,
            restarts,
            kept,
            lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evcore::clock::ManualTimeSource;

    use super::*;
    use crate::scoreboard::WorkerStats;

    #[test]
    fn each_clone_of_a_scoreboard_has_the_masters_numbers() {
        let scoreboard = WorkerStats::scoreboard(1).expect("a page");
        let in_a_worker = scoreboard.clone();
        let time = ManualTimeSource::at(1_000);
        let mut clock = Clock::with_source(time.clone());
        time.advance(Duration::from_millis(1_500));
        clock.update();
        scoreboard.record_start(&clock);
        scoreboard.count_reload();
        scoreboard.count_restart();
        scoreboard.count_restart();
        scoreboard.count_kept(98, 2);
        scoreboard.count_kept(1, 0);
        let expected = ServerStats {
            started_ms: clock.monotonic_ms(),
            started_unix_ms: 1_001_500,
            reloads: 1,
            restarts: 2,
            kept: 99,
            lost: 2,
        };
        assert_eq!(in_a_worker.server(), expected);
        assert_ne!(expected.started_ms, 0);
    }
}
