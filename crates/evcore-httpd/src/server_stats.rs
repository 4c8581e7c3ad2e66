//! The table of the server's numbers, which the master publishes.
//!
//! A row defines the number's place on the scoreboard (memory that master and workers share), its
//! lines of `/metrics` and its field of `/status.json`. A test compares each row with
//! `docs/httpd.md`.

use std::ops::{Index, IndexMut};

use evcore::clock::Clock;

#[derive(Debug)]
pub struct Row {
    pub number: Number,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    pub field: &'static str,
    pub metric: &'static str,
    pub help: &'static str,
}

macro_rules! numbers {
    ($($number:ident $kind:literal, $field:literal, $metric:literal, $help:literal;)*) => {
        /// A number of the server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Number {
            $(#[doc = $help] $number,)*
        }

        /// All numbers, in the order of [`Number`].
        pub const ROWS: &[Row] = &[
            $(Row {
                number: Number::$number,
                kind: $kind,
                field: $field,
                metric: $metric,
                help: $help,
            },)*
        ];
    };
}

numbers! {
    Reloads "counter", "reloads", "httpd_reloads_total",
        "Reloads (HUP) whose new workers serve.";
    Restarts "counter", "restarts", "httpd_worker_restarts_total",
        "Workers that ended unasked, so that a replacement was started.";
    Kept "counter", "kept", "httpd_connections_kept_total",
        "Connections of workers that died, which go on in other workers.";
    Lost "counter", "lost", "httpd_connections_lost_total",
        "Connections that were closed because their worker died.";
    ListenQueue "gauge", "listen_queue", "httpd_listen_queue",
        "Clients that wait in the backlogs of the TCP listeners.";
    ListenOverflows "counter", "listen_overflows", "httpd_system_listen_overflows_total",
        "Clients that found a backlog full, at any listener of the system since the server started.";
    ListenDrops "counter", "listen_drops", "httpd_system_listen_drops_total",
        "Clients that were dropped at any listener of the system since the server started.";
}

/// The numbers of the master, or of the process that serves without one.
///
/// They begin at 0 with each binary, also after an upgrade, because the new binary has memory of
/// its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// The time at which the server started, in milliseconds of monotonic time.
    pub started_ms: u64,
    /// The time at which the server started, in milliseconds since 1970.
    pub started_unix_ms: u64,
    numbers: [u64; ROWS.len()],
}

impl ServerStats {
    pub const LEN: usize = 2 + ROWS.len();

    /// Sets the start to the present time.
    pub fn set_start(&mut self, clock: &Clock) {
        self.started_ms = clock.monotonic_ms();
        self.started_unix_ms = clock.unix_ms().unsigned_abs();
    }

    pub fn to_array(self) -> [u64; Self::LEN] {
        let mut values = [0; Self::LEN];
        [values[0], values[1]] = [self.started_ms, self.started_unix_ms];
        values[2..].copy_from_slice(&self.numbers);
        values
    }

    pub fn from_array(values: [u64; Self::LEN]) -> Self {
        Self {
            started_ms: values[0],
            started_unix_ms: values[1],
            numbers: std::array::from_fn(|at| values[2 + at]),
        }
    }
}

impl Index<Number> for ServerStats {
    type Output = u64;

    fn index(&self, number: Number) -> &u64 {
        &self.numbers[number as usize]
    }
}

impl IndexMut<Number> for ServerStats {
    fn index_mut(&mut self, number: Number) -> &mut u64 {
        &mut self.numbers[number as usize]
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
        scoreboard.count(Number::Reloads, 1);
        scoreboard.count(Number::Kept, 98);
        scoreboard.count(Number::Kept, 1);
        scoreboard.set(Number::ListenQueue, 7);
        scoreboard.set(Number::ListenQueue, 3);
        let mut expected = ServerStats {
            started_ms: clock.monotonic_ms(),
            started_unix_ms: 1_001_500,
            ..ServerStats::default()
        };
        expected[Number::Reloads] = 1;
        expected[Number::Kept] = 99;
        expected[Number::ListenQueue] = 3;
        assert_eq!(in_a_worker.server(), expected);
        assert_ne!(expected.started_ms, 0);
    }

    #[test]
    fn numbers_survive_a_round_trip_through_an_array() {
        let values = std::array::from_fn(|at| at as u64 + 1);
        let stats = ServerStats::from_array(values);
        assert_eq!(stats.to_array(), values);
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(stats[row.number], at as u64 + 3);
        }
    }
}
