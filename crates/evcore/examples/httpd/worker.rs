//! One worker on sockets: the loop that the options ask for, and what signals do to it.

use std::io;

use evcore::{
    Budgets, Builder, EventLoop, Listener,
    balancer::{AcceptMutex, Board, Peers, Policy, this_process},
    timer::{NeverEarly, TimerHeap, TimerTree},
};
use evcore_prefork::{Stop, Worker};

use crate::{
    counts::Counts,
    options::{Options, Timers},
    server::Server,
};

/// What workers share: made before they are forked.
#[derive(Debug)]
pub struct Shared {
    pub listeners: Vec<Listener>,
    /// With `reuseport`: those of the workers behind the first, who has the others.
    pub own_listeners: Vec<Vec<Listener>>,
    pub board: Board,
    pub mutex: AcceptMutex,
    pub peers: Peers,
    pub options: Options,
}

/// A worker's server over the listeners it shares; to be made in the worker's process.
pub fn server(worker: &Worker, shared: Shared) -> Result<Server, Box<dyn std::error::Error>> {
    let Shared {
        listeners,
        own_listeners,
        board,
        mutex,
        peers,
        options,
    } = shared;
    let mut builder = configured(&options);
    let mut sets = std::iter::once(listeners).chain(own_listeners);
    let mine = match options.policy {
        Policy::ReusePort => sets.nth(worker.index()),
        _ => sets.next(),
    };
    for listener in mine.ok_or("no listeners for this worker")? {
        builder = builder.listener(listener);
    }
    // The lock is also for `least-loaded` on pollers that cannot wake one worker alone.
    builder = builder.lock(mutex.handle(this_process()));
    if matches!(options.policy, Policy::LeastLoaded { .. }) {
        let seat = peers.seat(this_process());
        builder = builder.seat(seat.ok_or("no seat for this worker")?);
    }
    let ev = builder.build()?;
    worker.wake_fd(ev.handle())?;
    let counts = Counts::new(board, worker.index());
    Ok(Server::new(ev, worker.index(), counts, options))
}

/// Serves until a signal says stop.
pub fn run(mut server: Server, worker: &Worker) -> io::Result<()> {
    loop {
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
        Timers::Tree => builder.timers(NeverEarly::new(TimerTree::new())),
        Timers::Heap => builder.timers(NeverEarly::new(TimerHeap::new())),
    };
    if let Some(kind) = options.poller {
        builder = builder.poller(kind);
    }
    if let Some(resolution) = options.timer_resolution {
        builder = builder.timer_resolution(resolution);
    }
    builder
}
