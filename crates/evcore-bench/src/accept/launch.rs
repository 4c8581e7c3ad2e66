//! Servers on the first CPU, clients on the last, so that neither waits for the other's.
//!
//! A server is started by this program, which becomes it: on one CPU, and not longer than its
//! parent runs.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Read once: after that, this thread is on one CPU.
static CPUS: OnceLock<[usize; 2]> = OnceLock::new();

/// How servers are started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    /// The CPU that they share.
    cpu: usize,
}

impl Launch {
    /// Keeps this thread, which has the clients, on the last of its CPUs; the servers get the
    /// first. The same one if there is no other.
    pub(crate) fn beside_this_thread() -> Launch {
        crate::descriptors::most();
        let [first, last] = *CPUS.get_or_init(first_and_last_cpu);
        pin_to(last);
        Launch { cpu: first }
    }

    /// For a server that is not measured: on the CPU of the clients.
    pub(crate) fn beside_the_clients() -> Launch {
        let [_, cpu] = *CPUS.get_or_init(first_and_last_cpu);
        Launch { cpu }
    }

    /// A command that becomes the program.
    pub(crate) fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = this_program();
        command.args(["launch", &self.cpu.to_string()]).arg(program);
        command
    }
}

/// Of those that this thread may use; the same if there is only one.
fn first_and_last_cpu() -> [usize; 2] {
    let set = sched_getaffinity(None).expect("a process may ask where it may run");
    let mut usable = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    let first = usable.next().expect("it runs on one");
    [first, usable.next_back().unwrap_or(first)]
}

/// Keeps this thread, and whatever it starts from now on, on one CPU.
fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // If it is refused, the figures have more noise.
    let _ = sched_setaffinity(None, &set);
}

/// This program, to be started once more.
pub(super) fn this_program() -> Command {
    Command::new(std::env::current_exe().expect("this program has a path"))
}

/// Becomes the program that the words name, on a CPU; returns only if it cannot.
pub(crate) fn launch(words: &[&str]) -> ExitCode {
    let [cpu, program, args @ ..] = words else {
        return ExitCode::FAILURE;
    };
    // A server without a parent would stay for ever.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    pin_to(cpu.parse().expect("the number of a CPU"));
    let error = Command::new(program).args(args).exec();
    eprintln!("{program}: {error}");
    ExitCode::FAILURE
}
