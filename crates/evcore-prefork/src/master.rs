//! The master, which starts workers, waits for events, reaps workers, and handles commands.

use std::{io, mem, os::unix::net::UnixStream, time::Instant};

use crate::{
    children::Children,
    error::{Error, Result},
    exit::{CANNOT_START, DO_NOT_RESTART, ExitCause, Outcome, WorkerExit, WorkerInfo},
    foreground,
    hang::Watch,
    hooks::Hooks,
    interval::Interval,
    lifecycle::{Action, Config, Lifecycle},
    self_pipe::SelfPipe,
    signals::{self, Command, Handlers},
    slot::Slot,
    spawn::{Child, End, Spawn, Spawned},
    stop::Stop,
    successor::Successor,
    upgrade::{self, Binary, Upgrade},
};

/// Performs the decisions of the [`Lifecycle`]. The workers are processes or threads.
pub(crate) struct Master<'a, S: Spawn> {
    // The fields are dropped in this order: first the workers, then the write end of the self-pipe,
    // then its reader.
    children: Children<S::Child>,
    handlers: Handlers,
    self_pipe: SelfPipe,
    lifecycle: Lifecycle,
    config: Config,
    spawner: S,
    hooks: Hooks<'a>,
    /// The binary that USR2 starts; `None` if the workers are threads.
    binary: Option<Binary>,
    watch: Option<Watch>,
    reopen_count: u32,
    stop: Option<Stop>,
    /// The successor that was last reported to the descriptor stores and to the workers that stop.
    reported: Option<Successor>,
    started_any: bool,
}

impl<'a, S: Spawn> Master<'a, S> {
    /// Takes the process's signals. `spawner` gets the write end of the self-pipe.
    pub(crate) fn new(
        config: Config,
        hooks: Hooks<'a>,
        binary: Option<Binary>,
        watch: Option<Watch>,
        spawner: impl FnOnce(UnixStream) -> S,
    ) -> Result<Self> {
        let mut handlers = Handlers::install()?;
        let (self_pipe, waker) = SelfPipe::install()?;
        handlers.install_for_master()?;
        Ok(Self {
            children: Children::new(),
            handlers,
            self_pipe,
            lifecycle: Lifecycle::new(config, Instant::now()),
            config,
            spawner: spawner(waker),
            hooks,
            binary,
            watch,
            reopen_count: 0,
            stop: None,
            reported: None,
            started_any: false,
        })
    }

    /// Runs until no worker is left, except for abandoned threads. In a forked worker it does not
    /// return.
    pub(crate) fn run(mut self) -> Result<Outcome> {
        loop {
            let action = self.lifecycle.next(Instant::now());
            self.report_successor();
            match action {
                Action::Start(slot) => match self.spawner.spawn(slot) {
                    Ok(Spawned::Child(child)) => self.started(slot, child),
                    Ok(Spawned::Forked(forked)) => self.become_worker(slot, forked),
                    Err(error) => self.start_failed(slot, error)?,
                },
                Action::Stop(row, stop) => self.stop(row, stop),
                Action::Kill(row) => {
                    let children = self.children.in_row(row);
                    children.for_each(|(_, child)| child.kill());
                }
                Action::ReportStuck(row) => self.report_stuck(row),
                Action::Abandon(row) => self.abandon(row),
                Action::Report(reload) => (self.hooks.on_reload)(reload),
                Action::Wait(until) => {
                    let intervals = self.hooks.intervals.iter().map(Interval::due);
                    let watch = self.watch.as_ref().map(|watch| watch.due);
                    let until = until.into_iter().chain(intervals).chain(watch).min();
                    self.self_pipe.wait(until, self.children.ready_fds())?;
                    self.handle_events();
                }
                Action::Done(outcome) => {
                    if self.has_other_binary() {
                        self.spawner.wait();
                    }
                    return Ok(outcome);
                }
            }
        }
    }

    fn started(&mut self, slot: Slot, child: S::Child) {
        self.started_any = true;
        let worker = self.info(slot, Some(&child));
        self.children.insert(slot, child);
        self.lifecycle.started(slot, Instant::now());
        (self.hooks.on_start)(&worker);
    }

    /// A failed start is tried again later. The error of the very first start is returned instead,
    /// because then the server cannot start.
    fn start_failed(&mut self, slot: Slot, error: io::Error) -> Result<()> {
        if !self.started_any {
            return Err(Error::os(S::DOING)(error));
        }
        self.lifecycle.start_failed(slot, Instant::now());
        let worker = self.info(slot, None);
        (self.hooks.on_start_error)(&worker, &error);
        Ok(())
    }

    /// Workers are reaped before the stop is handled, because Ctrl-C also reaches the workers. If
    /// Ctrl-C has ended a worker that is reaped here, the master has also got the signal by now.
    /// The master then handles the stop before it replaces a worker.
    fn handle_events(&mut self) {
        self.handle_ready();
        self.handle_ends();
        self.spawner.reap(&mut *self.hooks.on_kept);
        self.handle_end_of_new_binary();
        self.handle_reopen();
        self.handle_commands();
        self.handle_stop();
        self.kill_hung();
        for interval in &mut self.hooks.intervals {
            interval.call_if_due(Instant::now());
        }
    }

    fn handle_ready(&mut self) {
        let (children, report) = self.children_and_report();
        children.take_ready(report);
    }

    fn handle_ends(&mut self) {
        while let Some((slot, child, end)) = self.take_ended() {
            let stop = self.lifecycle.requested(slot.row).max(end.stop);
            self.ended(slot, &child, end.cause, stop);
        }
    }

    fn take_ended(&mut self) -> Option<(Slot, S::Child, End)> {
        let (children, report) = self.children_and_report();
        children.take_ended(report)
    }

    /// The workers, and the function to call when one is ready.
    fn children_and_report(&mut self) -> (&mut Children<S::Child>, impl FnMut(Slot, &S::Child)) {
        let (lifecycle, hooks, workers) =
            (&mut self.lifecycle, &mut self.hooks, self.config.workers);
        let report = move |slot, child: &S::Child| {
            lifecycle.ready(slot);
            (hooks.on_ready)(&WorkerInfo::new(slot, workers, child.pid()));
        };
        (&mut self.children, report)
    }

    fn ended(&mut self, slot: Slot, child: &S::Child, cause: ExitCause, stop: Option<Stop>) {
        let now = Instant::now();
        let has_successor = !self.lifecycle.is_stopping() || self.has_other_binary();
        let worker = self.info(slot, Some(child));
        self.spawner.ended(&worker, has_successor);
        let watch = self.watch.iter();
        watch.for_each(|watch| watch.turns.end(worker.slot));
        match cause {
            ExitCause::Exited(CANNOT_START) => self.lifecycle.cannot_start(slot, now),
            _ => {
                let refused = cause == ExitCause::Exited(DO_NOT_RESTART);
                self.lifecycle.ended(slot, refused, now);
            }
        }
        (self.hooks.on_exit)(&WorkerExit {
            worker,
            cause,
            stop,
        });
    }

    /// Reports a change of the successor to the stores, and to the workers that are already
    /// stopping.
    fn report_successor(&mut self) {
        let successor = self.successor();
        if mem::replace(&mut self.reported, successor) == successor {
            return;
        }
        let Some(successor) = successor else { return };
        self.spawner.set_successor(successor);
        for (slot, child) in self.children.all() {
            if self.lifecycle.requested(slot.row).is_some() {
                child.replace(successor);
            }
        }
    }

    fn stop(&mut self, row: usize, stop: Stop) {
        for (_, child) in self.children.in_row(row) {
            if let Some(successor) = self.reported {
                // The report comes before the stop, because a worker looks for its successor when
                // it gets the stop.
                child.replace(successor);
            }
            child.stop(stop);
        }
    }

    fn successor(&self) -> Option<Successor> {
        let keeps = || self.binary.as_ref().is_some_and(Binary::keeps_mailboxes);
        if self.lifecycle.serves() {
            Some(Successor::Generation)
        } else if self.has_other_binary() {
            Some(Successor::Binary)
        } else if self.lifecycle.is_stopping() && keeps() {
            Some(Successor::Restart)
        } else {
            None
        }
    }

    fn has_other_binary(&self) -> bool {
        self.binary.as_ref().is_some_and(Binary::has_newer) || upgrade::parent_binary_alive()
    }

    fn report_stuck(&mut self, row: usize) {
        for (slot, child) in self.children.in_row(row) {
            let worker = WorkerInfo::new(slot, self.config.workers, child.pid());
            (self.hooks.on_stuck)(&worker);
        }
    }

    fn abandon(&mut self, row: usize) {
        let slots: Vec<Slot> = self.children.in_row(row).map(|(slot, _)| slot).collect();
        for slot in slots {
            let child = self
                .children
                .remove(slot)
                .expect("the worker was there just now");
            self.ended(slot, &child, ExitCause::Abandoned, Some(Stop::Fast));
        }
    }

    /// Handles the end of the new binary. If the workers of this binary were stopped by WINCH, new
    /// ones are started, as in nginx.
    fn handle_end_of_new_binary(&mut self) {
        let binary = self.binary.as_mut();
        let ended = binary.is_some_and(|binary| binary.reap(&mut self.hooks.on_upgrade));
        if ended && self.lifecycle.is_drained() {
            self.lifecycle.reload();
        }
    }

    fn kill_hung(&mut self) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        if !watch.is_due(Instant::now()) {
            return;
        }
        for (slot, child) in self.children.all() {
            let worker = WorkerInfo::new(slot, self.config.workers, child.pid());
            if let Some(lasted) = watch.hangs(worker.slot) {
                (self.hooks.on_hang)(&worker, lasted);
                child.kill();
                // The worker is reported once, even if it takes a while to die.
                watch.turns.end(worker.slot);
            }
        }
    }

    /// Reopens the logs of the master first, because workers may rely on the effect of its hook.
    fn handle_reopen(&mut self) {
        let reopen_count = signals::state().reopen_count();
        if mem::replace(&mut self.reopen_count, reopen_count) != reopen_count {
            (self.hooks.on_reopen)();
            self.children.iter().for_each(S::Child::reopen);
        }
    }

    /// Handles pending commands in such an order that a drain does not undo a reload.
    fn handle_commands(&mut self) {
        let commands = signals::take_commands();
        if self.lifecycle.is_stopping() {
            return;
        }
        if commands.contain(Command::Upgrade) {
            self.upgrade();
        }
        if commands.contain(Command::Drain) && !foreground::is_ours() {
            self.lifecycle.drain(Instant::now());
        }
        if commands.contain(Command::Reload) {
            self.lifecycle.reload();
        }
    }

    fn upgrade(&mut self) {
        match &mut self.binary {
            Some(binary) => binary.start(&mut self.hooks.on_upgrade),
            None => (self.hooks.on_upgrade)(&Upgrade::Unsupported),
        }
    }

    fn handle_stop(&mut self) {
        if let Some(stop) = Stop::from_severity(signals::state().severity()) {
            if self.stop.replace(stop) != Some(stop) {
                (self.hooks.on_stop)(stop);
            }
            self.lifecycle.stop(stop, Instant::now());
            // This drops the values that the workers' function has captured, above all listeners.
            // Listeners that stay open would accept clients that no worker will serve.
            self.spawner.close();
            if let Some(binary) = &mut self.binary {
                binary.close();
            }
        }
    }

    fn info(&self, slot: Slot, child: Option<&S::Child>) -> WorkerInfo {
        WorkerInfo::new(slot, self.config.workers, child.and_then(S::Child::pid))
    }

    /// The child's side of a fork, with the signals still blocked.
    fn become_worker(self, slot: Slot, forked: S::Forked) -> ! {
        let Self {
            children,
            mut handlers,
            self_pipe,
            spawner,
            hooks,
            binary,
            ..
        } = self;
        handlers.inherit();
        drop((self_pipe, binary));
        children.forget();
        // The hooks are not dropped, because their values belong to the application in the master.
        // The handlers stay installed.
        mem::forget((handlers, hooks));
        spawner.run_forked(slot, forked)
    }
}
