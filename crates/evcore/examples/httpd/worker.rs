//! One worker on sockets: the loop that the options ask for, and what signals do to it.

use std::{io, mem, num::NonZeroU32, os::fd::AsFd};

use evcore::{
    Budgets, Builder, EventLoop, Listener,
    balancer::{AcceptMutex, Board, Peers, Policy},
    timer::{NeverEarly, TimerHeap, TimerTree},
};
use evcore_prefork::{Stop, Worker};

use crate::{
    access_log::AccessLog,
    counts::Counts,
    figures::FigureSheet,
    options::{Options, Timers},
    server::Server,
};

/// What workers share: made before they are forked.
#[derive(Debug)]
pub struct Shared {
    /// One set for all workers; with `reuseport` one for each.
    pub listeners: Vec<Vec<Listener>>,
    pub board: Board,
    pub figures: FigureSheet,
    pub mutex: AcceptMutex,
    pub peers: Peers,
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
            figures: self.figures.clone(),
            mutex: self.mutex.clone(),
            peers: self.peers.clone(),
            options: self.options.clone(),
        })
    }

    /// Who a worker is to the accept lock and to its peers: threads have the same process id, but
    /// no seat is shared.
    pub fn owner(seat: usize) -> NonZeroU32 {
        let number = u32::try_from(seat).expect("few workers");
        NonZeroU32::MIN.saturating_add(number)
    }
}

/// Which set of listeners a worker has.
fn set_of(worker: &Worker, options: &Options) -> usize {
    match options.policy {
        Policy::ReusePort => worker.index(),
        _ => 0,
    }
}

/// A worker's server over the listeners it shares; to be made in the worker's process.
pub fn server(worker: &Worker, shared: Shared) -> Result<Server, Box<dyn std::error::Error>> {
    let Shared {
        mut listeners,
        board,
        figures,
        mutex,
        peers,
        options,
    } = shared;
    let owner = Shared::owner(worker.seat());
    let set = set_of(worker, &options);
    let mut builder = configured(&options);
    for listener in listeners.swap_remove(set) {
        builder = builder.listener(listener);
    }
    // The lock is also for `least-loaded` on pollers that cannot wake one worker alone.
    builder = builder.lock(mutex.handle(owner));
    if options.policy.uses_seats() {
        builder = builder.seat(peers.seat(owner).ok_or("no seat for this worker")?);
    }
    let ev = builder.build()?;
    worker.wake_fd(ev.handle())?;
    let counts = Counts::new(board, figures, worker.seat());
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
    let mut reopens = 0;
    loop {
        if mem::replace(&mut reopens, worker.reopens()) != reopens {
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
        .connections(options.connections)
        .policy(options.policy)
        .budgets(Budgets {
            accepts: options.multi_accept,
            ..Budgets::default()
        });
    builder = match options.timers {
        // Over a wheel: what the loop does by itself.
        Timers::Wheel => builder,
        Timers::Tree => builder.timer_queue(NeverEarly::new(TimerTree::new())),
        Timers::Heap => builder.timer_queue(NeverEarly::new(TimerHeap::new())),
    };
    if let Some(kind) = options.poller {
        builder = builder.poller(kind);
    }
    if let Some(resolution) = options.timer_resolution {
        builder = builder.timer_resolution(resolution);
    }
    builder
}
