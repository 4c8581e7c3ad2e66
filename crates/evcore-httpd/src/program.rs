//! The program: parses the command line, and starts the workers.

use std::{
    error::Error,
    fs,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use evcore::{Listener, clock::Clock, poller::Poller};
use evcore_serve::{Server, prefork::Outcome};
use signal_hook::{consts::SIGXFSZ, flag};

use crate::{
    access_log::AccessLog,
    demo::{self, Demo},
    descriptors,
    events::Events,
    files::Files,
    listen_queue::ListenQueue,
    listeners::{self, Passed},
    live_line::LiveLine,
    log::{self, log},
    options::{self, Command, Options},
    pid_file::PidFile,
    recorded,
    scoreboard::Snapshot,
    socket_files::SocketFiles,
    worker::Setup,
};

#[cfg(feature = "tracing")]
use crate::trace_log;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the program: parses the command line, and serves until a signal stops it. Returns the exit
/// code: 1 after an error, 2 after a bad option.
#[must_use]
pub fn run() -> ExitCode {
    // This comes before the first write, because standard error may be a file that is at the size
    // limit.
    if let Err(error) = survive_full_files() {
        log(format_args!("httpd: SIGXFSZ cannot be handled: {error}"));
        return ExitCode::from(1);
    }
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(ended) = demo::run_load(arguments.iter()) {
        return ended;
    }
    match options::parse(arguments.into_iter()) {
        Ok(Command::Serve(options)) => serve(*options).unwrap_or_else(|error| {
            log(format_args!("httpd: {error}"));
            ExitCode::from(1)
        }),
        Ok(Command::Print(text)) => match io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                log(format_args!(
                    "httpd: --help or --version cannot be printed: {error}"
                ));
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
    // Each worker opens the root itself. It is opened here, too, so that a bad root is an error
    // before any worker starts, and is logged once.
    Files::open(&options)?;
    descriptors::make_room(&options)?;
    // For the same reason, the access log is opened here, although each worker opens it, too.
    let log = options.access_log.as_deref();
    let log = log.map(|path| AccessLog::open(path, options.access_log_format));
    // A named pipe stays open. Otherwise its reader would find the end of the stream before a
    // worker opens the pipe.
    let _pipe = log.transpose()?.filter(AccessLog::is_pipe);
    // This value is made before the listeners, so that their files are removed if a later step
    // fails.
    let mut files = SocketFiles::default();
    let mut sets = listeners::open(&options, passed, &mut files)?;
    let (workers, setup) = Setup::new(options)?;
    setup.scoreboard.record_start(&Clock::system());
    let options = &setup.options;
    let pid_file = options.pid_file.as_deref();
    let pid_file = pid_file.map(PidFile::prepare).transpose()?;
    // Each worker opens its own poller. This one is opened so that a poller that the kernel refuses
    // is an error before any worker starts, and is logged once.
    drop(match options.poller {
        Some(kind) => Poller::with(kind)?,
        None => Poller::new()?,
    });
    descriptors::log_shortage(options);
    let board = setup.scoreboard.clone();
    let events = Arc::new(Events::new(
        board,
        options.fd_store,
        &sets[0],
        pid_file,
        files,
    ));
    let hook = Arc::clone(&events);
    let queue = ListenQueue::new(sets[0].iter().map(Listener::local_addr));
    let addresses = sets[0].iter().map(Listener::local_addr);
    let demo = options.demo.then(|| Demo::start(addresses)).transpose()?;
    let workers = workers
        .on_event(move |event| hook.on_event(&event))
        .notify_service_manager()
        .on_interval(SAMPLE_INTERVAL, each_second(&setup, queue));
    let workers = if options.own_listeners() {
        workers.own_listeners(sets)
    } else {
        sets.swap_remove(0)
            .into_iter()
            .fold(workers, Server::listener)
    };
    let ended = run_workers(workers, setup);
    drop(demo);
    events.end();
    ended
}

/// Runs the workers until a signal stops them.
fn run_workers(workers: Server, setup: Setup) -> Result<ExitCode, Box<dyn Error>> {
    let options = &setup.options;
    let outcome = match (options.workers(), options.threads()) {
        _ if options.record.is_some() => workers.run_parts(|parts| recorded::serve(&setup, parts)),
        (0, _) => {
            workers.run_here(|worker| setup.serve(worker))?;
            return Ok(ExitCode::SUCCESS);
        }
        (_, true) => workers.run_threads(move |worker| setup.clone().serve(worker)),
        (_, false) => workers.run(|worker| setup.serve(worker)),
    };
    Ok(match outcome? {
        Outcome::AllRefused => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

/// Returns the master's work at each interval: it publishes the numbers that it measures, adds a
/// sample to the history, and draws the line of a terminal.
fn each_second(setup: &Setup, queue: ListenQueue) -> impl FnMut() + use<> {
    let (scoreboard, mut clock) = (setup.scoreboard.clone(), Clock::system());
    let mut sampler = setup.sampler(&clock);
    let mut line = LiveLine::new(setup.options.quiet);
    let are_processes = !setup.options.threads();
    move || {
        clock.update();
        queue.publish(&scoreboard);
        if are_processes {
            scoreboard.measure_memory(resident_bytes);
        }
        sampler.sample(&clock);
        if let Some(line) = &mut line {
            line.draw(Snapshot::of(&scoreboard, &clock));
        }
    }
}

fn resident_bytes(pid: u64) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Handles SIGXFSZ, so that a write beyond the file size limit (`ulimit -f`) fails instead of
/// ending the process. Workers inherit the handler.
fn survive_full_files() -> io::Result<()> {
    // The flag is not used, because the write returns an error.
    flag::register(SIGXFSZ, Arc::default())?;
    Ok(())
}
