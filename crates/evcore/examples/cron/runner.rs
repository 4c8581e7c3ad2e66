//! What happens when a line is due: it is printed, and its command started if that is asked for.

use std::{
    io::{self, Write},
    process::{Child, Command, Stdio},
    sync::mpsc::Sender,
    thread,
};

use jiff::Zoned;

use crate::{line::Line, log};

/// Prints and starts what is due.
#[derive(Debug)]
pub struct Runner {
    starts_commands: bool,
    /// Runs until the end; `None`: there is none.
    left: Option<u64>,
    end: Sender<io::Result<()>>,
}

impl Runner {
    /// A runner that ends after so many runs, if that is said.
    pub fn new(starts_commands: bool, left: Option<u64>, end: Sender<io::Result<()>>) -> Self {
        Self {
            starts_commands,
            left,
            end,
        }
    }

    /// Runs a line whose time has come. After the end it does nothing.
    pub fn run(&mut self, line: &Line, due: &Zoned) {
        if self.left == Some(0) {
            return;
        }
        if let Err(error) = writeln!(io::stdout(), "{}", line.told(due)) {
            // Nobody reads any more: going on would be work for nobody.
            self.end(Err(error));
            return;
        }
        if self.starts_commands {
            self.start(line);
        }
        self.left = self.left.map(|left| left - 1);
        if self.left == Some(0) {
            self.end(Ok(()));
        }
    }

    fn end(&mut self, outcome: io::Result<()>) {
        self.left = Some(0);
        // It fails if the main thread is at its end already.
        let _ = self.end.send(outcome);
    }

    /// Starts the command, and a thread that waits for its end: the scheduler has one thread for
    /// all lines, and a command that takes long must not delay them.
    fn start(&self, line: &Line) {
        let (number, end) = (line.number, self.end.clone());
        let started = command(line).spawn().and_then(|child| {
            thread::Builder::new().spawn(move || {
                report(number, child);
                // Says that nothing more comes from here.
                drop(end);
            })
        });
        if let Err(error) = started {
            log(format_args!("line {number} cannot be started: {error}"));
        }
    }
}

fn command(line: &Line) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", &line.command])
        .envs(line.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null());
    command
}

fn report(number: usize, mut child: Child) {
    match child.wait() {
        Ok(status) if status.success() => {}
        Ok(status) => log(format_args!("line {number} ended: {status}")),
        Err(error) => log(format_args!("line {number}: {error}")),
    }
}
