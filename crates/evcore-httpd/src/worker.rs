//! A worker: its event loop, by the options, and its reaction to signals.

use std::{mem, os::fd::AsFd};

use evcore::{
    Budgets, Builder, EventLoop, InstrumentOptions, Listener,
    balancer::{WorkerGroup, WorkerId},
    timer::{Lazy, TimerHeap, TimerTree},
};
use evcore_prefork::Worker;

use crate::{
    access_log::AccessLog,
    counts::Counts,
    files::Files,
    options::{Options, Timers},
    scoreboard::Scoreboard,
    server::Server,
};

/// What a worker is built from. The master creates it before it starts any worker.
#[derive(Debug)]
pub struct Setup {
    /// One set of listeners for all workers; with `reuseport`, one for each.
    pub listeners: Vec<Vec<Listener>>,
    /// Every worker's counters and metrics.
    pub scoreboard: Scoreboard,
    /// The group that the workers join.
    pub group: WorkerGroup,
    /// The options of the command line.
    pub options: Options,
}

impl Setup {
    /// Duplicates the setup for a worker thread, with its own set of listeners.
    ///
    /// # Errors
    ///
    /// If a listener cannot be duplicated.
    pub fn for_another_thread(&self, worker: &Worker) -> Result<Self, Box<dyn std::error::Error>> {
        let again = |listener: &Listener| -> Result<Listener, Box<dyn std::error::Error>> {
            Ok(Listener::from_fd(listener.as_fd().try_clone_to_owned()?)?)
        };
        let mut listeners: Vec<_> = self.listeners.iter().map(|_| Vec::new()).collect();
        let set = set_of(worker, &self.options);
        listeners[set] = self.listeners[set]
            .iter()
            .map(again)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            listeners,
            scoreboard: self.scoreboard.clone(),
            group: self.group.clone(),
            options: self.options.clone(),
        })
    }
}

/// The index of a worker's set of listeners.
fn set_of(worker: &Worker, options: &Options) -> usize {
    if options.own_listeners {
        worker.index().get()
    } else {
        0
    }
}

/// Creates a worker's server. Call it in the worker's process.
///
/// # Errors
///
/// If the event loop cannot be built, or the access log or the root cannot be opened.
pub fn server(worker: &Worker, setup: Setup) -> Result<Server, Box<dyn std::error::Error>> {
    let Setup {
        mut listeners,
        scoreboard,
        group,
        options,
    } = setup;
    let id = WorkerId::from_slot(worker.slot());
    let set = set_of(worker, &options);
    let mut builder = configured(&options).group(group.join(id));
    for listener in listeners.swap_remove(set) {
        builder = builder.listener(listener);
    }
    let ev = builder.build()?;
    worker.wake_fd(ev.handle().descriptor().expect("a kernel's backend"))?;
    let counts = Counts::new(scoreboard, id);
    let path = options.access_log.as_deref();
    let log = path.map(|path| AccessLog::open_unread(path, options.access_log_format));
    let files = Files::open(&options)?;
    let server = Server::new(ev, worker.index().get(), counts, options);
    let server = match files {
        Some(files) => server.with_files(files)?,
        None => server,
    };
    Ok(match log {
        Some(log) => server.with_access_log(log?)?,
        None => server,
    })
}

/// Serves until a signal stops the worker.
///
/// # Errors
///
/// The error of [`Server::turn`].
pub fn run(mut server: Server, worker: &Worker) -> evcore::Result<()> {
    // Not the current count: a signal may have arrived since the log was opened.
    let mut reopen_count = 0;
    loop {
        if mem::replace(&mut reopen_count, worker.reopen_count()) != reopen_count {
            server.reopen_log();
        }
        // A signal wakes the loop.
        if !server.turn(worker.stop_within(server.shutdown_timeout()))? {
            return Ok(());
        }
    }
}

/// The builder of the event loop, by the options.
fn configured(options: &Options) -> Builder {
    let instruments = InstrumentOptions::new()
        .histograms(true)
        .watchdog(options.watchdog)
        .flight_recorder(options.flight_recorder);
    let mut builder = EventLoop::builder()
        .instruments(instruments)
        .connections(options.connections)
        .budgets(Budgets {
            accepts: options.multi_accept,
            ..Budgets::default()
        });
    builder = match options.timers {
        // The default of the loop: a lazily re-armed wheel.
        Timers::Wheel => builder,
        Timers::Tree => builder.timer_queue(Lazy::new(TimerTree::new())),
        Timers::Heap => builder.timer_queue(Lazy::new(TimerHeap::new())),
    };
    if let Some(kind) = options.poller {
        builder = builder.poller(kind);
    }
    if let Some(resolution) = options.timer_resolution {
        builder = builder.timer_resolution(resolution);
    }
    builder
}
