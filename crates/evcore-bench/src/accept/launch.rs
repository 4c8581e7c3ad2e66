//! A program that becomes another: on one CPU, with a limit of descriptors, and not longer than its
//! parent runs.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit,
};

use super::pin;

/// How servers are started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    /// The CPU that they share.
    pub(super) cpu: usize,
    /// The most descriptors that each process may have; 0: as many as this one.
    pub(super) descriptors: u64,
}

impl Launch {
    /// A command that becomes the program.
    pub(super) fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = this_program();
        let (cpu, descriptors) = (self.cpu.to_string(), self.descriptors.to_string());
        command.args(["launch", &cpu, &descriptors]).arg(program);
        command
    }
}

/// This program, to be started once more.
pub(super) fn this_program() -> Command {
    Command::new(std::env::current_exe().expect("this program has a path"))
}

/// Becomes the program that the words name; returns only if it cannot.
pub(crate) fn launch(words: &[&str]) -> ExitCode {
    let [cpu, descriptors, program, args @ ..] = words else {
        return ExitCode::FAILURE;
    };
    let (Ok(cpu), Ok(descriptors)) = (cpu.parse(), descriptors.parse()) else {
        return ExitCode::FAILURE;
    };
    // A server without a parent would stay for ever.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    pin::to(cpu);
    if descriptors > 0 {
        limit_descriptors(descriptors);
    }
    let error = Command::new(program).args(args).exec();
    eprintln!("{program}: {error}");
    ExitCode::FAILURE
}

fn limit_descriptors(most: u64) {
    let limit = Rlimit {
        current: Some(most),
        // Or it would raise it again, as servers do.
        maximum: Some(most),
    };
    debug_assert!(
        getrlimit(Resource::Nofile)
            .maximum
            .is_none_or(|now| most <= now)
    );
    setrlimit(Resource::Nofile, limit).expect("a process may have fewer");
}
