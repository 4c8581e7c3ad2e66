//! The table of a worker's counters.
//!
//! A row of the table defines a counter: its place on the scoreboard (memory that the workers
//! share), its sums over the workers, its lines of `/metrics` and its field of `/status.json`. A
//! test compares each row with `docs/httpd.md`.
//!
//! Each worker has a slot of the scoreboard. After a worker has ended, another one may use its
//! slot. The counters of a slot continue from worker to worker, so that no sum over the slots goes
//! back. The list of workers in `/status.json` has the counts since the worker's start.

use std::ops::{Index, IndexMut};

use evcore::Stats;

#[derive(Debug)]
pub struct Row {
    pub counter: Counter,
    pub field: &'static str,
    pub metric: &'static str,
    pub group: Group,
    pub help: &'static str,
}

/// The place of a counter in `/status.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Next to the states of the connections: for each worker, and in the sums over all workers.
    Connections,
    /// After the counters and states of the connections: for each worker, and in the sums over all
    /// workers.
    Traffic,
    /// With the counts of the event loop.
    EventLoop,
    /// After the number of the loop's timers.
    Timers,
}

/// Makes [`Counter`] and its table from three lists of rows: the counters of connections, of
/// traffic, and of the event loop. A counter of the event loop has a function that reads it.
macro_rules! counters {
    (
        connections { $($counter:ident, $field:literal, $metric:literal, $help:literal;)* }
        traffic { $($bytes:ident, $bytes_field:literal, $bytes_metric:literal, $bytes_help:literal;)* }
        event_loop { $($looped:ident $group:ident, $its_field:literal, $its_metric:literal,
            $its_help:literal, $source:expr;)* }
    ) => {
        /// A counter of a worker.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $(#[doc = $help] $counter,)*
            $(#[doc = $bytes_help] $bytes,)*
            $(#[doc = $its_help] $looped,)*
        }

        /// All counters, in the order of [`Counter`].
        pub const ROWS: &[Row] = &[
            $(Row {
                counter: Counter::$counter,
                field: $field,
                metric: $metric,
                group: Group::Connections,
                help: $help,
            },)*
            $(Row {
                counter: Counter::$bytes,
                field: $bytes_field,
                metric: $bytes_metric,
                group: Group::Traffic,
                help: $bytes_help,
            },)*
            $(Row {
                counter: Counter::$looped,
                field: $its_field,
                metric: $its_metric,
                group: Group::$group,
                help: $its_help,
            },)*
        ];

        impl Counters {
            /// Updates the counts of the event loop, which may change in each turn (iteration).
            #[inline]
            pub fn collect(&mut self, earlier: &Self, stats: &Stats) {
                $(
                    let source: fn(&Stats) -> u64 = $source;
                    self[Counter::$looped] = earlier[Counter::$looped] + source(stats);
                )*
            }

            /// The counts of traffic and of the event loop, which are published once a turn, with
            /// their places in the array.
            #[inline]
            pub fn of_turn(&self) -> [(usize, u64); OF_TURN] {
                [
                    $((Counter::$bytes as usize, self[Counter::$bytes]),)*
                    $((Counter::$looped as usize, self[Counter::$looped]),)*
                ]
            }

            /// The counts of the connections, with their places in the array.
            #[inline]
            pub fn of_connections(&self) -> [(usize, u64); OF_CONNECTIONS] {
                [$((Counter::$counter as usize, self[Counter::$counter]),)*]
            }
        }

        /// The number of counters that are published once a turn.
        pub const OF_TURN: usize = [$(Counter::$bytes,)* $(Counter::$looped),*].len();

        /// The number of counters of the connections.
        pub const OF_CONNECTIONS: usize = [$(Counter::$counter),*].len();
    };
}

counters! {
    connections {
        Accepted, "accepted", "httpd_connections_accepted_total",
            "Connections accepted.";
        Handled, "handled", "httpd_connections_handled_total",
            "Accepted connections that were served, not dropped because a resource was missing.";
        Arrived, "arrived", "httpd_connections_arrived_total",
            "Connections taken over from another worker.";
        HandedOver, "handed_over", "httpd_connections_handed_over_total",
            "Connections handed over to another worker.";
        TakenBack, "taken_back", "httpd_connections_taken_back_total",
            "Connections that came back, because no worker took them over.";
        Requests, "requests", "httpd_requests_total",
            "Requests that were not refused by their head alone.";
    }
    traffic {
        Received, "received_bytes", "httpd_received_bytes_total",
            "Bytes received from clients.";
        Sent, "sent_bytes", "httpd_sent_bytes_total",
            "Bytes sent to clients.";
        AcceptSamples, "accept_samples", "httpd_accept_samples_total",
            "Accepted TCP connections whose wait in the backlog was measured, one of sixteen.";
        LateAccepts, "late_accepts", "httpd_late_accepts_total",
            "Measured connections that had waited in the backlog for 100 ms or more.";
    }
    event_loop {
        Turns EventLoop, "turns", "evcore_turns_total",
            "Turns of the event loop.", |stats| stats.turns;
        Events EventLoop, "events", "evcore_events_total",
            "Events that the kernel reported.", |stats| stats.events;
        Stale EventLoop, "stale_events", "evcore_stale_events_total",
            "Events of connections that were closed before the events were handled.",
            |stats| stats.stale;
        TimersFired Timers, "timers_fired", "evcore_timers_fired_total",
            "Timers that expired.", |stats| stats.expired;
    }
}

/// The counters of a slot, or of one worker, or sums of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters([u64; Self::LEN]);

impl Counters {
    pub const LEN: usize = ROWS.len();

    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// The differences to `earlier`. A negative difference becomes 0. It can occur because a page
    /// reads the words of a slot one by one, and the slot's next worker may begin meanwhile.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|at| {
            self.0[at].saturating_sub(earlier.0[at])
        }))
    }

    pub fn to_array(self) -> [u64; Self::LEN] {
        self.0
    }

    pub fn from_array(values: [u64; Self::LEN]) -> Self {
        Self(values)
    }
}

impl Index<Counter> for Counters {
    type Output = u64;

    #[inline]
    fn index(&self, counter: Counter) -> &u64 {
        &self.0[counter as usize]
    }
}

impl IndexMut<Counter> for Counters {
    #[inline]
    fn index_mut(&mut self, counter: Counter) -> &mut u64 {
        &mut self.0[counter as usize]
    }
}
