//! The servers of `servers/servers.json`: how each is built, configured and started.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::process::Signal;
use serde::Deserialize;

use crate::cpus::{cpus, on_cpu};
use crate::report::Report;
use crate::run::{self, Run};
use crate::{pace, process};

/// A server that can be started.
///
/// In its lines, and in its configuration, `HTTPD` (the example server), `RELEASE` (its directory, with a `/`)
/// and `FOLDER` (that of all files) stand for their values. In those of a start also `ADDRESS`,
/// `PORT`, `WORKERS`, `MASTER` (`on` or `off`) and `CONFIG` (the file).
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Program {
    /// The parts that measure it.
    parts: Vec<String>,
    pub(crate) name: String,
    /// The command that builds it, with words between spaces.
    build: Option<String>,
    /// The command that starts it.
    run: String,
    /// Its configuration, a file in `servers`.
    config: Option<String>,
    /// What else stands for other text.
    #[serde(default)]
    fill: Vec<(String, String)>,
}

/// A server that serves. All of it ends with its value.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// How many workers it was asked for; 0 if it has one worker in any case, or does all by itself.
    pub(crate) workers: usize,
    process: Child,
}

/// An address that nothing uses. Not every server can print the port that the kernel has chosen.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

/// Builds the servers of a part, and records the absence of those that cannot be built.
pub(crate) fn programs(run: &Run, report: &mut Report, part: &str) -> Vec<Program> {
    let all = include_str!("../servers/servers.json");
    let mut all: Vec<Program> = serde_json::from_str(all).expect("it has this form");
    all.retain_mut(|program| {
        if !program.parts.iter().any(|it| it == part) {
            return false;
        }
        program.set("HTTPD", run.httpd.display());
        program.set("RELEASE", run.httpd.with_file_name("").display());
        program.set("FOLDER", folder(run).display());
        let built = program.build();
        report.or_absent(&program.name, built).is_some()
    });
    all
}

/// Where servers have files.
pub(crate) fn folder(run: &Run) -> PathBuf {
    let folder = run.folder.join("servers");
    // If it cannot be made, a server does not start.
    let _ = fs::create_dir_all(&folder);
    std::path::absolute(&folder).unwrap_or(folder)
}

impl Program {
    /// Sets what stands for a name in its lines and its configuration.
    pub(crate) fn set(&mut self, name: &str, value: impl ToString) {
        self.fill.push((name.to_owned(), value.to_string()));
    }

    /// A text with the values of its names.
    fn filled(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.fill {
            text = text.replace(name, value);
        }
        text
    }

    fn words(&self, line: &str) -> Vec<String> {
        line.split(' ').map(|word| self.filled(word)).collect()
    }

    fn build(&self) -> Result<(), String> {
        let Some(line) = &self.build else {
            return Ok(());
        };
        let words = self.words(line);
        let mut command = Command::new(&words[0]);
        match command.args(&words[1..]).current_dir(run::root()).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{line}: {status}")),
            Err(error) => Err(format!("{line}: {error}")),
        }
    }

    /// Starts it on the CPU of the servers, and waits until it serves.
    ///
    /// # Errors
    ///
    /// The reason why it does not serve.
    pub(crate) fn start(&self, workers: usize) -> Result<Server, String> {
        self.start_on(cpus()[0], workers)
    }

    pub(crate) fn start_on(&self, cpu: usize, workers: usize) -> Result<Server, String> {
        let mut server = self.launch(cpu, workers).map_err(|it| it.to_string())?;
        let mut is_alive = true;
        pace::until(|| {
            is_alive = matches!(server.process.try_wait(), Ok(None));
            !is_alive || (server.is_whole() && TcpStream::connect(server.address).is_ok())
        });
        if !is_alive || !server.is_whole() {
            return Err(self.filled("it does not serve; see the logs in FOLDER"));
        }
        server.wait_until_idle();
        Ok(server)
    }

    /// Starts it, without waiting.
    pub(crate) fn launch(&self, cpu: usize, workers: usize) -> io::Result<Server> {
        let address = free_address()?;
        let file = self.filled(&format!("FOLDER/{}", self.name));
        let (config, log) = (format!("{file}.conf"), File::create(format!("{file}.log"))?);
        let mut filled = self.clone();
        filled.set("ADDRESS", address);
        filled.set("PORT", address.port());
        filled.set("WORKERS", workers);
        filled.set("MASTER", if workers == 0 { "off" } else { "on" });
        filled.set("CONFIG", &config);
        if let Some(template) = &self.config {
            let folder = run::root().join("crates/evcore-bench/servers");
            let template = fs::read_to_string(folder.join(template))?;
            fs::write(&config, filled.filled(&template))?;
        }
        let mut words = filled.words(&self.run);
        let mut command = on_cpu(cpu, words.remove(0));
        command.args(words).stdout(log.try_clone()?).stderr(log);
        Ok(Server {
            name: self.name.clone(),
            address,
            workers,
            process: command.spawn()?,
        })
    }
}

impl Server {
    /// The process ids of the workers that there are now, or of the only process.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let workers = process::children(self.process.id());
        if self.workers == 0 && workers.is_empty() {
            return vec![self.process.id()];
        }
        workers
    }

    /// Whether it has all its workers.
    pub(crate) fn is_whole(&self) -> bool {
        self.pids().len() == self.workers.max(1)
    }

    /// Waits until every worker is asleep.
    ///
    /// Over loopback, a worker that is woken by a connection or by bytes is awake by the time that
    /// sending them returns. So when all are asleep again, all that followed from it is done.
    ///
    /// # Panics
    ///
    /// If one never sleeps: it spins.
    pub(crate) fn wait_until_idle(&self) {
        let pids = self.pids();
        let are_asleep = || pids.iter().all(|pid| process::is_asleep(*pid));
        // Twice: one may have woken another that was looked at before.
        let rests = pace::until(|| are_asleep() && are_asleep());
        assert!(rests, "{}: workers {pids:?} never sleep", self.name);
    }

    /// How often its workers have gone to sleep, together.
    pub(crate) fn sleeps(&self) -> u64 {
        self.pids().into_iter().map(process::sleeps).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let master = self.process.id();
        let pids = process::children(master);
        for pid in pids.iter().chain([&master]) {
            process::signal(*pid, Signal::CONT);
        }
        process::signal(master, Signal::TERM);
        if !pace::until(|| !matches!(self.process.try_wait(), Ok(None))) {
            for pid in pids.iter().chain([&master]) {
                process::signal(*pid, Signal::KILL);
            }
        }
        let _ = self.process.wait();
    }
}
