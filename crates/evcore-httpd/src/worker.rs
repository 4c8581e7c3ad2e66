//! One worker on sockets: the loop that the options ask for, and what signals do to it.

use std::{io, mem, os::fd::AsFd};

use evcore::{
    Budgets, Builder, EventLoop, Listener,
    balancer::{WorkerGroup, WorkerId},
    timer::{Lazy, TimerHeap, TimerTree},
};
use evcore_prefork::{Stop, Worker};

use crate::{
    access_log::AccessLog,
    board::Board,
    counts::Counts,
    options::{Options, Timers},
    server::Server,
};

/// What workers share: made before they are forked.
#[derive(Debug)]
pub struct Shared {
    /// One set for all workers; with `reuseport` one for each.
    pub listeners: Vec<Vec<Listener>>,
    pub board: Board,
    pub group: WorkerGroup,
    pub options: Options,
}

impl Shared {
    /// The same for a further worker of this process, with the set of listeners that is its own.
    pub fn for_another_worker(&self, worker: &Worker) -> Result<Self, Box<dyn std::error::Error>> {
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
            board: self.board.clone(),
            group: self.group.clone(),
            options: self.options.clone(),
        })
    }
}

/// Which set of listeners a worker has.
fn set_of(worker: &Worker, options: &Options) -> usize {
    if options.own_listeners {
        worker.index()
    } else {
        0
    }
}

/// A worker's server over the listeners it shares; to be made in the worker's process.
pub fn server(worker: &Worker, shared: Shared) -> Result<Server, Box<dyn std::error::Error>> {
    let Shared {
        mut listeners,
        board,
        group,
        options,
    } = shared;
    let id = WorkerId::from_slot(worker.slot());
    let set = set_of(worker, &options);
    let mut builder = configured(&options).group(group.join(id));
    for listener in listeners.swap_remove(set) {
        builder = builder.listener(listener);
    }
    let ev = builder.build()?;
    worker.wake_fd(ev.handle())?;
    let counts = Counts::new(board, id);
    let log = options.access_log.as_deref().map(AccessLog::open);
    let server = Server::new(ev, worker.index(), counts, options);
    Ok(match log {
        Some(log) => server.with_access_log(log?)?,
        None => server,
    })
}

/// Serves until a signal says stop.
pub fn run(mut server: Server, worker: &Worker) -> io::Result<()> {
    // Not what there are by now: one may have come since the log was opened.
    let mut reopen_count = 0;
    loop {
        if mem::replace(&mut reopen_count, worker.reopen_count()) != reopen_count {
            server.reopen_log();
        }
        match worker.stop() {
            Some(Stop::Fast) => return Ok(()),
            Some(Stop::Graceful) => {
                server.stop();
                if server.is_done() {
                    return Ok(());
                }
            }
            None => {}
        }
        // A signal wakes the loop, so none is seen late.
        server.turn()?;
    }
}

/// A loop as the options describe it.
fn configured(options: &Options) -> Builder {
    let mut builder = EventLoop::builder()
        .histograms(true)
        .connections(options.connections)
        .policy(options.policy)
        .budgets(Budgets {
            accepts: options.multi_accept,
            ..Budgets::default()
        });
    builder = match options.timers {
        // Over a wheel: what the loop does by itself.
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
