//! The program `evcore-replay`: runs a worker again, with the input from its recording.

use std::{
    error::Error,
    ffi::{OsStr, OsString},
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::ValueEnum;
use evcore::{
    Builder,
    balancer::{Policy, WorkerId},
};
use evcore_recording::{End, Outside, Recording, Replay, ReplayedListener};
use evcore_sim::Timeline;

use crate::{
    descriptors,
    history::History,
    log,
    options::{self, Command, LogLevel, Options},
    repeatable::{Repeatable, START, Signals, Start},
    scoreboard::WorkerStats,
    what_if::Recorded,
    worker::Setup,
};

const HELP: &str = "\
Runs a worker of httpd on the recording that --record has made.

Usage: evcore-replay [--log-level LEVEL] [--list | --draw] FILE
       evcore-replay --what-if POLICY FILE...

  --list     print the calls of each turn, and run nothing
  --draw     print a page in HTML that draws the last turns
  --log-level LEVEL
             log what the event loop does in the replay: debug or trace, as
             httpd's option (needs `--features tracing`)
  --what-if  print how evenly the workers of these recordings shared their
             clients, and how POLICY would have shared them, in a simulation:
             off, mutex, exclusive or least-loaded
  --help     print this text

Status 0: the worker did the same again. 1: it did something else; the first
difference is printed. 2: there is no replay, for example because FILE is not a
recording. A panic of the worker comes back as a panic (status 101).
";

const DRAWN: usize = 20_000;

/// Options that depend on the machine or on the build, and that a replay does not need.
const LEFT_OUT: [&str; 2] = ["--cpu-affinity", "--log-level"];

/// The maximum number of listeners of a worker, and its highest index. Both are far above the
/// numbers of any server.
const LISTENERS_MAX: usize = 10_000;
const INDEX_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Replay,
    List,
    Draw,
}

/// Runs the program. Returns its exit code.
#[must_use]
pub fn run() -> ExitCode {
    let (mut task, mut file) = (Task::Replay, None);
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--list") => task = Task::List,
            Some("--draw") => task = Task::Draw,
            Some("--log-level") => {
                if let Err(why) = log_from(arguments.next()) {
                    return refuse(&why);
                }
            }
            Some("--what-if") => return what_if(arguments),
            Some("--help" | "-h") => return print(HELP, ExitCode::SUCCESS),
            _ if file.is_none() => file = Some(PathBuf::from(argument)),
            _ => {
                return refuse(
                    "one FILE is expected, and the options --log-level, --list and --draw",
                );
            }
        }
    }
    let Some(file) = file else {
        return refuse("FILE is missing; --help lists the options");
    };
    match perform(task, &file) {
        Ok(code) => code,
        Err(error) => refuse(&format!("{}: {error}", file.display())),
    }
}

fn log_from(value: Option<OsString>) -> Result<(), String> {
    let name = value.as_deref().and_then(OsStr::to_str).unwrap_or_default();
    let level = LogLevel::from_str(name, false)
        .map_err(|_| "--log-level: expected error, debug or trace")?;
    level.check()?;
    #[cfg(feature = "tracing")]
    crate::trace_log::install(level);
    Ok(())
}

fn what_if(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let name = arguments.next().unwrap_or_default();
    let policy = match name.to_str() {
        Some("off") => Policy::Off,
        Some("mutex") => Policy::mutex(),
        Some("exclusive") => Policy::exclusive(),
        Some("least-loaded") => Policy::least_loaded(),
        _ => return refuse("--what-if needs off, mutex, exclusive or least-loaded, and FILE..."),
    };
    let mut recordings = Vec::new();
    for file in arguments {
        let read = fs::read(&file).map_err(|error| error.to_string());
        let read =
            read.and_then(|bytes| Recording::read(&bytes).map_err(|refused| refused.to_string()));
        match read {
            Ok(recording) => recordings.push(recording),
            Err(error) => return refuse(&format!("{}: {error}", Path::new(&file).display())),
        }
    }
    if recordings.is_empty() {
        return refuse(
            "FILE is missing; --what-if needs the recordings of all workers of a server",
        );
    }
    let Some(recorded) = Recorded::new(&recordings) else {
        return refuse("the recordings have no time in common, or more than a day");
    };
    let (Some(seen), Some(simulated)) = (recorded.seen(), recorded.under(policy)) else {
        return refuse(
            "there is no balance: the workers had never four open connections each, or no connection \
             began in the time that all recordings cover",
        );
    };
    let text = format!(
        "{} workers, {} connections\nrecorded: {seen}\n{}, simulated: {simulated}\n",
        recordings.len(),
        recorded.connections(),
        Path::new(&name).display()
    );
    print(&text, ExitCode::SUCCESS)
}

fn refuse(message: &str) -> ExitCode {
    log::log(format_args!("evcore-replay: {message}"));
    ExitCode::from(2)
}

/// Prints to standard output. Returns `code`, or 2 if the text cannot be written.
fn print(text: &str, code: ExitCode) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => code,
        Err(_) => ExitCode::from(2),
    }
}

fn perform(task: Task, file: &Path) -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let recording = Recording::read(&fs::read(file)?)?;
    if recording.is_empty() {
        return Err(format!("there is no whole turn to replay; {}", end_of(&recording)).into());
    }
    if task == Task::List {
        return Ok(list(&recording));
    }
    let end = end_of(&recording);
    let turns = recording.len();
    let (replay, records) = replay(recording, task)?;
    if task == Task::Draw {
        let title = format!("recording {}", file.display());
        let page = Timeline::of_flight_log(&flight_log(&records));
        let page = page.ok_or("the worker did nothing that can be drawn")?;
        print(&page.with_summary(&title).to_html(), ExitCode::SUCCESS);
    }
    if let Some(difference) = replay.difference() {
        let advice = difference.advice();
        log::log(format_args!("evcore-replay: {difference}\n{advice}"));
        return Ok(ExitCode::from(1));
    }
    if !replay.is_at_end() {
        let turn = replay.turn();
        log::log(format_args!(
            "evcore-replay: the worker ends in turn {turn}, and the recording goes on"
        ));
        return Ok(ExitCode::from(1));
    }
    if task == Task::Replay {
        let text = format!("identical: {turns} turns; {end}\n");
        return Ok(print(&text, ExitCode::SUCCESS));
    }
    Ok(ExitCode::SUCCESS)
}

fn end_of(recording: &Recording) -> &'static str {
    match recording.end() {
        End::Whole => "the recording ends after a whole turn",
        End::Unfinished => {
            "the recording ends within a turn, which is left out: the worker was killed, or still runs"
        }
        End::Full => "the recording was full, and the worker went on: --record-size allows more",
        End::Torn => "the recording is damaged after its last whole turn",
    }
}

fn list(recording: &Recording) -> ExitCode {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut print = || {
        for (number, calls) in recording.turns().enumerate() {
            writeln!(out, "turn {number}")?;
            for call in calls {
                writeln!(out, "  {call:?}")?;
            }
        }
        writeln!(out, "{}", end_of(recording))?;
        out.flush()
    };
    match print() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    }
}

/// Runs the worker until the recording ends or the worker ends. Also returns the worker's flight
/// records.
fn replay(
    recording: Recording,
    task: Task,
) -> Result<(Replay, String), Box<dyn Error + Send + Sync>> {
    let replay = Replay::new(recording);
    let outside = Outside::Replayed(replay.clone());
    let Some(start) = outside.value(START, || None::<Start>) else {
        return Err("this is a recording of another program than httpd".into());
    };
    check(&start)?;
    let mut options = options_of(&start)?;
    // The worker keeps as many files open as the recorded one did.
    descriptors::raise_limit(&options)?;
    let recorded = options.flight_recorder;
    if task == Task::Draw {
        options.flight_recorder = recorded.max(DRAWN);
    }
    let setup = Setup {
        scoreboard: WorkerStats::scoreboard(1)?,
        history: History::new(1)?,
        options,
    };
    let mut builder = Builder::<ReplayedListener>::default()
        .clock(replay.clock())
        .group(replay.member())
        .backend(replay.backend());
    for _ in 0..start.listeners {
        builder = builder.listener(replay.listener());
    }
    let place = (WorkerId::from_slot(0), start.index);
    let (mut worker, _) = Repeatable::new(builder, &setup, place, &outside)?;
    worker.compared = recorded;
    // The run returns an error at the end of the recording.
    let _ = worker.run(Signals::default, || false);
    let records = worker.flight_records(DRAWN);
    Ok((replay, records))
}

/// Checks the numbers that determine how much a replay allocates, because a file with a valid
/// checksum may still be forged.
fn check(start: &Start) -> Result<(), String> {
    let (listeners, index) = (start.listeners, start.index);
    if listeners > LISTENERS_MAX || index > INDEX_MAX {
        return Err(format!(
            "{listeners} listeners, and a worker with the index {index}: httpd has fewer"
        ));
    }
    Ok(())
}

/// The options of the recorded worker. The access log and the root become paths that exist on every
/// system, because a replay does not use the worker's files.
fn options_of(start: &Start) -> Result<Options, Box<dyn Error + Send + Sync>> {
    let parsed = options::parse(needed(&start.arguments).map(Into::into));
    let mut options = match parsed.map_err(|error| format!("the recorded command line: {error}"))? {
        Command::Serve(options) => options,
        Command::Print(_) => return Err("the recorded command line has no options".into()),
    };
    // The recorded command line may ask for one worker for each CPU.
    options.processes = start.workers;
    if options.access_log.is_some() {
        options.access_log = Some("/dev/null".into());
    }
    if options.root.is_some() {
        // The files that were found are in the recording.
        options.root = Some("/".into());
    }
    Ok(*options)
}

fn needed(arguments: &[String]) -> impl Iterator<Item = &String> {
    let mut is_value = false;
    arguments.iter().filter(move |argument| {
        let is_left_out = LEFT_OUT.iter().any(|name| {
            let rest = argument.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        });
        let is_kept = !is_value && !is_left_out;
        is_value = is_left_out && !argument.contains('=') && !is_value;
        is_kept
    })
}

/// The records as the lines that a panic would log.
fn flight_log(records: &str) -> String {
    let line = |record| format!("0000/00/00 00:00:00 [alert] 0: {record}\n");
    records.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed_of(line: &str) -> String {
        let arguments: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let needed: Vec<_> = needed(&arguments).map(String::as_str).collect();
        needed.join(" ")
    }

    #[test]
    fn a_replay_needs_no_option_of_the_machine() {
        let line = "--workers 2 --cpu-affinity 100 --log-level=debug --quiet --log-level error";
        assert_eq!(needed_of(line), "--workers 2 --quiet");
        assert_eq!(needed_of("--root --cpu-affinity=10"), "--root");
        assert_eq!(needed_of("--cpu-affinity --log-level -x"), "-x");
    }

    #[test]
    fn values_beyond_those_of_any_server_are_refused() {
        let start = |listeners, index| Start {
            arguments: Vec::new(),
            workers: 1,
            index,
            listeners,
        };
        assert!(check(&start(1, 0)).is_ok());
        for start in [start(usize::MAX, 0), start(1, usize::MAX)] {
            let refused = check(&start).unwrap_err();
            assert!(refused.contains("18446744073709551615"), "{refused}");
        }
    }
}
