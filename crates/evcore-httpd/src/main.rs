//! An HTTP server on every part of evcore, written to be read and copied.
//!
//! One file, one idea:
//!
//! - `options`: what the command line may say;
//! - `master`: what starts workers, as processes or as threads, and hears of them; `pid_file`: how
//!   others find it;
//! - `listeners`: where they come from; `socket_files`: what they leave behind; `descriptors`: how
//!   many of them and of all else there may be;
//! - `worker`: one worker on sockets: its loop, and what signals do to it;
//! - `server`: what it serves: the loop, and the table of connections;
//! - `connection`: one client: when to read, to write, to wait and to close; `receiving` and
//!   `sending` are its two halves;
//! - `request`, `host`, `body`, `route`, `response`: HTTP, which knows nothing of sockets;
//! - `site`: what all connections of a worker share; `bodies`: the memory that their requests hold;
//! - `counts`: what `/status` tells, of all workers; `figures`: what their loops tell of
//!   themselves;
//!   `status_json`: the page that shows both;
//! - `access_log`: what is told of each answer; `log`: what the operator is told; `pipe`: where
//!   whoever reads them is not waited for.

#![allow(
    unreachable_pub,
    reason = "a program has no outside: `pub` means for its other files"
)]

mod access_log;
mod board;
mod bodies;
mod body;
mod connection;
mod counts;
mod descriptors;
mod figures;
mod host;
mod listeners;
mod log;
mod master;
mod options;
mod pid_file;
mod pipe;
mod receiving;
mod request;
mod response;
mod route;
#[cfg(test)]
mod scripted;
mod sending;
mod server;
mod site;
mod socket_files;
mod status_json;
mod worker;

use std::{error::Error, io, process::ExitCode, sync::Arc};

use evcore::balancer::WorkerGroup;
use evcore_prefork::Worker;
use signal_hook::{consts::SIGXFSZ, flag};

use access_log::AccessLog;
use board::Line;
use log::log;
use options::{Asked, Options};
use pid_file::PidFile;
use socket_files::SocketFiles;
use worker::Shared;

fn main() -> ExitCode {
    // Before anything is written: the log may be a file too.
    if let Err(error) = survive_full_files() {
        log(format_args!("httpd: SIGXFSZ cannot be handled: {error}"));
        return ExitCode::from(1);
    }
    match options::parse(std::env::args_os().skip(1)) {
        Ok(Asked::Serve(options)) => serve(*options).unwrap_or_else(|error| {
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

fn serve(options: Options) -> Result<ExitCode, Box<dyn Error>> {
    descriptors::make_room(&options)?;
    if let Some(path) = &options.access_log {
        // Each worker opens it for itself; but a bad path is to be told once, and now.
        AccessLog::open(path)?;
    }
    // Before them, so that none of their files stays where something fails.
    let mut files = SocketFiles::default();
    let slots = master::slots(&options);
    let board = Line::board(slots)?;
    let shared = Shared {
        listeners: listeners::open(&options, &mut files)?,
        group: WorkerGroup::new(options.policy, slots)?.with_scoreboard(&board),
        board,
        options,
    };
    let pid_file = shared.options.pid_file.as_deref();
    let pid_file = pid_file.map(PidFile::prepare).transpose()?;
    match shared.options.workers {
        0 => serve_here(shared, pid_file),
        _ if shared.options.threads => master::with_threads(shared, pid_file),
        _ => master::with_processes(shared, pid_file, &files),
    }
}

/// Makes a write to a file that has reached the limit on its size (`ulimit -f`) fail: without a
/// handler, SIGXFSZ would end the process. Workers inherit the handler.
fn survive_full_files() -> io::Result<()> {
    // Nobody looks at the flag: the write's error says it.
    flag::register(SIGXFSZ, Arc::default())?;
    Ok(())
}

/// No master: this process serves.
fn serve_here(shared: Shared, mut pid_file: Option<PidFile>) -> Result<ExitCode, Box<dyn Error>> {
    let worker = Worker::solo()?;
    let mut announce = listeners::announcement(&shared.listeners[0]);
    let server = worker::server(&worker, shared)?;
    pid_file.iter_mut().for_each(PidFile::show);
    announce();
    worker::run(server, &worker)?;
    Ok(ExitCode::SUCCESS)
}
