//! The master's life: fork, wait, reap, and do as it is told.

use std::{
    io, mem,
    num::NonZeroU32,
    panic::{self, AssertUnwindSafe},
    process,
    time::Instant,
};

use rustix::process::{Pid, Signal};

use crate::{
    Affinity, Error, Outcome, Reload, Result, Stop, Upgrade, Worker, WorkerExit,
    bell::Bell,
    crew::Crew,
    foreground,
    fork::{self, Side},
    leash::{Held, Worn},
    roster::{Action, Patience, Roster, Seat},
    signals::{self, Handlers, Order},
    upgrade::Binary,
    worker::Post,
};

/// What Rust's runtime makes of a panic that nobody catches.
const PANICKED: i32 = 101;

/// What the application wants to hear of.
pub(crate) struct Hooks<'a> {
    pub(crate) on_start: Box<dyn FnMut(usize, NonZeroU32) + 'a>,
    pub(crate) on_ready: Box<dyn FnMut(usize, NonZeroU32) + 'a>,
    pub(crate) on_exit: Box<dyn FnMut(&WorkerExit) + 'a>,
    pub(crate) on_fork_error: ForkErrorHook<'a>,
    pub(crate) on_reload: Box<dyn FnMut(Reload) + 'a>,
    pub(crate) on_reopen: Box<dyn FnMut() + 'a>,
    pub(crate) on_upgrade: Box<dyn FnMut(&Upgrade) + 'a>,
}

type ForkErrorHook<'a> = Box<dyn FnMut(usize, &io::Error) + 'a>;

/// What is to be run, and how.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) workers: usize,
    pub(crate) patience: Patience,
    pub(crate) slots_serve_alone: bool,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) binary: Binary,
}

/// The one process that has no other work than to watch the others.
pub(crate) struct Master<'a, F> {
    // In the order in which they are to be dropped: the workers, what is rung, the bell.
    crew: Crew,
    handlers: Handlers,
    bell: Bell,
    hooks: Hooks<'a>,
    /// `None` once nobody will be started any more.
    work: Option<F>,
    workers: usize,
    affinity: Option<Affinity>,
    binary: Binary,
    /// How often the logs were opened again.
    reopens: u32,
    forked_any: bool,
}

impl<'a, F: FnOnce(Worker) -> i32> Master<'a, F> {
    pub(crate) fn new(plan: Plan, hooks: Hooks<'a>, work: F) -> Result<Self> {
        let mut handlers = Handlers::install()?;
        // The rope is for workers that are threads: here there are none.
        let (bell, _rope) = Bell::hang()?;
        handlers.command()?;
        let roster = Roster::new(plan.workers, plan.patience, Instant::now())
            .slots_serve_alone(plan.slots_serve_alone);
        Ok(Self {
            crew: Crew::new(roster, plan.workers),
            handlers,
            bell,
            hooks,
            work: Some(work),
            workers: plan.workers,
            affinity: plan.affinity,
            binary: plan.binary,
            reopens: 0,
            forked_any: false,
        })
    }

    /// Returns when no worker is left; in the workers it does not return.
    pub(crate) fn run(mut self) -> Result<Outcome> {
        loop {
            match self.crew.roster.next(Instant::now()) {
                Action::Start(seat) => match fork::fork() {
                    Ok(Side::Child(worn)) => self.become_worker(seat, worn),
                    Ok(Side::Parent(pid, held)) => self.forked(seat, pid, held),
                    Err(error) => self.fork_failed(seat, error)?,
                },
                Action::Signal(bank, signal) => self.crew.signal(bank, signal),
                Action::Tell(reload) => (self.hooks.on_reload)(reload),
                Action::Wait(until) => {
                    self.bell.wait(until, self.crew.leashes())?;
                    self.look();
                }
                Action::Done(outcome) => return Ok(outcome),
            }
        }
    }

    fn forked(&mut self, seat: Seat, pid: Pid, leash: Held) {
        self.forked_any = true;
        self.crew.join(seat, pid, leash, Instant::now());
        (self.hooks.on_start)(seat.index, pid.as_raw_nonzero().unsigned_abs());
    }

    /// A fork that fails is tried again, but for the first of all: that is a server that does not
    /// come up, and says why.
    fn fork_failed(&mut self, seat: Seat, error: io::Error) -> Result<()> {
        if !self.forked_any {
            return Err(Error::os("forking a worker")(error));
        }
        self.crew.roster.start_failed(seat, Instant::now());
        (self.hooks.on_fork_error)(seat.index, &error);
        Ok(())
    }

    /// Sees who serves and who died, and then what is ordered.
    ///
    /// In this order: Ctrl-C goes to the workers as well, and whoever is seen dead of it was
    /// signalled no sooner than the master. So the stop is seen too, before anyone is replaced.
    fn look(&mut self) {
        self.crew.hear(&mut self.hooks.on_ready);
        while let Some(dead) = self.crew.reap(Instant::now()) {
            (self.hooks.on_exit)(&dead);
        }
        self.look_after_the_new_binary();
        self.reopen();
        self.obey();
        if let Some(stop) = Stop::of(signals::here().severity()) {
            self.crew.roster.stop(stop, Instant::now());
            // And with it what it has captured: listeners, above all, which would otherwise go on
            // taking in clients that nobody will serve.
            self.work = None;
            self.binary.close();
        }
    }

    /// Tells the master first: workers may rely on what its hook has done.
    fn reopen(&mut self) {
        let reopens = signals::here().reopens();
        if mem::replace(&mut self.reopens, reopens) != reopens {
            (self.hooks.on_reopen)();
            self.crew.signal_all(Signal::USR1);
        }
    }

    /// Orders that come together are obeyed in the order that leaves a server that serves.
    fn obey(&mut self) {
        let orders = signals::take_orders();
        if self.work.is_none() {
            return;
        }
        if orders.contain(Order::Upgrade) {
            self.binary.start(&mut self.hooks.on_upgrade);
        }
        if orders.contain(Order::Rest) && !foreground::is_ours() {
            self.crew.roster.rest(Instant::now());
        }
        if orders.contain(Order::Reload) {
            self.crew.roster.reload();
        }
    }

    /// The new binary may end while this one lives: then this one is the server again (nginx).
    fn look_after_the_new_binary(&mut self) {
        if self.binary.reap(&mut self.hooks.on_upgrade) && self.crew.roster.is_resting() {
            self.crew.roster.reload();
        }
    }

    /// The child's side of the fork, with the signals still blocked.
    fn become_worker(self, seat: Seat, worn: Worn) -> ! {
        let Self {
            crew,
            mut handlers,
            bell,
            hooks,
            work,
            workers,
            affinity,
            binary,
            ..
        } = self;
        handlers.inherit();
        drop((bell, binary));
        crew.forget();
        worn.put_on();
        // It may have gone before it could be followed.
        signals::follow_master();
        signals::unblock();
        // None of this is the child's to end: what the application lent.
        mem::forget((handlers, hooks));
        let mut worker = Worker::new(seat.index, seat.number(workers), Post::Process);
        worker.pin(affinity.as_ref());
        let work = work.expect("nobody is started after a stop");
        let ended = panic::catch_unwind(AssertUnwindSafe(|| work(worker)));
        process::exit(ended.unwrap_or(PANICKED))
    }
}
