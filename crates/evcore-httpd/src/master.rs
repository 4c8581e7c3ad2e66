//! What the master does: it starts workers, as processes or as threads, and hears of them.

use std::{
    cell::{Cell, RefCell},
    error::Error,
    io,
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering},
};

use evcore::balancer::WorkerId;
use evcore_prefork::{DO_NOT_RESTART, Outcome, Reload, Supervisor, ThreadEnd, Threads, Worker};

use crate::{
    listeners,
    log::log,
    options::Options,
    pid_file::PidFile,
    socket_files::SocketFiles,
    worker::{self, Shared},
};

/// The exit status of a worker that is to be replaced.
const TRY_AGAIN: i32 = 1;

/// How many workers can live at the same time, old and new ones.
pub fn slots(options: &Options) -> usize {
    match options.workers {
        0 => 1,
        workers => Supervisor::new(workers).seats(),
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

/// Workers as processes, which the master replaces.
pub fn with_processes(
    shared: Shared,
    pid_file: Option<PidFile>,
    files: &SocketFiles,
) -> Result<ExitCode, Box<dyn Error>> {
    let pid_file = RefCell::new(pid_file);
    let started = Cell::new(0);
    let after_death = after_death(&shared);
    let mut announce = listeners::announcement(&shared.listeners[0]);
    let options = &shared.options;
    let workers = options.workers;
    let mut supervisor = Supervisor::new(workers)
        .slots_serve_alone(options.own_listeners)
        // A worker gives up by itself at its timeout; this is for one that does not.
        .stop_timeout(options.shutdown_timeout * 2)
        .on_start(|_index, _pid| started.set(started.get() + 1))
        .on_ready(|_index, _pid| {
            pid_file.borrow_mut().iter_mut().for_each(PidFile::show);
            announce();
        })
        .on_exit(move |dead| {
            after_death(dead.seat);
            let is_well = dead.status.is_some_and(|status| status.success());
            if !is_well || dead.stop.is_none() {
                log(format_args!("httpd: {dead}"));
            }
        })
        .on_fork_error(not_started)
        .on_reload(reloads)
        .on_upgrade(|upgrade| {
            log(format_args!("httpd: {upgrade}"));
            let mut pid_file = pid_file.borrow_mut();
            pid_file.iter_mut().for_each(|file| file.follow(upgrade));
            files.follow(upgrade);
        });
    for listener in shared.listeners.iter().flatten() {
        supervisor = supervisor.inherit(listener)?;
    }
    if let Some(affinity) = options.affinity.clone() {
        supervisor = supervisor.affinity(affinity);
    }
    // A worker has the count as it was when it was forked.
    let is_first = || started.get() < workers;
    let outcome = supervisor.run(|worker| work(worker, Ok(shared), is_first()))?;
    Ok(status(outcome))
}

/// Workers as threads of this process.
pub fn with_threads(
    shared: Shared,
    mut pid_file: Option<PidFile>,
) -> Result<ExitCode, Box<dyn Error>> {
    let after_death = after_death(&shared);
    let mut announce = listeners::announcement(&shared.listeners[0]);
    let options = &shared.options;
    let workers = options.workers;
    let mut threads = Threads::new(workers)
        .slots_serve_alone(options.own_listeners)
        .stop_timeout(options.shutdown_timeout * 2)
        .on_ready(|_index| {
            pid_file.iter_mut().for_each(PidFile::show);
            announce();
        })
        .on_exit(move |dead| {
            after_death(dead.seat);
            if dead.end != ThreadEnd::Returned(0) || dead.stop.is_none() {
                log(format_args!("httpd: {dead}"));
            }
        })
        .on_start_error(not_started)
        .on_stuck(does_not_stop)
        .on_reload(reloads);
    if let Some(affinity) = options.affinity.clone() {
        threads = threads.affinity(affinity);
    }
    let started = AtomicUsize::new(0);
    let outcome = threads.run(move |worker| {
        let is_first = started.fetch_add(1, Ordering::Relaxed) < workers;
        let shared = shared.for_another_worker(&worker);
        work(worker, shared, is_first)
    })?;
    Ok(status(outcome))
}

/// Frees all that a dead worker held in shared memory.
fn after_death(shared: &Shared) -> impl Fn(usize) + use<> {
    let group = shared.group.clone();
    move |slot| {
        group.release_dead(WorkerId::from_slot(slot));
    }
}

fn not_started(index: usize, error: &io::Error) {
    log(format_args!(
        "httpd: worker {index} cannot be started, which is tried again: {error}"
    ));
}

fn does_not_stop(index: usize) {
    log(format_args!(
        "httpd: worker {index} does not stop; it goes on beside its replacement until it does, or \
         until the server ends"
    ));
}

fn reloads(reload: Reload) {
    log(format_args!("httpd: reload: {reload:?}: {reload}"));
}

fn status(outcome: Outcome) -> ExitCode {
    match outcome {
        Outcome::Refused => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    }
}

/// A worker's life; its exit status. One of the first that cannot begin is not tried again: a
/// server that does not come up is to say so and end. Later ones take the place of somebody who
/// has served: so what is in the way may pass, and meanwhile the clients of their listener wait.
fn work(worker: Worker, shared: Result<Shared, Box<dyn Error>>, is_first: bool) -> i32 {
    if let Some(error) = worker.pin_error() {
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
