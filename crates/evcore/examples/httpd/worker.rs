//! One worker on sockets: the loop that the options ask for, and what signals do to it.

use std::io;

use evcore::{
    Budgets, Builder, EventLoop, Listener,
    balancer::{AcceptMutex, Board, Policy, this_process},
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
    pub board: Board,
    pub mutex: AcceptMutex,
    pub options: Options,
}

/// A worker's server over the listeners it shares; to be made in the worker's process.
pub fn server(worker: &Worker, shared: Shared) -> Result<Server, Box<dyn std::error::Error>> {
    let Shared {
        listeners,
        board,
        mutex,
        options,
    } = shared;
    let mut builder = configured(&options);
    for listener in listeners {
        builder = builder.listener(listener);
    }
    if matches!(options.policy, Policy::Mutex { .. }) {
        builder = builder.lock(mutex.handle(this_process()));
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
