//! What the command line may say.

use std::{ffi::OsString, fmt, path::PathBuf};

use jiff::{Timestamp, Zoned, civil::DateTime, tz::TimeZone};
use lexopt::{Arg, Parser, ValueExt};

use crate::crontab::Fields;

pub const HELP: &str = "\
A cron that sleeps until the next line of a crontab is due.

Usage: cron [OPTIONS] CRONTAB

It prints when each line is due, when it is, and runs nothing unless told to.

  --run          run the commands as well, by /bin/sh -c
  --once N       end after N runs
  --dry-run N    print the next N, without waiting for them
  --from TIME    with --dry-run: from then on, such as 2026-03-29T00:00  [now]
  --zone NAME    such as Europe/Berlin                                   [TZ, or the system's]
  --seconds      lines have a field more, seconds, before the others
  --help

Lines: minute hour day month weekday command, or @yearly, @annually, @monthly, @weekly, @daily,
@hourly and a command; NAME=value for the commands below it; # a comment.
";

/// What to do.
#[derive(Debug)]
pub enum Asked {
    Cron(Options),
    Help,
}

/// Which crontab, and what to do with it.
#[derive(Debug)]
pub struct Options {
    pub crontab: PathBuf,
    pub fields: Fields,
    /// What is due after this counts; its zone is that of all lines.
    pub from: Zoned,
    pub task: Task,
}

/// What to do with the lines.
#[derive(Debug, Eq, PartialEq)]
pub enum Task {
    /// Print when they are due the next so many times.
    Tell { times: u64 },
    /// Wait until they are due; run them if that is asked for, and so often.
    Keep { run: bool, once: Option<u64> },
}

/// One line that names the option and says what is allowed.
#[derive(Debug)]
pub struct BadOption(String);

impl fmt::Display for BadOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<lexopt::Error> for BadOption {
    fn from(error: lexopt::Error) -> Self {
        Self(format!("{error}; --help lists the options"))
    }
}

/// The options among `arguments`, or the first that is wrong.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Asked, BadOption> {
    let mut parser = Parser::from_args(arguments);
    let mut said = Said::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("help") => return Ok(Asked::Help),
            Arg::Long("run") => said.run = true,
            Arg::Long("seconds") => said.seconds = true,
            Arg::Long("once") => said.once = Some(count("once", &value(&mut parser)?)?),
            Arg::Long("dry-run") => said.dry_run = Some(count("dry-run", &value(&mut parser)?)?),
            Arg::Long("from") => said.from = Some(time(&value(&mut parser)?)?),
            Arg::Long("zone") => said.zone = Some(zone(&value(&mut parser)?)?),
            Arg::Value(path) if said.crontab.is_none() => said.crontab = Some(path.into()),
            _ => return Err(argument.unexpected().into()),
        }
    }
    said.options().map(Asked::Cron)
}

/// What was said, before it is known to fit together.
#[derive(Debug, Default)]
struct Said {
    crontab: Option<PathBuf>,
    seconds: bool,
    run: bool,
    once: Option<u64>,
    dry_run: Option<u64>,
    from: Option<DateTime>,
    zone: Option<TimeZone>,
}

impl Said {
    fn options(self) -> Result<Options, BadOption> {
        let task = self.task()?;
        let zone = self.zone.map_or_else(zone_of_the_system, Ok)?;
        let from = match self.from {
            None => Timestamp::now().to_zoned(zone),
            Some(time) => time
                .to_zoned(zone)
                .map_err(|error| BadOption(format!("--from {time}: {error}")))?,
        };
        Ok(Options {
            crontab: self
                .crontab
                .ok_or_else(|| BadOption("say which crontab: cron [OPTIONS] CRONTAB".to_owned()))?,
            fields: if self.seconds {
                Fields::Six
            } else {
                Fields::Five
            },
            from,
            task,
        })
    }

    fn task(&self) -> Result<Task, BadOption> {
        let waits = self.run || self.once.is_some();
        match self.dry_run {
            Some(_) if waits => Err(BadOption(
                "--dry-run waits for nothing and runs nothing: leave --run and --once out"
                    .to_owned(),
            )),
            Some(times) => Ok(Task::Tell { times }),
            None if self.from.is_some() => Err(BadOption(
                "--from goes with --dry-run: what has passed cannot be waited for".to_owned(),
            )),
            None => Ok(Task::Keep {
                run: self.run,
                once: self.once,
            }),
        }
    }
}

fn value(parser: &mut Parser) -> Result<String, BadOption> {
    Ok(parser.value()?.string()?)
}

fn count(name: &str, value: &str) -> Result<u64, BadOption> {
    match value.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(BadOption(format!(
            "--{name} {value:?}: it is a number from 1"
        ))),
    }
}

fn time(value: &str) -> Result<DateTime, BadOption> {
    value.parse().map_err(|_| {
        BadOption(format!(
            "--from {value:?}: it is a date and time such as 2026-03-29T00:00, without a zone"
        ))
    })
}

fn zone(name: &str) -> Result<TimeZone, BadOption> {
    TimeZone::get(name).map_err(|_| {
        BadOption(format!(
            "--zone {name:?}: the system's time zones have no such name; it is one such as \
             Europe/Berlin or UTC"
        ))
    })
}

fn zone_of_the_system() -> Result<TimeZone, BadOption> {
    TimeZone::try_system().map_err(|error| {
        BadOption(format!(
            "the time zone of TZ or of the system is not known: {error}; say it with --zone NAME"
        ))
    })
}
