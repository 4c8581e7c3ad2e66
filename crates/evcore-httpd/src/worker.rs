//! Makes the event loop and the server of each worker from the options, and runs the turns of the
//! worker, which are the iterations of the loop.

use std::{error::Error, mem, thread};

use evcore::{
    Acceptor, Budgets, Builder, EventLoop, InstrumentOptions, Transport,
    balancer::{WorkerGroup, WorkerId},
    clock::Clock,
    timer::{Lazy, TimerHeap, TimerTree},
};
use evcore_recording::Outside;
use evcore_serve::Worker;

use crate::{
    access_log::AccessLog,
    connection::{IDLE_STATE, STATE_VERSION},
    counts::Counts,
    files::Files,
    flight_log::{SlowTurnLog, log_records},
    history::{History, Sampler},
    options::{Options, Timers},
    scoreboard::{Scoreboard, WorkerStats},
    server::Server,
};

/// The state that the workers share. It is made before any worker starts.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Every worker's counters and metrics.
    pub scoreboard: Scoreboard,
    /// The last two minutes of the scoreboard.
    pub history: History,
    /// The options of the command line.
    pub options: Options,
}

impl Setup {
    /// Returns the workers that the options describe, without listeners, and the state that they
    /// share.
    ///
    /// # Errors
    ///
    /// If there is no memory for the scoreboard, the history or the group, or no descriptor for the
    /// group.
    pub fn new(options: Options) -> Result<(evcore_serve::Server, Self), Box<dyn Error>> {
        let workers = evcore_serve::Server::new(options.workers());
        let slots = workers.slots();
        let scoreboard = WorkerStats::scoreboard(slots)?;
        let group = scoreboard.add_to(WorkerGroup::new(options.policy(), slots)?);
        let loops = options.clone();
        let mut workers = workers
            .group(group)
            .stop_timeout(options.shutdown_timeout)
            .event_loop(move |builder| configured(builder, &loops));
        if options.moves_connections() {
            workers = workers.handover(STATE_VERSION).rebalance(options.rebalance);
            if options.fd_store {
                workers = workers.descriptor_store(IDLE_STATE);
            }
        }
        if let Some(timeout) = options.hang_timeout {
            workers = workers.hang_timeout(timeout);
        }
        if let Some(senders) = options.proxy_protocol.clone() {
            workers = workers.proxy_protocol(senders);
        }
        if let Some(affinity) = options.affinity.clone() {
            workers = workers.affinity(affinity);
        }
        let setup = Self {
            scoreboard,
            history: History::new(slots)?,
            options,
        };
        Ok((workers, setup))
    }

    /// Serves as a worker until a signal stops it.
    ///
    /// # Errors
    ///
    /// If the access log or the root cannot be opened, or the loop fails.
    pub fn serve(self, mut worker: Worker) -> Result<(), Box<dyn Error + Send + Sync>> {
        let slot = WorkerId::from_slot(worker.supervised().slot());
        let place = (slot, worker.index().get());
        // If there is a master, it takes the samples.
        let sampler = (self.options.workers() == 0).then(|| self.sampler(worker.ev.clock()));
        let server = self.server(&mut worker.ev, place, Outside::Direct)?;
        let mut serving = Serving {
            worker,
            server,
            sampler,
        };
        Ok(serving.run()?)
    }

    /// Creates the sampler of the scoreboard.
    pub fn sampler(&self, clock: &Clock) -> Sampler {
        Sampler::new(self.history.clone(), self.scoreboard.clone(), clock)
    }

    pub(crate) fn server<L: Acceptor<Stream: Transport>>(
        self,
        ev: &mut EventLoop<L>,
        (slot, index): (WorkerId, usize),
        outside: Outside,
    ) -> Result<Server<L>, Box<dyn Error + Send + Sync>> {
        let options = self.options;
        let path = options.access_log.as_deref();
        let log = path.map(|path| AccessLog::open_unread(path, options.access_log_format));
        let files = Files::open(&options)?;
        let counts = Counts::new(self.scoreboard, slot).with_history(self.history);
        let mut server = Server::over(outside, ev.clock(), index, counts, options);
        if let Some(files) = files {
            server = server.with_files(ev, files)?;
        }
        if let Some(log) = log {
            server = server.with_access_log(ev, log?)?;
        }
        Ok(server)
    }
}

struct Serving {
    worker: Worker,
    server: Server,
    sampler: Option<Sampler>,
}

impl Serving {
    fn run(&mut self) -> evcore::Result<()> {
        let mut slow_turns = SlowTurnLog::default();
        // This count of requests to reopen the log begins at 0, because a signal may have arrived
        // since the log was opened.
        let mut reopen_count = 0;
        loop {
            let count = self.worker.supervised().reopen_count();
            if mem::replace(&mut reopen_count, count) != count {
                self.server.reopen_log();
            }
            let goes_on = if self.server.has_watchdog() {
                self.worker.next_turn_with(|ev| slow_turns.report(ev))?
            } else {
                self.worker.next_turn()?
            };
            if !goes_on {
                self.server.on_end(&mut self.worker.ev);
                return Ok(());
            }
            // This call comes after the beginning of the turn, so that it returns true if the loop
            // shuts down in this turn.
            if self.worker.is_stopping() {
                self.server.on_stop();
            }
            while let Some(step) = self.worker.next_step() {
                self.server.handle(&mut self.worker.ev, step);
            }
            self.server.move_connections(&mut self.worker);
            self.server.end_turn(&mut self.worker.ev);
            if let Some(sampler) = &mut self.sampler {
                sampler.sample(self.worker.ev.clock());
            }
        }
    }
}

/// Logs the last records of the loop if the worker panics.
impl Drop for Serving {
    fn drop(&mut self) {
        if thread::panicking() {
            log_records("the worker panics", &mut self.worker.ev);
        }
    }
}

fn configured(builder: Builder, options: &Options) -> Builder {
    let builder = configured_over(builder, options);
    match options.poller {
        Some(kind) => builder.poller(kind),
        None => builder,
    }
}

/// Sets all options of the loop except the poller, for a loop with a backend of its own.
pub(crate) fn configured_over<L: Acceptor>(builder: Builder<L>, options: &Options) -> Builder<L> {
    let instruments = InstrumentOptions::new()
        .histograms(true)
        .watchdog(options.watchdog)
        .flight_recorder(options.flight_recorder);
    let mut builder = builder
        .instruments(instruments)
        .connections(options.connections)
        .budgets(Budgets {
            accepts: options.multi_accept,
            ..Budgets::default()
        });
    builder = match options.timers {
        Timers::Wheel => builder,
        Timers::Tree => builder.timer_queue(Lazy::new(TimerTree::new())),
        Timers::Heap => builder.timer_queue(Lazy::new(TimerHeap::new())),
    };
    if let Some(resolution) = options.timer_resolution {
        builder = builder.timer_resolution(resolution);
    }
    builder
}
