//! The servers of `servers/servers.json`: how each is built and started.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::process::Signal;
use serde::Deserialize;

use crate::cpus::{cpus, usable};
use crate::report::Report;
use crate::run::{Run, shell};
use crate::{pace, process};

/// A server that can be started.
///
/// Its commands are lines of the shell, which run in the root of the source tree with the variables
/// `HTTPD` (the example server), `BENCH` (this program), `FOLDER` (the directory of all files) and
/// `CLIENT_CPU`. The command that starts it also has `NAME`, `ADDRESS` and `WORKERS`, and the
/// command of a proxy has `UPSTREAM`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Program {
    parts: Vec<String>,
    pub(crate) name: String,
    build: Option<String>,
    /// The command that starts it, and becomes its process.
    run: String,
    /// The CPUs of the server, as `taskset` lists them. An empty string means the first CPU.
    #[serde(skip)]
    cpus: String,
    /// A tool that runs the program, with the tool's options; empty if the program runs without a
    /// tool.
    #[serde(skip)]
    pub(crate) tool: &'static str,
    #[serde(skip)]
    variables: Vec<(&'static str, OsString)>,
}

/// A server that serves. All its processes end when this value is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// The requested number of workers. 0 means one process that serves by itself.
    pub(crate) workers: usize,
    process: Child,
}

/// Builds the servers of a part, and records the absence of those that cannot be built.
pub(crate) fn programs(run: &Run, report: &mut Report, part: &str) -> Vec<Program> {
    let all = include_str!("../servers/servers.json");
    let mut all: Vec<Program> = serde_json::from_str(all).expect("it has this form");
    all.retain(|program| program.parts.iter().any(|measured| measured == part));
    all.retain_mut(|program| {
        program.set("HTTPD", &run.httpd);
        program.set("FOLDER", folder(run));
        program.set("BENCH", std::env::current_exe().unwrap_or_default());
        program.set("CLIENT_CPU", cpus()[1].to_string());
        let built = program.build();
        report.or_absent(&program.name, built).is_some()
    });
    all
}

pub(crate) fn folder(run: &Run) -> PathBuf {
    let folder = run.folder.join("servers");
    // If the directory cannot be made, a server will not start.
    let _ = fs::create_dir_all(&folder);
    folder
}

impl Program {
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.variables.push((name, value.into()));
    }

    /// From now on, starts the program on all CPUs that this thread may use.
    pub(crate) fn use_all_cpus(&mut self) {
        let usable: Vec<String> = usable().iter().map(usize::to_string).collect();
        self.cpus = usable.join(",");
    }

    fn command(&self, line: &str) -> Command {
        let mut command = shell(line);
        command.envs(self.variables.iter().cloned());
        command
    }

    fn build(&self) -> Result<(), String> {
        let Some(line) = &self.build else {
            return Ok(());
        };
        let status = self.command(line).status();
        match status.expect("there is a shell") {
            status if status.success() => Ok(()),
            status => Err(format!("{line}: {status}")),
        }
    }

    /// Starts the program on its CPUs, and waits until it serves.
    ///
    /// # Errors
    ///
    /// The reason for which it does not serve.
    pub(crate) fn start(&self, workers: usize) -> Result<Server, String> {
        let mut server = self.launch(workers).map_err(|error| error.to_string())?;
        let mut is_alive = true;
        pace::until(|| {
            is_alive = matches!(server.process.try_wait(), Ok(None));
            !is_alive || (server.is_whole() && TcpStream::connect(server.address).is_ok())
        });
        if !is_alive || !server.is_whole() {
            return Err("it does not serve; see its log in the directory `servers`".to_owned());
        }
        server.wait_until_idle();
        Ok(server)
    }

    /// Starts the program without waiting. The kernel ends the server when this thread ends.
    pub(crate) fn launch(&self, workers: usize) -> io::Result<Server> {
        // An unused address, because not every server can print a port that the kernel chose.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let cpu = match &self.cpus {
            all if all.is_empty() => cpus()[0].to_string(),
            all => all.clone(),
        };
        let mut command = self.command(&format!(
            "exec setpriv --pdeathsig TERM taskset -c {cpu} {} {} </dev/null >\"$FOLDER/$NAME.log\" 2>&1",
            self.tool, self.run
        ));
        command.env("NAME", &self.name);
        command.env("ADDRESS", address.to_string());
        command.env("WORKERS", workers.to_string());
        Ok(Server {
            name: self.name.clone(),
            address,
            workers,
            process: command.spawn()?,
        })
    }
}

impl Server {
    /// The process ids of the present workers, or of the only process.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let workers = process::children(self.process.id());
        if self.workers == 0 && workers.is_empty() {
            return vec![self.process.id()];
        }
        workers
    }

    pub(crate) fn master(&self) -> u32 {
        self.process.id()
    }

    /// Returns whether the server has all its workers. There may be more processes, because
    /// descriptor stores are children of the master too.
    pub(crate) fn is_whole(&self) -> bool {
        self.pids().len() >= self.workers.max(1)
    }

    /// Waits until every worker is asleep.
    ///
    /// Over loopback, a connection or bytes have woken their worker when the call that sends them
    /// returns. So when all workers are asleep again, their work is done.
    ///
    /// # Panics
    ///
    /// If a worker never sleeps, because it spins.
    pub(crate) fn wait_until_idle(&self) {
        let pids = self.pids();
        let are_asleep = || pids.iter().all(|pid| process::is_asleep(*pid));
        // The workers are checked twice, because a worker may have woken another one after the
        // check of that other worker.
        let rests = pace::until(|| are_asleep() && are_asleep());
        assert!(rests, "{}: workers {pids:?} never sleep", self.name);
    }

    pub(crate) fn sleeps(&self) -> u64 {
        self.pids().into_iter().map(process::sleeps).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let master = self.process.id();
        let mut pids = process::children(master);
        pids.push(master);
        let signal = |signal| pids.iter().for_each(|pid| process::signal(*pid, signal));
        signal(Signal::CONT);
        process::signal(master, Signal::TERM);
        if !pace::until(|| !matches!(self.process.try_wait(), Ok(None))) {
            signal(Signal::KILL);
        }
        let _ = self.process.wait();
    }
}
