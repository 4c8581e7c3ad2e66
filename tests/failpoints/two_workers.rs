//! The server of one run: two workers that echo, one of which dies or leaves, and the parent, which
//! releases the lock and the membership of the dead worker.

use std::{cell::Cell, process::ExitCode, time::Duration};

use evcore::{
    Accepted, Builder, EventLoop, Interest, Listener, Mode, Result, Step, Stream, Token, TokenMap,
    balancer::{AcceptMutex, Scoreboard, WorkerGroup, WorkerId},
};
use evcore_prefork::{DO_NOT_RESTART, Outcome, Supervisor, Worker, WorkerExit};

use crate::{
    config::{Config, Phase},
    failpoint::{Failpoints, Fatal, this_process},
    instrumented::Instrumented,
};

/// The argument that makes this program the server.
pub(crate) const FLAG: &str = "--serve";

/// The line that a worker prints after it has ended regularly, not at a failpoint.
pub(crate) const LEFT: &str = "left";

const SHUTDOWN: Duration = Duration::from_millis(100);

struct Shared {
    listeners: Vec<Listener>,
    group: WorkerGroup,
    board: Board,
    /// The worker that gets this lock is the one that dies.
    death: AcceptMutex,
    /// The worker that gets this lock is the one that leaves.
    departure: AcceptMutex,
}

/// A line for each worker: the number of its clients, and of its turns (iterations of its loop).
type Board = Scoreboard<2>;

/// Serves until a signal stops the server. The first worker that hits `fatal` in this phase dies.
pub(crate) fn serve(config: Config, phase: Phase, fatal: Fatal<'static>) -> ExitCode {
    let supervisor = Supervisor::new(config.capacities().len());
    let shared = Shared::new(config, supervisor.slots());
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
            if is_first_gone.get() && !config.has_own_listeners() {
                return DO_NOT_RESTART;
            }
            let served = work(config, phase, fatal, &worker, shared);
            served.map_or_else(|error| panic!("a worker cannot go on: {error}"), |()| 0)
        });
    let stopped = matches!(outcome.expect("the supervisor runs"), Outcome::Stopped(_));
    ExitCode::from(u8::from(!stopped))
}

/// Releases a dead worker, and checks that none of its state is left.
fn release(exit: &WorkerExit, group: &WorkerGroup, board: &Board) {
    let id = WorkerId::from_slot(exit.worker.slot);
    group.release_dead(id);
    assert_ne!(
        group.mutex().owner(),
        Some(id),
        "the dead worker still owns the lock"
    );
    assert!(!group.release_dead(id), "the dead worker is still a member");
    assert_eq!(board.read(id)[0], 0, "the dead worker still has clients");
}

impl Shared {
    fn new(config: Config, slots: usize) -> Self {
        let board = Board::new(slots, 1).expect("memory for the scoreboard");
        let group = WorkerGroup::new(config.policy(), slots);
        let group = group.expect("memory and descriptors for the group");
        let lock = || AcceptMutex::new().expect("memory for a lock");
        Self {
            listeners: listeners(config).expect("a listener"),
            group: group.with_scoreboard(&board),
            board,
            death: lock(),
            departure: lock(),
        }
    }
}

fn listeners(config: Config) -> Result<Vec<Listener>> {
    let own = config.has_own_listeners();
    let options = Listener::builder().reuse_port(own);
    let mut listeners = vec![options.bind("127.0.0.1:0")?];
    if own {
        listeners.push(options.bind(listeners[0].local_addr())?);
    }
    Ok(listeners)
}

fn work(
    config: Config,
    phase: Phase,
    fatal: Fatal<'static>,
    worker: &Worker,
    shared: Shared,
) -> Result<()> {
    let me = WorkerId::from_slot(worker.slot());
    let failpoints = Failpoints::new(fatal, shared.death.clone());
    let (departure, board) = (shared.departure.clone(), shared.board.clone());
    let [_, mut turns] = board.read(me);
    failpoints.enable(phase == Phase::Serving);
    let mut echo = Echo {
        ev: event_loop(config, worker, shared, &failpoints)?,
        clients: TokenMap::new(),
    };
    let handle = echo.ev.handle();
    let fd = handle.descriptor().expect("a kernel's backend");
    worker.wake_fd(fd).expect("a descriptor is left");
    while worker.stop().is_none() && !echo.ev.stats().shut_down {
        if phase.is_last() && echo.may_leave() && departure.try_lock(this_process()) {
            failpoints.enable(true);
            if phase == Phase::Stopping {
                break;
            }
            echo.ev.shutdown(SHUTDOWN);
        }
        echo.turn(&failpoints)?;
        turns += 1;
        let line = [u64::from(echo.ev.stats().active), turns];
        failpoints.around("publish", || board.publish(me, &line));
    }
    let all_stop = worker.stop().is_some();
    if all_stop {
        failpoints.enable(false);
    }
    drop(echo);
    if !all_stop {
        eprintln!("{LEFT}");
    }
    Ok(())
}

fn event_loop(
    config: Config,
    worker: &Worker,
    mut shared: Shared,
    failpoints: &Failpoints,
) -> Result<EventLoop<Instrumented<Listener>>> {
    let me = WorkerId::from_slot(worker.slot());
    let own = worker.index().get() % shared.listeners.len();
    let listener = shared.listeners.swap_remove(own);
    let mut builder = Builder::default()
        .listener(Instrumented::new(listener, failpoints))
        .connections(config.capacities()[worker.index().get()])
        .policy(config.policy());
    builder = if config.in_group() {
        let member = failpoints.around("join", || shared.group.join(me));
        builder.group(Instrumented::new(member, failpoints))
    } else {
        let handle = shared.group.mutex().lock_handle(me);
        builder.group(Instrumented::new(handle, failpoints))
    };
    if let Some(kind) = config.poller() {
        builder = builder.poller(kind);
    }
    builder.build()
}

struct Echo {
    ev: EventLoop<Instrumented<Listener>>,
    clients: TokenMap<Stream>,
}

impl Echo {
    fn may_leave(&self) -> bool {
        self.ev.stats().accepted > 0 && !self.ev.stats().shutting_down
    }

    fn turn(&mut self, failpoints: &Failpoints) -> Result<()> {
        let timeout = self.ev.prepare()?.timeout;
        failpoints.around("wait", || self.ev.wait_at_most(timeout))?;
        while let Some(step) = self.ev.next_step() {
            failpoints.hit("before", "step");
            match step {
                Step::Accepted(new) => self.add(new)?,
                Step::Ready(token, _) => self.echo(token),
                _ => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, new: Accepted) -> Result<()> {
        let (interest, mode) = (Interest::READ, Mode::Level);
        self.clients.add(&mut self.ev, new.stream, interest, mode)?;
        Ok(())
    }

    fn echo(&mut self, token: Token) {
        let stream = self.clients.get(token).expect("the token is a client's");
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
