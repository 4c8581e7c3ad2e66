//! The master: starts workers, as processes or as threads, and logs what becomes of them.

use std::{cell::RefCell, error::Error, io, process::ExitCode, time::Duration};

use evcore::balancer::WorkerId;
use evcore_prefork::{
    CANNOT_START, ExitCause, Outcome, Reload, Supervisor, Upgrade, Worker, WorkerInfo,
};

use crate::{
    listeners,
    log::{log, notice},
    options::Options,
    pid_file::PidFile,
    socket_files::SocketFiles,
    worker::{self, Setup},
};

/// The exit code of a worker that the supervisor has to replace.
const EXIT_RETRY: i32 = 1;

/// The most workers that can run at the same time, old and new ones.
pub fn slots(options: &Options) -> usize {
    match options.workers {
        0 => 1,
        workers => Supervisor::new(workers).slots(),
    }
}

/// The number of descriptors of the worker group: one for each slot, if the policy uses the group.
pub fn notify_fds(options: &Options) -> usize {
    if options.policy.uses_group() {
        slots(options)
    } else {
        0
    }
}

/// Runs the workers, as processes or as threads, until a signal stops them.
pub fn run(
    setup: Setup,
    pid_file: Option<PidFile>,
    files: &SocketFiles,
) -> Result<ExitCode, Box<dyn Error>> {
    let pid_file = RefCell::new(pid_file);
    let release_dead = release_dead(&setup);
    let (on_exit_board, on_reload_board) = (setup.scoreboard.clone(), setup.scoreboard.clone());
    let mut announce = listeners::announcement(&setup.listeners[0]);
    let options = &setup.options;
    let mut supervisor = Supervisor::new(options.workers)
        .slots_serve_alone(options.own_listeners)
        // Each worker reports. Until all new ones have, a reload leaves the old ones alone.
        .ready_timeout(Duration::MAX)
        // A worker stops by itself at its timeout; this is for one that hangs.
        .stop_timeout(options.shutdown_timeout * 2)
        .on_start_error(log_start_error)
        .on_ready(|_worker| {
            pid_file.borrow_mut().iter_mut().for_each(PidFile::publish);
            announce();
        })
        .on_stuck(log_stuck)
        .on_exit(move |exit| {
            release_dead(exit.worker.slot);
            // It is replaced, unless the server ends because no worker can start.
            if exit.stop.is_none() {
                on_exit_board.count_restart();
            }
            if exit.cause != ExitCause::Exited(0) || exit.stop.is_none() {
                log(format_args!("httpd: {exit}"));
            }
        })
        .on_reload(move |reload| {
            if reload == Reload::Done {
                on_reload_board.count_reload();
            }
            log_reload(reload);
        })
        .on_upgrade(|upgrade| {
            log_upgrade(upgrade);
            let mut pid_file = pid_file.borrow_mut();
            pid_file
                .iter_mut()
                .for_each(|file| file.on_upgrade(upgrade));
            files.on_upgrade(upgrade);
        });
    if let Some(affinity) = options.affinity.clone() {
        supervisor = supervisor.affinity(affinity);
    }
    let outcome = if options.threads {
        run_threads(supervisor, setup)
    } else {
        run_processes(supervisor, setup)
    };
    Ok(match outcome? {
        Outcome::AllRefused => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

fn run_processes(mut supervisor: Supervisor<'_>, setup: Setup) -> evcore_prefork::Result<Outcome> {
    for listener in setup.listeners.iter().flatten() {
        supervisor = supervisor.inherit(listener)?;
    }
    supervisor.run(|worker| run_worker(worker, Ok(setup)))
}

fn run_threads(supervisor: Supervisor<'_>, setup: Setup) -> evcore_prefork::Result<Outcome> {
    supervisor.run_threads(move |worker| {
        let setup = setup.for_another_thread(&worker);
        run_worker(worker, setup)
    })
}

/// Returns a function that releases what a dead worker holds in shared memory.
fn release_dead(setup: &Setup) -> impl Fn(usize) + use<> {
    let group = setup.group.clone();
    move |slot| {
        group.release_dead(WorkerId::from_slot(slot));
    }
}

fn log_start_error(worker: &WorkerInfo, error: &io::Error) {
    let index = worker.index;
    log(format_args!(
        "httpd: cannot start worker {index}, trying again: {error}"
    ));
}

fn log_stuck(worker: &WorkerInfo) {
    let index = worker.index;
    log(format_args!(
        "httpd: worker {index} does not stop; it runs beside its replacement, at most until the \
         server ends"
    ));
}

fn log_reload(reload: Reload) {
    let line = format_args!("httpd: reload: {reload:?}: {reload}");
    match reload {
        Reload::Started | Reload::Done => notice(line),
        _ => log(line),
    }
}

fn log_upgrade(upgrade: &Upgrade) {
    let line = format_args!("httpd: {upgrade}");
    match upgrade {
        Upgrade::Starting | Upgrade::Started(_) => notice(line),
        _ => log(line),
    }
}

/// Runs a worker. Returns its exit code.
///
/// If none of the first workers can start, the server ends with an error. Otherwise a worker that
/// cannot start is tried again, because the cause may pass.
fn run_worker(worker: Worker, setup: Result<Setup, Box<dyn Error>>) -> i32 {
    if let Some(error) = worker.affinity_error() {
        log(format_args!(
            "httpd: cannot set the CPU affinity of the worker: {error}"
        ));
    }
    let server = match setup.and_then(|setup| worker::server(&worker, setup)) {
        Ok(server) => server,
        Err(error) => {
            log(format_args!("httpd: worker cannot start: {error}"));
            return CANNOT_START;
        }
    };
    worker.ready();
    match worker::run(server, &worker) {
        Ok(()) => 0,
        Err(error) => {
            log(format_args!("httpd: worker failed: {error}"));
            EXIT_RETRY
        }
    }
}
