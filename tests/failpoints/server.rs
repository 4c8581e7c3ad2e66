//! The server of one run: two workers that echo, of whom one dies or leaves, and the parent that
//! frees what it held.

use std::{cell::Cell, num::NonZeroU32, process::ExitCode, time::Duration};

use evcore::{
    Accepted, Builder, Connections, EventLoop, Interest, Listener, Mode, Result, Step, Stream,
    Token,
    balancer::{AcceptMutex, Board, Peers, Policy, Snapshot, this_process},
};
use evcore_prefork::{DO_NOT_RESTART, Outcome, Supervisor, Worker, WorkerExit};

use crate::{
    dying::Dying,
    points::{Fatal, Points},
    setting::{Setting, Stage},
};

/// The argument that makes this program the server.
pub(crate) const FLAG: &str = "--serve";

/// What a worker says that has left.
pub(crate) const LEAVES: &str = "leaves";

/// How long one that leaves waits for its clients. (Where each worker has listeners of its own, it
/// keeps others waiting meanwhile.)
const LEAVING: Duration = Duration::from_millis(100);

/// What the workers share.
struct Shared {
    listeners: Vec<Listener>,
    mutex: AcceptMutex,
    peers: Peers,
    board: Board,
    /// Who has this is the one that dies.
    death: AcceptMutex,
    /// Who has this is the one that leaves.
    departure: AcceptMutex,
}

/// Serves until a signal says stop; a worker dies at its point `fatal` of this stage.
pub(crate) fn serve(setting: Setting, stage: Stage, fatal: Fatal<'static>) -> ExitCode {
    let supervisor = Supervisor::new(setting.room().len());
    let shared = Shared::new(setting, supervisor.seats());
    let address = shared.listeners[0].local_addr();
    eprintln!("listening on {address}");
    let (mutex, peers, board) = (
        shared.mutex.clone(),
        shared.peers.clone(),
        shared.board.clone(),
    );
    let somebody_went = Cell::new(false);
    let outcome = supervisor
        .on_exit(|dead| {
            free(dead, &mutex, &peers, &board);
            somebody_went.set(true);
        })
        .run(|worker| {
            if somebody_went.get() && !setting.replaces() {
                return DO_NOT_RESTART;
            }
            let served = work(setting, stage, fatal, &worker, shared);
            served.map_or_else(|error| panic!("a worker cannot go on: {error}"), |()| 0)
        });
    let stopped = matches!(outcome.expect("the supervisor runs"), Outcome::Stopped(_));
    ExitCode::from(u8::from(!stopped))
}

/// Frees what a dead worker held, and no more is left of it.
fn free(dead: &WorkerExit, mutex: &AcceptMutex, peers: &Peers, board: &Board) {
    mutex.force_unlock(dead.pid);
    peers.bury(dead.pid);
    board.reset_gauges(dead.seat);
    assert_ne!(mutex.owner(), Some(dead.pid), "it has the lock");
    assert!(!peers.bury(dead.pid), "it has a seat");
    assert!(!board.snapshot(dead.seat).is_live(), "it has a line");
}

impl Shared {
    fn new(setting: Setting, seats: usize) -> Self {
        Self {
            listeners: listeners(setting).expect("a listener"),
            mutex: AcceptMutex::shared().expect("memory for the lock"),
            peers: Peers::new(seats).expect("memory and bells for the seats"),
            board: Board::shared(seats).expect("memory for the board"),
            death: AcceptMutex::shared().expect("memory for the lock"),
            departure: AcceptMutex::shared().expect("memory for the lock"),
        }
    }
}

/// One for both workers, or with `ReusePort` one for each, on one port.
fn listeners(setting: Setting) -> Result<Vec<Listener>> {
    let own = setting.policy() == Policy::ReusePort;
    let bind = |address| Listener::builder().reuse_port(own).bind(address);
    let mut listeners = vec![bind("127.0.0.1:0".parse().expect("an address"))?];
    if own {
        let address = listeners[0].local_addr().clone();
        listeners.push(bind(address)?);
    }
    Ok(listeners)
}

fn work(
    setting: Setting,
    stage: Stage,
    fatal: Fatal<'static>,
    worker: &Worker,
    shared: Shared,
) -> Result<()> {
    let points = Points::new(fatal, shared.death.clone());
    let departure = shared.departure.clone();
    let mut line = shared.board.line(worker.seat());
    let mut here = line.resume();
    points.count(stage == Stage::Serving);
    let mut echo = Echo {
        ev: event_loop(setting, worker, shared, &points)?,
        clients: Connections::new(),
    };
    worker.wake_fd(echo.ev.handle()).expect("it is a waker");
    while worker.stop().is_none() && !echo.ev.is_done() {
        if stage.is_last() && echo.may_leave() && departure.try_lock(worker.pid()) {
            points.count(true);
            if stage == Stage::Stopping {
                break;
            }
            echo.ev.shutdown(LEAVING);
        }
        echo.turn(&points)?;
        here = Snapshot {
            active: u64::from(echo.ev.active()),
            heartbeat: here.heartbeat + 1,
            ..here
        };
        points.around("publish", || line.publish(&here));
    }
    let all_stop = worker.stop().is_some();
    if all_stop {
        points.count(false);
    }
    drop(echo);
    if !all_stop {
        eprintln!("{LEAVES}");
    }
    Ok(())
}

fn event_loop(
    setting: Setting,
    worker: &Worker,
    mut shared: Shared,
    points: &Points,
) -> Result<EventLoop<Dying<Listener>>> {
    let me: NonZeroU32 = this_process();
    let own = worker.index() % shared.listeners.len();
    let listener = shared.listeners.swap_remove(own);
    let mut builder = Builder::new()
        .listener(Dying::new(listener, points))
        .connections(setting.room()[worker.index()])
        .policy(setting.policy())
        .lock(Dying::new(shared.mutex.handle(me), points));
    if setting.is_seated() {
        let seat = points.around("sit", || shared.peers.seat(me));
        let seat = seat.expect("as many as workers");
        builder = builder.seat(Dying::new(seat, points));
    }
    if let Some(kind) = setting.poller() {
        builder = builder.poller(kind);
    }
    builder.build()
}

/// Gives back to each client what it sends.
struct Echo {
    ev: EventLoop<Dying<Listener>>,
    clients: Connections<Stream>,
}

impl Echo {
    fn may_leave(&self) -> bool {
        self.ev.stats().accepted > 0 && !self.ev.is_shutting_down()
    }

    fn turn(&mut self, points: &Points) -> Result<()> {
        let timeout = self.ev.prepare()?;
        points.around("wait", || self.ev.collect(timeout))?;
        while let Some(step) = self.ev.next_step() {
            points.pass("before", "step");
            match step {
                Step::Accepted(new) => self.welcome(new)?,
                Step::Ready(token, _) => self.answer(token),
                _ => {}
            }
        }
        Ok(())
    }

    fn welcome(&mut self, new: Accepted) -> Result<()> {
        let (interest, mode) = (Interest::READ, Mode::Level);
        self.clients.add(&mut self.ev, new.stream, interest, mode)?;
        Ok(())
    }

    fn answer(&mut self, token: Token) {
        let stream = self.clients.get(token).expect("it is in the loop");
        let mut byte = [0];
        let echoed = match stream.recv(&mut byte) {
            Ok(0) => false,
            Ok(_) => stream.send(&byte).is_ok(),
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        };
        if !echoed {
            self.clients.close(&mut self.ev, token);
        }
    }
}
