//! The number of descriptors that this server needs, and the limit on them.

use std::{
    error::Error,
    io,
    os::fd::{AsFd, OwnedFd},
};

use evcore_serve::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{files::DISK_THREADS, log::log, options::Options};

/// The master's own descriptors: a self-pipe, and for a moment a copy of one of its ends.
const MASTER: u64 = 3;

/// A worker's end of its liveness pipe, by which worker and master notice each other's death.
const LIVENESS_PIPE: u64 = 1;

/// Raises the soft limit (`RLIMIT_NOFILE`) to the number that the options need, within the hard
/// limit.
///
/// # Errors
///
/// If the limit does not suffice to serve one client and to reload, or if a system call fails.
pub fn make_room(options: &Options) -> Result<(), Box<dyn Error>> {
    raise_limit(options)?;
    Ok(check_available(minimum(options))?)
}

/// Raises the soft limit as [`make_room`] does, without a check.
///
/// # Errors
///
/// If the system call fails.
pub fn raise_limit(options: &Options) -> io::Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = full_need(options);
    if current.is_some_and(|current| current < wanted) {
        raise(wanted.min(maximum.unwrap_or(u64::MAX)), maximum)?;
    }
    Ok(())
}

/// Logs if the hard limit does not suffice for all connections. Call this after all checks of the
/// start, so that a server that does not start logs only the reason.
pub fn log_shortage(options: &Options) {
    let wanted = full_need(options);
    let maximum = getrlimit(Resource::Nofile).maximum;
    if let Some(allowed) = maximum.filter(|maximum| *maximum < wanted) {
        log(format_args!(
            "httpd: the limit is {allowed} descriptors, and --connections {} needs {wanted}: \
             clients and reloads may have to wait",
            options.connections
        ));
    }
}

/// Checks that this many descriptors are available, by opening and closing them. The limit alone
/// does not show that, because the process may have inherited some descriptors.
fn check_available(count: u64) -> Result<(), String> {
    let stdin = io::stdin();
    let mut held: Vec<OwnedFd> = Vec::new();
    while (held.len() as u64) < count {
        match stdin.as_fd().try_clone_to_owned() {
            Ok(one) => held.push(one),
            Err(error) => {
                return Err(format!(
                    "the server needs at least {count} descriptors, and could open only {}: {error}; \
                     raise the limit (ulimit -n), or ask for fewer workers",
                    held.len(),
                ));
            }
        }
    }
    Ok(())
}

fn raise(current: u64, maximum: Option<u64>) -> io::Result<()> {
    let current = Some(current);
    Ok(setrlimit(Resource::Nofile, Rlimit { current, maximum })?)
}

/// The descriptors that the master and every worker have.
fn shared(options: &Options) -> u64 {
    /// The second descriptor of standard error, for the log.
    const LOG: u64 = 1;
    LOG + listeners(options) + notifications(options)
}

/// The descriptors of the group: for each worker that may run at the same time, one by which the
/// other workers notify it.
fn notifications(options: &Options) -> u64 {
    if options.policy().uses_group() {
        slots(options) as u64
    } else {
        0
    }
}

fn slots(options: &Options) -> usize {
    Server::new(options.workers()).slots()
}

fn listeners(options: &Options) -> u64 {
    let sets = if options.own_listeners() {
        options.workers()
    } else {
        1
    };
    (sets * options.listen.len()) as u64
}

/// The minimum: one client, and new workers in addition to the old ones, so that a reload does not
/// fail.
fn minimum(options: &Options) -> u64 {
    open_at_once(options, 2 * options.workers(), 1)
}

/// The full need: all connections, and as many workers as can run at the same time.
fn full_need(options: &Options) -> u64 {
    /// Descriptors of files that are open for a moment, and of libraries.
    const OTHERS: u64 = 16;
    let here = if options.threads() {
        options.workers()
    } else {
        1
    };
    let clients = u64::from(options.connections) * here as u64;
    let files = if options.root.is_some() {
        // A thread may finish its read after the connection is closed.
        (u64::from(options.open_files) + DISK_THREADS as u64) * here as u64
    } else {
        0
    };
    open_at_once(options, slots(options), clients) + files + OTHERS
}

/// The number of descriptors of the process that has the most of them, with this many workers in
/// all and this many clients in a process. (Without eventfd, notifications and wakes take some
/// more.)
fn open_at_once(options: &Options, workers: usize, clients: u64) -> u64 {
    let workers = workers as u64;
    let worker = worker(options);
    // The server may send each client a different file, which takes a second descriptor.
    let clients = clients * if options.root.is_some() { 2 } else { 1 };
    let of_its_own = match options.workers() {
        0 => worker + clients,
        // Each thread has its own copy of the listeners.
        _ if options.threads() => {
            MASTER + workers * (worker + options.listen.len() as u64) + clients
        }
        // The master has a copy of the listeners to pass on, and the liveness pipe of each worker,
        // of which both ends are open while the worker starts.
        _ => (LIVENESS_PIPE + worker + clients + mailboxes_of_worker(options))
            .max(MASTER + listeners(options) + LIVENESS_PIPE * workers + 1 + mailboxes(options)),
    };
    shared(options) + of_its_own
}

/// Both ends of all mailboxes. A mailbox is a pair of sockets by which a worker gets connections of
/// other workers. Each slot, which has one worker at a time, has a mailbox. Each index of a worker
/// has two more for the worker's successors.
fn mailboxes(options: &Options) -> u64 {
    match options.moves_connections() {
        true => 2 * (slots(options) + 2 * options.workers()) as u64,
        false => 0,
    }
}

/// The descriptors of a worker for the sending ends of all mailboxes, the receiving ends of its
/// own, and its channels to other workers.
fn mailboxes_of_worker(options: &Options) -> u64 {
    /// The receiving end of each of the three mailboxes that a worker reads, and the duplicate
    /// that its loop watches.
    const OWN: u64 = 2 * 3;
    /// Two receivers take four descriptors. A sender takes three until it has read the greeting,
    /// which is its receiver's first message.
    const CHANNELS: u64 = 4 + 3;
    match mailboxes(options) {
        0 => 0,
        ends => ends / 2 + OWN + CHANNELS,
    }
}

fn worker(options: &Options) -> u64 {
    /// The poller, the waker, and its copy for signals.
    const ALWAYS: u64 = 3;
    // The worker's own file of the access log, and the master's, which stays open if it is a pipe.
    let log = 2 * u64::from(options.access_log.is_some());
    let ticker = u64::from(options.timer_resolution.is_some());
    let root = u64::from(options.root.is_some());
    ALWAYS + log + ticker + root
}
