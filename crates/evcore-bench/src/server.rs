//! A server under test, with its worker processes. All of it ends with its value.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Child;

use rustix::process::Signal;

use crate::cpus::{cpus, on_cpu};
use crate::{pace, process};

/// A server that can be started.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    path: PathBuf,
    /// Its arguments, for the address on which it serves and the number of workers.
    args: Box<Args>,
    /// Where its output goes.
    log: PathBuf,
}

type Args = dyn Fn(SocketAddr, usize) -> io::Result<Vec<String>>;

/// A server that serves.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// How many workers it was asked for; 0 if it has one worker in any case, or does all by itself.
    pub(crate) workers: usize,
    process: Child,
}

/// An address that nothing uses. Not every server can print the port that the kernel has chosen.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

impl Program {
    pub(crate) fn new(
        name: &'static str,
        path: impl Into<PathBuf>,
        folder: &std::path::Path,
        args: impl Fn(SocketAddr, usize) -> io::Result<Vec<String>> + 'static,
    ) -> Program {
        Program {
            name,
            path: path.into(),
            args: Box::new(args),
            log: folder.join(format!("{name}.log")),
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
            return Err(format!("it does not serve; see {}", self.log.display()));
        }
        server.wait_until_idle();
        Ok(server)
    }

    /// Starts it, without waiting.
    pub(crate) fn launch(&self, cpu: usize, workers: usize) -> io::Result<Server> {
        let (address, log) = (free_address()?, File::create(&self.log)?);
        let mut command = on_cpu(cpu, &self.path);
        command.args((self.args)(address, workers)?);
        command.stdout(log.try_clone()?).stderr(log);
        Ok(Server {
            name: self.name,
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
        let rests = pace::soon(|| are_asleep() && are_asleep());
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
