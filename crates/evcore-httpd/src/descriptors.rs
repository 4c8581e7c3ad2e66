//! How many descriptors this server needs, and how many it may have.

use std::{
    error::Error,
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{log::log, master, options::Options};

/// What a master has for itself: its bell, of two ends, and one of them twice for a moment.
const MASTER: u64 = 3;

/// What ties a worker to its master.
const LEASH: u64 = 1;

/// Raises the soft limit as far as the connections need and the hard limit allows.
///
/// # Errors
///
/// If there is not room for what it takes to serve one client, and to reload; or the system's.
pub fn make_room(options: &Options) -> Result<(), Box<dyn Error>> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let allowed = maximum.unwrap_or(u64::MAX);
    let wanted = wanted(options);
    if current.is_some_and(|current| current < wanted) {
        raise(wanted.min(allowed), maximum)?;
    }
    rehearse(least(options))?;
    if allowed < wanted {
        log(format_args!(
            "httpd: at most {allowed} descriptors are allowed, and {wanted} are wanted: clients \
             may have to wait, although --connections {} would take them, and so may reloads",
            options.connections
        ));
    }
    Ok(())
}

/// Has so many descriptors for a moment: only so is it known that there is room, whatever this
/// process has inherited.
fn rehearse(count: u64) -> Result<(), String> {
    let stdin = io::stdin();
    let mut held: Vec<OwnedFd> = Vec::new();
    while (held.len() as u64) < count {
        match stdin.as_fd().try_clone_to_owned() {
            Ok(one) => held.push(one),
            Err(error) => {
                return Err(format!(
                    "{count} descriptors are the least that it takes, and after {} it is: {error}; \
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

/// What every process has that serves, or starts those who do: what all workers share.
fn shared(options: &Options) -> u64 {
    /// The log, opened again if it is a pipe.
    const LOG: u64 = 1;
    // Each worker can notify each of the others.
    LOG + listeners(options) + master::notifiers(options) as u64
}

fn listeners(options: &Options) -> u64 {
    let sets = if options.own_listeners {
        options.workers
    } else {
        1
    };
    (sets * options.listen.len()) as u64
}

/// What it takes to serve one client, and new workers beside the old ones: who could not reload is
/// not to find that out when it is to.
fn least(options: &Options) -> u64 {
    open_at_once(options, 2 * options.workers, 1)
}

/// What it takes to serve as many clients as are to be served at once, and as many workers as there
/// can be, most of whom finish.
fn wanted(options: &Options) -> u64 {
    /// Files of a moment, and what the system takes besides.
    const BESIDES: u64 = 16;
    let here = if options.threads { options.workers } else { 1 };
    let clients = u64::from(options.connections) * here as u64;
    open_at_once(options, master::slots(options), clients) + BESIDES
}

/// What is open in the process that has the most, where so many workers live and a process has so
/// many clients. (Where the system has no eventfd, calls and wakes take some more.)
fn open_at_once(options: &Options, workers: usize, clients: u64) -> u64 {
    let workers = workers as u64;
    let worker = worker(options);
    let of_its_own = match options.workers {
        0 => worker + clients,
        // Each has the listeners of its own.
        _ if options.threads => MASTER + workers * (worker + options.listen.len() as u64) + clients,
        // The master has the listeners twice, to pass them on; and a leash of each worker, which
        // has two ends until the worker has put it on.
        _ => (LEASH + worker + clients).max(MASTER + listeners(options) + LEASH * workers + 1),
    };
    shared(options) + of_its_own
}

/// What a worker has for itself.
fn worker(options: &Options) -> u64 {
    /// Its poller, its waker, for signals once more, and its reserve.
    const ALWAYS: u64 = 4;
    let log = u64::from(options.access_log.is_some());
    let ticker = u64::from(options.timer_resolution.is_some());
    ALWAYS + log + ticker
}
