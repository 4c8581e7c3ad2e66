//! A cron that sleeps: says when each line of a crontab is due, and runs it if asked to.
//!
//! ```text
//! cargo run --example cron -p evcore -- CRONTAB                    # prints what is due, when it is
//! cargo run --example cron -p evcore -- --run CRONTAB              # and runs it
//! cargo run --example cron -p evcore -- --dry-run 10 CRONTAB       # the next ten, without waiting
//! ```
//!
//! It is the example of [`Scheduler`], for those who have no event loop: a job a line, each of
//! which moves itself to when it is due next. One file, one idea:
//!
//! - `options`: what the command line may say;
//! - `crontab`: what a file may say, and each line that is wrong;
//! - `line`: a line and when it is due, which knows nothing of sleeping;
//! - `runner`: what happens when it is due.
//!
//! # Nothing polls
//!
//! Between two runs there is one sleep, a `futex` that ends by its timeout, and no other call
//! waits. To see that, with `* * * * * * true` in the file, which is due each second:
//!
//! ```text
//! strace -f -c -e trace=futex,clock_nanosleep,nanosleep,poll,ppoll,epoll_wait,select \
//!     cron --seconds --once 10 CRONTAB
//! ```
//!
//! counts 10 calls of `futex` in its column of errors: the sleeps that timed out, one a run (11 if
//! the end comes just as the thread goes to sleep: that one says EAGAIN and does not wait). Three
//! or four more, whatever the number of runs, are the main thread's wait for the end. The one
//! `poll` is the standard library's look at the standard streams before `main`.
//!
//! # Which clock
//!
//! A crontab speaks of the wall clock, and the scheduler counts the monotonic one, which nobody
//! sets. So each job asks the wall clock when it wakes:
//!
//! - If it is early, because the clock was set back, it sleeps for the rest. Nothing runs twice.
//! - If it is late, for whatever reason, it runs once, however many of its times have passed.
//! - A clock that is set forward *while* it sleeps, or a machine that is suspended, is noticed on
//!   waking: that one run is late, at most by the jump. A program that may not be late would wait
//!   on a `timerfd` with `TFD_TIMER_CANCEL_ON_SET`.
//!
//! When daylight saving skips or repeats an hour, croner's rule holds, which is near to that of
//! cron on most systems. A line with one second, one minute and one hour, such as `30 2 * * *`,
//! runs once a day: at the first moment after the gap if its time is skipped, and at the earlier
//! of the two if it comes twice. Any other line goes by what the clock on the wall shows: what is
//! skipped does not run, and what comes twice runs twice.

#![allow(
    unreachable_pub,
    reason = "a program has no outside: `pub` means for its other files"
)]

mod crontab;
mod line;
mod options;
mod runner;

use std::{
    fmt, fs,
    io::{self, Write},
    process::ExitCode,
    sync::{Arc, Mutex, mpsc},
};

use evcore_timer::Scheduler;
use jiff::Timestamp;

use line::Line;
use options::{Asked, Options, Task};
use runner::Runner;

fn main() -> ExitCode {
    match options::parse(std::env::args_os().skip(1)) {
        Ok(Asked::Cron(options)) => cron(options).unwrap_or_else(|error| {
            log(format_args!("{error}"));
            ExitCode::from(1)
        }),
        Ok(Asked::Help) => {
            print!("{}", options::HELP);
            ExitCode::SUCCESS
        }
        Err(error) => {
            log(format_args!("{error}"));
            ExitCode::from(2)
        }
    }
}

fn cron(options: Options) -> io::Result<ExitCode> {
    let file = options.crontab.display();
    let text = fs::read_to_string(&options.crontab)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot read {file}: {error}")))?;
    let lines = match crontab::read(&text, options.fields, &options.from) {
        Ok(lines) => lines,
        Err(bad) => {
            for line in bad {
                log(format_args!("{file}:{line}"));
            }
            return Ok(ExitCode::from(2));
        }
    };
    if lines.is_empty() {
        log(format_args!("{file}: no line says what to run"));
    }
    match options.task {
        Task::Tell { times } => tell(lines, times)?,
        Task::Keep { run, once } => keep(lines, run, once)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what is due the next so many times; at equal times in the order of the file.
fn tell(mut lines: Vec<Line>, times: u64) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for _ in 0..times {
        let pending = lines.iter_mut().filter(|line| line.due().is_some());
        let Some(next) = pending.min_by(|a, b| a.due().cmp(&b.due())) else {
            break;
        };
        let now = next.due().map_or(Timestamp::MAX, jiff::Zoned::timestamp);
        if let Some(due) = next.wake(now) {
            writeln!(out, "{}", next.told(&due))?;
        }
    }
    Ok(())
}

/// Sleeps and runs, until `once` says that it is enough.
fn keep(lines: Vec<Line>, run: bool, once: Option<u64>) -> io::Result<()> {
    let (end, ended) = mpsc::channel();
    let runner = Arc::new(Mutex::new(Runner::new(run, once, end)));
    let scheduler = Scheduler::new()?;
    for line in lines {
        add(&scheduler, line, Arc::clone(&runner));
    }
    // So that the jobs have the only ones, and the channel closes when no job is left.
    drop(runner);
    let outcome = ended.recv().unwrap_or(Ok(()));
    drop(scheduler);
    // Commands that are under way have a sender each: this waits for the last.
    ended.iter().for_each(drop);
    outcome
}

/// The job of one line.
fn add(scheduler: &Scheduler, mut line: Line, runner: Arc<Mutex<Runner>>) {
    let Some(rest) = line.rest(Timestamp::now()) else {
        return;
    };
    scheduler.after(rest, move |job| {
        if let Some(due) = line.wake(Timestamp::now()) {
            let mut runner = runner.lock().expect("no job panics while it runs");
            runner.run(&line, &due);
        }
        // If it woke early, this is the same time again.
        if let Some(rest) = line.rest(Timestamp::now()) {
            job.move_after(rest);
        }
    });
}

/// Tells the operator; where that fails there is nobody left to tell.
fn log(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "cron: {what}");
}
