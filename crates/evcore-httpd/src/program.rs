//! The program: what it does with its command line.

use std::{error::Error, io, process::ExitCode, sync::Arc};

use evcore::balancer::WorkerGroup;
use evcore_prefork::Worker;
use signal_hook::{consts::SIGXFSZ, flag};

use crate::{
    access_log::AccessLog,
    board::Line,
    descriptors, listeners,
    log::log,
    master,
    options::{self, Asked, Options},
    pid_file::PidFile,
    socket_files::SocketFiles,
    worker::{self, Shared},
};

/// The program: reads the command line, and serves until a signal ends it.
#[must_use]
pub fn run() -> ExitCode {
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
        _ => master::run(shared, pid_file, &files),
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
