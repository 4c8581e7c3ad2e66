//! The reactions of the server to events of its workers: lines of the log, the pid file, and the
//! counts of the master.

use std::{
    process,
    sync::{Mutex, PoisonError},
};

use evcore::{Listener, balancer::WorkerId, clock::Clock};
use evcore_serve::{
    Event,
    prefork::{ExitCause, Reload, Upgrade, WorkerExit},
};

use crate::{
    listeners,
    log::{log, notice},
    pid_file::PidFile,
    scoreboard::Scoreboard,
    server_stats::Number,
    socket_files::SocketFiles,
};

pub struct Events {
    scoreboard: Scoreboard,
    /// True if each worker has a descriptor store: a process that keeps the idle connections of a
    /// worker that dies, and reports how many connections are lost.
    has_stores: bool,
    /// `None` once the server has ended.
    state: Mutex<Option<State>>,
}

struct State {
    /// The clock for the log lines of a worker. The loop has another one.
    clock: Clock,
    announce: Box<dyn FnMut() + Send>,
    pid_file: Option<PidFile>,
    files: SocketFiles,
}

impl Events {
    /// Creates the reactions of a server that is about to start, with the listeners to announce.
    pub fn new(
        scoreboard: Scoreboard,
        has_stores: bool,
        announced: &[Listener],
        pid_file: Option<PidFile>,
        files: SocketFiles,
    ) -> Self {
        Self {
            scoreboard,
            has_stores,
            state: Mutex::new(Some(State {
                clock: Clock::system(),
                announce: Box::new(listeners::announcement(announced)),
                pid_file,
                files,
            })),
        }
    }

    /// Reacts to an event, in the process in which it happens.
    pub fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::Ready(_) => self.with(|state| {
                state.pid_file.iter_mut().for_each(PidFile::publish);
                (state.announce)();
            }),
            Event::StartFailed(worker, error) => {
                let index = worker.index;
                log(format_args!(
                    "httpd: cannot start worker {index}, trying again: {error}"
                ));
            }
            Event::Exited(exit) => self.on_exit(exit),
            Event::Kept(_, counts) => {
                let (kept, lost) = (counts.taken as u64, counts.lost as u64);
                self.scoreboard.count(Number::Kept, kept);
                self.scoreboard.count(Number::Lost, lost);
                log(format_args!("httpd: {event}"));
            }
            Event::Stuck(worker) => {
                let index = worker.index;
                log(format_args!(
                    "httpd: worker {index} does not stop; it runs next to its replacement, at most \
                     until the server ends"
                ));
            }
            Event::Reload(reload) => self.on_reload(*reload),
            Event::Upgrade(upgrade) => self.on_upgrade(upgrade),
            // A failed listener is suspended for a while, so there are few such lines.
            Event::Listener(_, error) => self.with(|state| {
                state.clock.update();
                let (time, pid) = (state.clock.error_log_time(), process::id());
                log(format_args!("{time} [alert] {pid}: {error}"));
            }),
            Event::Affinity(_, error) => log(format_args!(
                "httpd: cannot set the CPU affinity of the worker: {error}"
            )),
            Event::CannotStart(_, error) => {
                log(format_args!("httpd: worker cannot start: {error}"));
            }
            Event::Failed(_, error) => log(format_args!("httpd: worker failed: {error}")),
            // `server` logs shortages itself, with its numbers and the time.
            Event::Shortage(..) => {}
            Event::Stopping(_) => notice(format_args!("httpd: {event}")),
            event => log(format_args!("httpd: {event}")),
        }
    }

    /// Removes the pid file and the socket files. Dropping this value would not be enough, because
    /// threads that do not stop may keep it.
    pub fn end(&self) {
        drop(self.lock().take());
    }

    fn on_exit(&self, exit: &WorkerExit) {
        // The worker is replaced, unless the server ends because no worker can start.
        if exit.stop.is_none() {
            self.scoreboard.count(Number::Restarts, 1);
        }
        if exit.cause != ExitCause::Exited(0) || exit.stop.is_none() {
            if !self.has_stores {
                let worker = WorkerId::from_slot(exit.worker.slot);
                let lost = self.scoreboard.read(worker).active;
                self.scoreboard.count(Number::Lost, lost);
            }
            log(format_args!("httpd: {exit}"));
        }
    }

    fn on_reload(&self, reload: Reload) {
        let line = format!("httpd: reload: {reload}");
        if reload == Reload::Done {
            self.scoreboard.count(Number::Reloads, 1);
        }
        match reload {
            Reload::Started | Reload::Done => notice(line),
            _ => log(line),
        }
    }

    fn on_upgrade(&self, upgrade: &Upgrade) {
        let line = format!("httpd: {upgrade}");
        match upgrade {
            Upgrade::Starting | Upgrade::Started(_) => notice(line),
            _ => log(line),
        }
        self.with(|state| {
            let pid_file = state.pid_file.iter_mut();
            pid_file.for_each(|file| file.on_upgrade(upgrade));
            state.files.on_upgrade(upgrade);
        });
    }

    fn with(&self, change: impl FnOnce(&mut State)) {
        if let Some(state) = &mut *self.lock() {
            change(state);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
