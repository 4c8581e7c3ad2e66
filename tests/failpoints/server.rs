//! The server of one run: two workers that echo, of whom one dies or leaves, and the parent that
//! frees what it held.

use std::{cell::Cell, process::ExitCode, time::Duration};

use evcore::{
    Accepted, Builder, Connections, EventLoop, Interest, Listener, Mode, Result, Step, Stream,
    Token,
    balancer::{AcceptMutex, Scoreboard, WorkerGroup, WorkerId},
};
use evcore_prefork::{DO_NOT_RESTART, Outcome, Supervisor, Worker, WorkerExit};

use crate::{
    dying::Dying,
    points::{Fatal, Points, this_process},
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
    group: WorkerGroup,
    board: Board,
    /// The worker that gets this lock is the one that dies.
    death: AcceptMutex,
    /// The worker that gets this lock is the one that leaves.
    departure: AcceptMutex,
}

/// A line for each worker: how many clients it has, and how many turns it has had.
type Board = Scoreboard<2>;

/// Serves until a signal says stop; a worker dies at its point `fatal` of this stage.
pub(crate) fn serve(setting: Setting, stage: Stage, fatal: Fatal<'static>) -> ExitCode {
    let supervisor = Supervisor::new(setting.room().len());
    let shared = Shared::new(setting, supervisor.slots());
    let address = shared.listeners[0].local_addr();
    eprintln!("listening on {address}");
    let (group, board) = (shared.group.clone(), shared.board.clone());
    let is_first_gone = Cell::new(false);
    let outcome = supervisor
        .on_exit(|exit| {
            release(exit, &group, &board);
            is_first_gone.set(true);
        })
        .run(|worker| {
            if is_first_gone.get() && !setting.has_own_listeners() {
                return DO_NOT_RESTART;
            }
            let served = work(setting, stage, fatal, &worker, shared);
            served.map_or_else(|error| panic!("a worker cannot go on: {error}"), |()| 0)
        });
    let stopped = matches!(outcome.expect("the supervisor runs"), Outcome::Stopped(_));
    ExitCode::from(u8::from(!stopped))
}

/// Frees what a dead worker held, and checks that nothing is left of it.
fn release(exit: &WorkerExit, group: &WorkerGroup, board: &Board) {
    let id = WorkerId::from_slot(exit.worker.slot);
    group.release_dead(id);
    assert_ne!(group.mutex().owner(), Some(id), "it has the lock");
    assert!(!group.release_dead(id), "it is a member");
    assert_eq!(board.read(id)[0], 0, "it has clients");
}

impl Shared {
    fn new(setting: Setting, slots: usize) -> Self {
        let board = Board::new(slots, 1).expect("memory for the scoreboard");
        let group = WorkerGroup::new(setting.policy(), slots);
        let group = group.expect("memory and descriptors for the group");
        let lock = || AcceptMutex::new().expect("memory for a lock");
        Self {
            listeners: listeners(setting).expect("a listener"),
            group: group.with_scoreboard(&board),
            board,
            death: lock(),
            departure: lock(),
        }
    }
}

/// One for both workers, or one for each, on one port.
fn listeners(setting: Setting) -> Result<Vec<Listener>> {
    let own = setting.has_own_listeners();
    let options = Listener::builder().reuse_port(own);
    let mut listeners = vec![options.bind("127.0.0.1:0")?];
    if own {
        listeners.push(options.bind(listeners[0].local_addr())?);
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
    let me = WorkerId::from_slot(worker.slot());
    let points = Points::new(fatal, shared.death.clone());
    let (departure, board) = (shared.departure.clone(), shared.board.clone());
    let [_, mut turns] = board.read(me);
    points.count(stage == Stage::Serving);
    let mut echo = Echo {
        ev: event_loop(setting, worker, shared, &points)?,
        clients: Connections::new(),
    };
    worker.wake_fd(echo.ev.handle()).expect("it is a waker");
    while worker.stop().is_none() && !echo.ev.is_done() {
        if stage.is_last() && echo.may_leave() && departure.try_lock(this_process()) {
            points.count(true);
            if stage == Stage::Stopping {
                break;
            }
            echo.ev.shutdown(LEAVING);
        }
        echo.turn(&points)?;
        turns += 1;
        let line = [u64::from(echo.ev.status().active), turns];
        points.around("publish", || board.publish(me, &line));
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
    let me = WorkerId::from_slot(worker.slot());
    let own = worker.index() % shared.listeners.len();
    let listener = shared.listeners.swap_remove(own);
    let mut builder = Builder::new()
        .listener(Dying::new(listener, points))
        .connections(setting.room()[worker.index()])
        .policy(setting.policy());
    builder = if setting.in_group() {
        let member = points.around("join", || shared.group.join(me));
        builder.group(Dying::new(member, points))
    } else {
        let handle = shared.group.mutex().handle(me);
        builder.group(Dying::new(handle, points))
    };
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
        self.ev.stats().accepted > 0 && !self.ev.status().shutting_down
    }

    fn turn(&mut self, points: &Points) -> Result<()> {
        let timeout = self.ev.prepare()?;
        points.around("wait", || self.ev.poll(timeout))?;
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
