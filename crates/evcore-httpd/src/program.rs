//! The program: from the command line to the master.

use std::{
    error::Error,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
};

use evcore::{balancer::WorkerGroup, clock::Clock, poller::Poller};
use evcore_prefork::Worker;
use signal_hook::{consts::SIGXFSZ, flag};

use crate::{
    access_log::AccessLog,
    descriptors,
    files::Files,
    listeners::{self, Passed},
    log::{self, log},
    master,
    options::{self, Command, Options},
    pid_file::PidFile,
    scoreboard::WorkerStats,
    socket_files::SocketFiles,
    worker::{self, Setup},
};

#[cfg(feature = "tracing")]
use crate::trace_log;

/// Runs the program: parses the command line, and serves until a signal stops it. Returns the exit
/// code: 1 after an error, 2 after a bad option.
#[must_use]
pub fn run() -> ExitCode {
    // Before anything is written: standard error may be a file.
    if let Err(error) = survive_full_files() {
        log(format_args!("httpd: SIGXFSZ cannot be handled: {error}"));
        return ExitCode::from(1);
    }
    match options::parse(std::env::args_os().skip(1)) {
        Ok(Command::Serve(options)) => serve(*options).unwrap_or_else(|error| {
            log(format_args!("httpd: {error}"));
            ExitCode::from(1)
        }),
        // `print!` would panic.
        Ok(Command::Help) => match io::stdout().write_all(options::HELP.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                log(format_args!("httpd: --help cannot be printed: {error}"));
                ExitCode::from(1)
            }
        },
        Err(error) => {
            log(format_args!("httpd: {error}"));
            ExitCode::from(2)
        }
    }
}

fn serve(mut options: Options) -> Result<ExitCode, Box<dyn Error>> {
    log::set_quiet(options.quiet);
    #[cfg(feature = "tracing")]
    trace_log::install(options.log_level);
    let passed = Passed::take(&mut options)?;
    // Each worker opens the root itself. A bad one is an error now, and logged once.
    Files::open(&options)?;
    descriptors::make_room(&options)?;
    if let Some(path) = &options.access_log {
        // As the root.
        AccessLog::open(path, options.access_log_format)?;
    }
    // Before the listeners, so that their files are removed if something fails.
    let mut files = SocketFiles::default();
    let slots = master::slots(&options);
    let scoreboard = WorkerStats::scoreboard(slots)?;
    scoreboard.record_start(&Clock::system());
    let setup = Setup {
        listeners: listeners::open(&options, passed, &mut files)?,
        group: scoreboard.add_to(WorkerGroup::new(options.policy, slots)?),
        scoreboard,
        options,
    };
    let pid_file = setup.options.pid_file.as_deref();
    let pid_file = pid_file.map(PidFile::prepare).transpose()?;
    // Each worker opens its own. A poller that the kernel refuses is an error now, and logged once.
    drop(match setup.options.poller {
        Some(kind) => Poller::with(kind)?,
        None => Poller::new()?,
    });
    descriptors::log_shortage(&setup.options);
    match setup.options.workers {
        0 => serve_here(setup, pid_file),
        _ => master::run(setup, pid_file, &files),
    }
}

/// Handles SIGXFSZ, so that a write beyond the file size limit (`ulimit -f`) fails instead of ending
/// the process. Workers inherit the handler.
fn survive_full_files() -> io::Result<()> {
    // The flag is unused: the write returns an error.
    flag::register(SIGXFSZ, Arc::default())?;
    Ok(())
}

/// Serves in this process, without a master.
fn serve_here(setup: Setup, mut pid_file: Option<PidFile>) -> Result<ExitCode, Box<dyn Error>> {
    let worker = Worker::solo()?;
    let mut announce = listeners::announcement(&setup.listeners[0]);
    let server = worker::server(&worker, setup)?;
    pid_file.iter_mut().for_each(PidFile::publish);
    announce();
    worker::run(server, &worker)?;
    Ok(ExitCode::SUCCESS)
}
