//! A worker whose run can be repeated. It serves over sockets that are recorded. In a replay, the
//! recording takes the place of the sockets, and the worker runs the same turns (iterations of its
//! event loop).
//!
//! Input that does not come through the loop, such as the requests of signals and the files that
//! are found, comes through an [`Outside`].

use std::{error::Error, thread, time::Duration};

use evcore::{Acceptor, Builder, EventLoop, Record, Transport, balancer::WorkerId, poller::Source};
use evcore_recording::{Outside, RecordedHandle};
use serde::{Deserialize, Serialize};

use crate::{
    flight_log::{SlowTurnLog, log_records},
    log::log,
    server::Server,
    worker::{Setup, configured_over},
};

/// The first value of a recording, from which a replay makes the same worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// The command line, without the name of the program.
    pub arguments: Vec<String>,
    /// The number of workers, which may depend on the machine.
    pub workers: usize,
    pub index: usize,
    /// The number of listeners, some of which may be from another process.
    pub listeners: usize,
}

pub const START: &str = "httpd";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signals {
    pub reopen_count: u32,
    /// The time within which the worker has to stop, in milliseconds; `None` if no stop was
    /// requested.
    pub stop_within_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Stopped,
    /// The recording begins anew.
    Checkpoint,
}

pub struct Repeatable<L: Acceptor<Stream: Transport>> {
    ev: EventLoop<L>,
    server: Server<L>,
    outside: Outside,
    slow_turns: SlowTurnLog,
    signals: Signals,
    /// Number of flight records (the loop's last actions) that a replay compares at the end.
    pub compared: usize,
}

impl<L: Acceptor<Stream: Transport + Source>> Repeatable<L> {
    /// Makes the worker on a loop from `builder`, which has the clock, the backend, the listeners
    /// and the group. Also returns the handle by which signals wake the loop.
    pub fn new(
        builder: Builder<L>,
        setup: &Setup,
        place: (WorkerId, usize),
        outside: &Outside,
    ) -> Result<(Self, RecordedHandle), Box<dyn Error + Send + Sync>> {
        let builder = configured_over(builder, &setup.options).policy(setup.options.policy());
        let mut ev = builder.build()?;
        let handle = outside.handle(ev.handle());
        let server = setup.clone().server(&mut ev, place, outside.clone())?;
        let worker = Self {
            ev,
            server,
            outside: outside.clone(),
            slow_turns: SlowTurnLog::default(),
            signals: Signals::default(),
            compared: setup.options.flight_recorder,
        };
        Ok((worker, handle))
    }

    /// Serves until a signal stops the worker, or until a checkpoint is possible: no connection is
    /// open, and `is_due` returns true.
    pub fn run(
        &mut self,
        look: impl Fn() -> Signals,
        is_due: impl Fn() -> bool,
    ) -> evcore::Result<Ended> {
        loop {
            self.follow_signals(&look);
            while let Some(error) = self.ev.listeners().take_error() {
                let time = self.ev.clock().error_log_time();
                log(format_args!("{time} [alert]: {error}"));
            }
            if !self.wait()? {
                self.server.on_end(&mut self.ev);
                let records = self.flight_records(self.compared);
                self.outside.check(records.as_bytes());
                return Ok(Ended::Stopped);
            }
            self.server.on_turn(&mut self.ev);
            if self.ev.stats().active == 0 && is_due() {
                self.server.on_end(&mut self.ev);
                return Ok(Ended::Checkpoint);
            }
        }
    }

    fn wait(&mut self) -> evcore::Result<bool> {
        if !self.server.has_watchdog() {
            return self.ev.wait();
        }
        let timeout = self.ev.prepare()?.timeout;
        self.slow_turns.report(&mut self.ev);
        self.ev.wait_at_most(timeout)
    }

    fn follow_signals(&mut self, look: &impl Fn() -> Signals) {
        let before = self.signals;
        let news = || Some(look()).filter(|now| *now != before);
        let Some(now) = self.outside.news("signals", news) else {
            return;
        };
        self.signals = now;
        if now.reopen_count != before.reopen_count {
            self.server.reopen_log();
        }
        if let Some(ms) = now.stop_within_ms {
            self.ev.shutdown(Duration::from_millis(ms));
            self.server.on_stop();
        }
    }

    /// Returns the last flight records, at most this many, one a line, the newest first.
    /// Descriptors are left out, because a replay has none.
    pub fn flight_records(&mut self, most: usize) -> String {
        let records: Vec<_> = self.ev.instruments().flight_records().collect();
        let lines = records.into_iter().map(without_descriptor).rev();
        lines
            .enumerate()
            .take(most)
            .map(|(age, record)| format!("record -{age}: {record:?}\n"))
            .collect()
    }
}

fn without_descriptor(record: Record) -> Record {
    match record {
        Record::Registered { token, watched, .. } => Record::Registered {
            token,
            watched,
            descriptor: None,
        },
        record => record,
    }
}

/// Logs the last records of the loop if the worker panics.
impl<L: Acceptor<Stream: Transport>> Drop for Repeatable<L> {
    fn drop(&mut self) {
        if thread::panicking() {
            log_records("the worker panics", &mut self.ev);
        }
    }
}
