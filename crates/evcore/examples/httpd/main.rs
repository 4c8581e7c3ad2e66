//! An HTTP server on every part of evcore, written to be read and copied.
//!
//! One file, one idea:
//!
//! - `options`: what the command line may say;
//! - `worker`: one worker on sockets: its loop, and what signals do to it;
//! - `server`: what it serves: the loop, and the table of connections;
//! - `connection`: one client: when to read, to write, to wait and to close; `receiving` and
//!   `sending` are its two halves;
//! - `request`, `body`, `route`, `response`: HTTP, which knows nothing of sockets;
//! - `site`: what all connections of a worker share;
//! - `counts`: what `/status` tells, of all workers; `log`: what the operator is told.

#![allow(
    unreachable_pub,
    reason = "a program has no outside: `pub` means for its other files"
)]

mod body;
mod connection;
mod counts;
mod log;
mod options;
mod receiving;
mod request;
mod response;
mod route;
#[cfg(test)]
mod scripted;
mod sending;
mod server;
mod site;
mod worker;

use std::{io, process::ExitCode};

use evcore::{
    Listener,
    accept::{self, Address, SocketFile},
    balancer::{AcceptMutex, Board, Peers, Policy},
};
use evcore_prefork::{DO_NOT_RESTART, Outcome, Supervisor, Worker, WorkerExit};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use log::log;
use options::{Asked, Options};
use worker::Shared;

fn main() -> ExitCode {
    match options::parse(std::env::args_os().skip(1)) {
        Ok(Asked::Serve(options)) => serve(options).unwrap_or_else(|error| {
            log(format_args!("httpd: {error}"));
            ExitCode::from(1)
        }),
        Ok(Asked::Help) => {
            print!("{}", options::HELP);
            ExitCode::SUCCESS
        }
        Err(error) => {
            log(format_args!("httpd: {error}"));
            ExitCode::from(2)
        }
    }
}

fn serve(options: Options) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let addresses = options.listen.iter().cloned();
    let listeners: Vec<_> = addresses
        .map(|address| listener(&options, address))
        .collect::<Result<_, _>>()?;
    let shared = Shared {
        own_listeners: own_listeners(&options, &listeners)?,
        listeners,
        board: Board::shared(options.workers.max(1))?,
        mutex: AcceptMutex::shared()?,
        peers: Peers::new(seats(&options))?,
        options,
    };
    make_room_for_descriptors(&shared.options)?;
    for listener in &shared.listeners {
        log(format_args!("listening on {}", listener.local_addr()));
    }
    let listeners = shared.listeners.iter();
    let files: Vec<_> = listeners.filter_map(Listener::file).cloned().collect();
    let served = match shared.options.workers {
        0 => serve_here(shared),
        workers => serve_in_workers(workers, shared),
    };
    remove(&files);
    served
}

/// A seat, and so a descriptor, for each worker there can be at a time, if seats are what they need.
fn seats(options: &Options) -> usize {
    match options.policy {
        Policy::LeastLoaded { .. } => Supervisor::new(options.workers)
            .seats()
            .min(Peers::MAX_SEATS),
        _ => 1,
    }
}

fn listener(options: &Options, address: Address) -> Result<Listener, accept::Error> {
    let spread_by_kernel = options.policy == Policy::ReusePort;
    Listener::builder()
        .reuse_port(spread_by_kernel)
        .bind(address)
}

/// With `reuseport`, more listeners at the same addresses: a set for each worker but the first.
///
/// They are made here so that they stay open when a worker goes: whoever waits at a listener that
/// is closed is sent away.
fn own_listeners(
    options: &Options,
    first: &[Listener],
) -> Result<Vec<Vec<Listener>>, accept::Error> {
    if options.policy != Policy::ReusePort {
        return Ok(Vec::new());
    }
    let set = |_| {
        let addresses = first.iter().map(Listener::local_addr).cloned();
        addresses
            .map(|address| listener(options, address))
            .collect()
    };
    (1..options.workers).map(set).collect()
}

/// Removes what Unix sockets leave behind: workers do not, since others share the listeners.
fn remove(files: &[SocketFile]) {
    for file in files {
        if let Err(error) = file.remove() {
            let path = file.path().display();
            log(format_args!("httpd: cannot remove {path}: {error}"));
        }
    }
}

/// No master: this process serves.
fn serve_here(shared: Shared) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let worker = Worker::solo()?;
    worker::run(worker::server(&worker, shared)?, &worker)?;
    Ok(ExitCode::SUCCESS)
}

fn serve_in_workers(
    workers: usize,
    shared: Shared,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (mutex, board) = (shared.mutex.clone(), shared.board.clone());
    let peers = shared.peers.clone();
    let outcome = Supervisor::new(workers)
        // A worker gives up by itself at its timeout; this is for one that does not.
        .stop_timeout(shared.options.shutdown_timeout * 2)
        .on_exit(move |dead| {
            mutex.force_unlock(dead.pid);
            peers.bury(dead.pid);
            board.reset_gauges(dead.index);
            report(dead);
        })
        .run(move |worker| work(worker, shared))?;
    Ok(match outcome {
        Outcome::Refused => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

fn report(dead: &WorkerExit) {
    if !dead.status.is_some_and(|status| status.success()) {
        log(format_args!("httpd: {dead}"));
    }
}

/// A worker's life; its exit status. What cannot begin would not begin the next time either; what
/// has served is worth replacing.
fn work(worker: Worker, shared: Shared) -> i32 {
    let server = match worker::server(&worker, shared) {
        Ok(server) => server,
        Err(error) => {
            log(format_args!("httpd: worker cannot serve: {error}"));
            return DO_NOT_RESTART;
        }
    };
    match worker::run(server, &worker) {
        Ok(()) => 0,
        Err(error) => {
            log(format_args!("httpd: worker cannot go on: {error}"));
            1
        }
    }
}

/// Raises the soft limit of descriptors as far as the connections need and the hard limit allows.
fn make_room_for_descriptors(options: &Options) -> io::Result<()> {
    /// Standard streams, listeners, the poller, the waker, signals. Seats are counted apart.
    const BESIDES: u64 = 32;
    let wanted = u64::from(options.connections) + BESIDES + seats(options) as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (Some(current), allowed) = (current, maximum.unwrap_or(u64::MAX)) else {
        return Ok(());
    };
    if current < wanted {
        let current = Some(wanted.min(allowed));
        setrlimit(Resource::Nofile, Rlimit { current, maximum })?;
    }
    if allowed < wanted {
        log(format_args!(
            "httpd: at most {allowed} descriptors are allowed: clients beyond that wait, \
             although --connections {} would take them",
            options.connections
        ));
    }
    Ok(())
}
