//! A small cron. Each line of the crontab is a job, which moves itself to its next time.
//!
//! ```text
//! cron CRONTAB                                       print each line when it is due
//! cron --run CRONTAB                                 also run its command with /bin/sh
//! cron --list 10 [--from 2026-03-29T00:00] CRONTAB   print the next 10 times and exit
//! ```
//!
//! A line is a pattern of five fields (six with `--seconds`) or a word such as `@hourly`, then a
//! command. `--once N` ends the program after N runs. Times are in the time zone of `TZ`.
//!
//! A crontab follows the wall clock, and the scheduler the monotonic clock. So when a job runs, it
//! compares the wall clock with the time of its line. If the job is early, because the wall clock
//! was set back, it moves itself to its time once more. If it is late, it runs the line once, even
//! if several times of the line have passed.

use std::{
    error::Error,
    fs,
    process::{Command, ExitCode},
    sync::mpsc::{self, Sender},
    thread,
    time::Duration,
};

use croner::{
    Cron,
    parser::{CronParser, Seconds},
};
use evcore_scheduler::Scheduler;
use jiff::{Timestamp, Zoned, civil::DateTime, tz::TimeZone};
use lexopt::{Arg, ValueExt};

struct Line {
    pattern: Cron,
    command: String,
    due: Zoned,
}

impl Line {
    /// Returns the time of the line if it is due, and moves the line to its first time after `now`.
    fn take_due(&mut self, now: Timestamp) -> Option<Zoned> {
        if now < self.due.timestamp() {
            return None;
        }
        let next = now.to_zoned(self.due.time_zone().clone());
        let next = self.pattern.find_next_occurrence(&next, false).ok()?;
        Some(std::mem::replace(&mut self.due, next))
    }

    /// Returns the time until the line is due; zero if the line is due already.
    fn wait(&self, now: Timestamp) -> Duration {
        Duration::try_from(now.duration_until(self.due.timestamp())).unwrap_or_default()
    }

    fn print(&self, due: &Zoned) {
        println!("{} {}", due.strftime("%Y-%m-%dT%H:%M:%S%:z"), self.command);
    }
}

#[derive(Default)]
struct Options {
    crontab: Option<String>,
    from: Option<DateTime>,
    list: Option<usize>,
    once: Option<usize>,
    run: bool,
    seconds: bool,
}

fn main() -> ExitCode {
    match options().and_then(cron) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cron: {error}");
            ExitCode::from(2)
        }
    }
}

fn cron(options: Options) -> Result<(), Box<dyn Error>> {
    let zone = TimeZone::system();
    let from = match options.from {
        Some(from) => from.to_zoned(zone)?,
        None => Timestamp::now().to_zoned(zone),
    };
    let path = options.crontab.as_deref().ok_or("name a crontab")?;
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let mut lines = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if !line.trim().is_empty() && !line.starts_with('#') {
            let read = read(line, options.seconds, &from);
            lines.push(read.map_err(|error| format!("{path}:{number}: {error}"))?);
        }
    }
    match options.list {
        Some(times) => list(lines, times),
        None => run_lines(lines, &options)?,
    }
    Ok(())
}

/// The pattern and the command of a line, and its first time after `from`.
fn read(line: &str, seconds: bool, from: &Zoned) -> Result<Line, Box<dyn Error>> {
    let fields = match (line.starts_with('@'), seconds) {
        (true, _) => 1,
        (false, false) => 5,
        (false, true) => 6,
    };
    let mut rest = line;
    for _ in 0..fields {
        let end = rest.trim_start().find(char::is_whitespace);
        let end = end.ok_or_else(|| format!("{fields} fields and a command are needed"))?;
        rest = &rest.trim_start()[end..];
    }
    let with_seconds = if seconds {
        Seconds::Required
    } else {
        Seconds::Disallowed
    };
    let parser = CronParser::builder().seconds(with_seconds).build();
    let pattern = parser.parse(line[..line.len() - rest.len()].trim())?;
    let due = pattern.find_next_occurrence(from, false)?;
    let command = rest.trim().to_owned();
    Ok(Line {
        pattern,
        command,
        due,
    })
}

/// Prints the next `times` runs without waiting for them. Lines with equal times are printed in the
/// order of the file.
fn list(mut lines: Vec<Line>, times: usize) {
    for _ in 0..times {
        let next = lines.iter_mut().min_by_key(|line| line.due.timestamp());
        let Some(line) = next else { return };
        if let Some(due) = line.take_due(line.due.timestamp()) {
            line.print(&due);
        }
    }
}

fn run_lines(lines: Vec<Line>, options: &Options) -> Result<(), Box<dyn Error>> {
    let scheduler = Scheduler::new()?;
    let (ran, runs) = mpsc::channel();
    for mut line in lines {
        let (ran, run) = (ran.clone(), options.run);
        scheduler.after(line.wait(Timestamp::now()), move |job| {
            if let Some(due) = line.take_due(Timestamp::now()) {
                line.print(&due);
                start(run.then(|| line.command.clone()), ran.clone());
            }
            job.move_after(line.wait(Timestamp::now()));
        });
    }
    drop(ran);
    runs.iter()
        .take(options.once.unwrap_or(usize::MAX))
        .for_each(drop);
    Ok(())
}

/// Runs the command on a thread, so that a long command delays no other line. Then sends a value.
fn start(command: Option<String>, ran: Sender<()>) {
    thread::spawn(move || {
        if let Some(command) = command {
            match Command::new("/bin/sh").args(["-c", &command]).status() {
                Ok(status) if status.success() => {}
                Ok(status) => eprintln!("cron: {command}: {status}"),
                Err(error) => eprintln!("cron: {command}: {error}"),
            }
        }
        // After the last run that `--once` allows, there is no receiver.
        let _ = ran.send(());
    });
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options::default();
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("run") => options.run = true,
            Arg::Long("seconds") => options.seconds = true,
            Arg::Long("once") => options.once = Some(arguments.value()?.parse()?),
            Arg::Long("list") => options.list = Some(arguments.value()?.parse()?),
            Arg::Long("from") => options.from = Some(arguments.value()?.parse()?),
            Arg::Value(path) => options.crontab = Some(path.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(options)
}
