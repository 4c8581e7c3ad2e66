//! The master's life: fork, wait, reap, and stop when told.

use std::{
    io, mem,
    num::NonZeroU32,
    panic::{self, AssertUnwindSafe},
    process,
    time::{Duration, Instant},
};

use rustix::process::{Pid, getpid};

use crate::{
    Error, Outcome, Result, Worker, WorkerExit,
    bell::Bell,
    crew::Crew,
    fork::{self, Side},
    roster::{Action, Roster},
    signals::{self, Handlers},
};

/// What Rust's runtime makes of a panic that nobody catches.
const PANICKED: i32 = 101;

/// What the application wants to hear of.
pub(crate) struct Hooks<'a> {
    pub(crate) on_start: Box<dyn FnMut(usize, NonZeroU32) + 'a>,
    pub(crate) on_exit: Box<dyn FnMut(&WorkerExit) + 'a>,
    pub(crate) on_fork_error: ForkErrorHook<'a>,
}

type ForkErrorHook<'a> = Box<dyn FnMut(usize, &io::Error) + 'a>;

/// The one process that has no other work than to watch the others.
pub(crate) struct Master<'a, F> {
    // In the order in which they are to be dropped: the workers, what is rung, the bell.
    crew: Crew,
    handlers: Handlers,
    bell: Bell,
    hooks: Hooks<'a>,
    /// `None` once nobody will be started any more.
    work: Option<F>,
    pid: Pid,
    forked_any: bool,
}

impl<'a, F: FnOnce(Worker) -> i32> Master<'a, F> {
    pub(crate) fn new(
        workers: usize,
        stop_timeout: Duration,
        hooks: Hooks<'a>,
        work: F,
    ) -> Result<Self> {
        let mut handlers = Handlers::install()?;
        let bell = Bell::hang()?;
        handlers.watch_children()?;
        let roster = Roster::new(workers, stop_timeout, Instant::now());
        Ok(Self {
            crew: Crew { roster },
            handlers,
            bell,
            hooks,
            work: Some(work),
            pid: getpid(),
            forked_any: false,
        })
    }

    /// Returns when no worker is left; in the workers it does not return.
    pub(crate) fn run(mut self) -> Result<Outcome> {
        loop {
            match self.crew.roster.next(Instant::now()) {
                Action::Fork(index) => match fork::fork() {
                    Ok(Side::Child) => self.become_worker(index),
                    Ok(Side::Parent(pid)) => self.forked(index, pid),
                    Err(error) => self.fork_failed(index, error)?,
                },
                Action::Signal(signal) => self.crew.signal(signal),
                Action::Wait(until) => {
                    self.bell.wait(until)?;
                    self.look();
                }
                Action::Done(outcome) => return Ok(outcome),
            }
        }
    }

    fn forked(&mut self, index: usize, pid: Pid) {
        self.forked_any = true;
        self.crew.roster.forked(index, pid, Instant::now());
        (self.hooks.on_start)(index, pid.as_raw_nonzero().unsigned_abs());
    }

    /// A fork that fails is tried again, but for the first of all: that is a server that does not
    /// come up, and says why.
    fn fork_failed(&mut self, index: usize, error: io::Error) -> Result<()> {
        if !self.forked_any {
            return Err(Error::os("fork")(error));
        }
        self.crew.roster.fork_failed(index, Instant::now());
        (self.hooks.on_fork_error)(index, &error);
        Ok(())
    }

    /// Sees who died, and then whether to stop.
    ///
    /// In this order: Ctrl-C goes to the workers as well, and whoever is seen dead of it was
    /// signalled no sooner than the master. So the stop is seen too, before anyone is replaced.
    fn look(&mut self) {
        while let Some(dead) = self.crew.reap(Instant::now()) {
            (self.hooks.on_exit)(&dead);
        }
        if let Some(stop) = signals::stop() {
            self.crew.roster.stop(stop, Instant::now());
            // And with it what it has captured: listeners, above all, which would otherwise go on
            // taking in clients that nobody will serve.
            self.work = None;
        }
    }

    /// The child's side of the fork, with the signals still blocked.
    fn become_worker(self, index: usize) -> ! {
        let Self {
            crew,
            mut handlers,
            bell,
            hooks,
            work,
            pid,
            ..
        } = self;
        handlers.inherit();
        drop(bell);
        fork::follow(pid);
        signals::unblock();
        // None of this is the child's to end: the siblings, nor what the application lent.
        mem::forget((crew, handlers, hooks));
        let worker = Worker::new(index);
        let work = work.expect("nobody is started after a stop");
        let ended = panic::catch_unwind(AssertUnwindSafe(|| work(worker)));
        process::exit(ended.unwrap_or(PANICKED))
    }
}
