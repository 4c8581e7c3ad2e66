//! What the master does: it starts workers, as processes or as threads, and reports on them.

use std::{
    cell::{Cell, RefCell},
    error::Error,
    io,
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering},
};

use evcore::balancer::WorkerId;
use evcore_prefork::{DO_NOT_RESTART, ExitCause, Outcome, Reload, Supervisor, Worker, WorkerInfo};

use crate::{
    listeners,
    log::log,
    options::Options,
    pid_file::PidFile,
    socket_files::SocketFiles,
    worker::{self, Shared},
};

/// The exit code of a worker that has to be replaced.
const TRY_AGAIN: i32 = 1;

/// How many workers can live at the same time, old and new ones.
pub fn slots(options: &Options) -> usize {
    match options.workers {
        0 => 1,
        workers => Supervisor::new(workers).slots(),
    }
}

/// How many descriptors the group of the workers has: one for each, if they look at each other.
pub fn notifiers(options: &Options) -> usize {
    if options.policy.uses_group() {
        slots(options)
    } else {
        0
    }
}

/// Runs the workers, as processes or as threads, until a signal stops them.
pub fn run(
    shared: Shared,
    pid_file: Option<PidFile>,
    files: &SocketFiles,
) -> Result<ExitCode, Box<dyn Error>> {
    let pid_file = RefCell::new(pid_file);
    let started = Cell::new(0);
    let after_death = after_death(&shared);
    let mut announce = listeners::announcement(&shared.listeners[0]);
    let options = &shared.options;
    let mut supervisor = Supervisor::new(options.workers)
        .slots_serve_alone(options.own_listeners)
        // A worker gives up by itself at its timeout; this is for one that does not.
        .stop_timeout(options.shutdown_timeout * 2)
        .on_start(|_worker| started.set(started.get() + 1))
        .on_start_error(log_start_error)
        .on_ready(|_worker| {
            pid_file.borrow_mut().iter_mut().for_each(PidFile::show);
            announce();
        })
        .on_stuck(log_stuck)
        .on_exit(move |exit| {
            after_death(exit.worker.slot);
            if exit.cause != ExitCause::Exited(0) || exit.stop.is_none() {
                log(format_args!("httpd: {exit}"));
            }
        })
        .on_reload(log_reload)
        .on_upgrade(|upgrade| {
            log(format_args!("httpd: {upgrade}"));
            let mut pid_file = pid_file.borrow_mut();
            pid_file.iter_mut().for_each(|file| file.follow(upgrade));
            files.follow(upgrade);
        });
    if let Some(affinity) = options.affinity.clone() {
        supervisor = supervisor.affinity(affinity);
    }
    let outcome = if options.threads {
        run_threads(supervisor, shared)
    } else {
        run_processes(supervisor, shared, &started)
    };
    Ok(match outcome? {
        Outcome::AllRefused => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

fn run_processes(
    mut supervisor: Supervisor<'_>,
    shared: Shared,
    started: &Cell<usize>,
) -> evcore_prefork::Result<Outcome> {
    for listener in shared.listeners.iter().flatten() {
        supervisor = supervisor.inherit(listener)?;
    }
    let workers = shared.options.workers;
    // A worker has the count of the time when it was forked.
    let is_first = || started.get() < workers;
    supervisor.run(|worker| work(worker, Ok(shared), is_first()))
}

fn run_threads(supervisor: Supervisor<'_>, shared: Shared) -> evcore_prefork::Result<Outcome> {
    let workers = shared.options.workers;
    let started = AtomicUsize::new(0);
    supervisor.run_threads(move |worker| {
        let is_first = started.fetch_add(1, Ordering::Relaxed) < workers;
        let shared = shared.for_another_worker(&worker);
        work(worker, shared, is_first)
    })
}

/// Frees all that a dead worker held in shared memory.
fn after_death(shared: &Shared) -> impl Fn(usize) + use<> {
    let group = shared.group.clone();
    move |slot| {
        group.release_dead(WorkerId::from_slot(slot));
    }
}

fn log_start_error(worker: &WorkerInfo, error: &io::Error) {
    let index = worker.index;
    log(format_args!(
        "httpd: worker {index} cannot be started, which is tried again: {error}"
    ));
}

fn log_stuck(worker: &WorkerInfo) {
    let index = worker.index;
    log(format_args!(
        "httpd: worker {index} does not stop; it goes on beside its replacement until it does, or \
         until the server ends"
    ));
}

fn log_reload(reload: Reload) {
    log(format_args!("httpd: reload: {reload:?}: {reload}"));
}

/// A worker's life; its exit status. One of the first that cannot begin is not tried again: a
/// server that does not come up is to say so and end. Later ones take the place of somebody who
/// has served: so what is in the way may pass, and meanwhile the clients of their listener wait.
fn work(worker: Worker, shared: Result<Shared, Box<dyn Error>>, is_first: bool) -> i32 {
    if let Some(error) = worker.affinity_error() {
        log(format_args!(
            "httpd: worker is not kept on its CPU: {error}"
        ));
    }
    let server = match shared.and_then(|shared| worker::server(&worker, shared)) {
        Ok(server) => server,
        Err(error) => {
            log(format_args!("httpd: worker cannot serve: {error}"));
            return if is_first { DO_NOT_RESTART } else { TRY_AGAIN };
        }
    };
    worker.ready();
    match worker::run(server, &worker) {
        Ok(()) => 0,
        Err(error) => {
            log(format_args!("httpd: worker cannot go on: {error}"));
            TRY_AGAIN
        }
    }
}
