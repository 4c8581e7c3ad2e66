//! A server under test, with its worker processes. All of it ends with its value.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Child;

use rustix::process::Signal;

use super::client::Client;
use super::{pace, process};

/// A server that serves.
#[derive(Debug)]
pub(super) struct Server {
    started: Vec<Child>,
    has_master: bool,
    pub(super) address: SocketAddr,
    /// How many workers it was started with.
    pub(super) workers: usize,
    /// Where its files are, which go with it.
    pub(super) folder: Option<PathBuf>,
}

impl Server {
    /// A master that has its workers as children.
    pub(super) fn with_master(master: Child, address: SocketAddr, workers: usize) -> Server {
        Server {
            started: vec![master],
            has_master: true,
            address,
            workers,
            folder: None,
        }
    }

    /// Only the workers, none of which is started yet.
    pub(super) fn of_workers(address: SocketAddr) -> Server {
        Server {
            started: Vec::new(),
            has_master: false,
            address,
            workers: 0,
            folder: None,
        }
    }

    pub(super) fn add_worker(&mut self, worker: Child) {
        self.started.push(worker);
        self.workers += 1;
    }

    /// The process ids of the workers that there are now.
    pub(super) fn pids(&self) -> Vec<u32> {
        if self.has_master {
            process::children(self.started[0].id())
        } else {
            self.started.iter().map(Child::id).collect()
        }
    }

    /// The process ids of all its processes.
    pub(super) fn all_pids(&self) -> Vec<u32> {
        let mut pids = self.pids();
        if self.has_master {
            pids.push(self.started[0].id());
        }
        pids
    }

    /// Waits until all workers are there and one has answered.
    ///
    /// # Errors
    ///
    /// If it takes too long.
    pub(super) fn ready(self) -> Result<Server, String> {
        let is_ready = || self.is_whole() && self.answers();
        if !pace::until(is_ready) {
            return Err(format!("not ready on {}", self.address));
        }
        self.wait_until_idle();
        Ok(self)
    }

    /// Whether it has all its workers.
    pub(super) fn is_whole(&self) -> bool {
        self.pids().len() == self.workers
    }

    /// Waits until every worker is asleep.
    ///
    /// Over loopback, a worker that is woken by a connection or by bytes is awake by the time that
    /// sending them returns. So when all are asleep again, all that followed from it is done.
    ///
    /// # Panics
    ///
    /// If one never sleeps: it spins.
    pub(super) fn wait_until_idle(&self) {
        let pids = self.pids();
        let are_asleep = || pids.iter().all(|pid| process::is_asleep(*pid));
        // Twice: one may have woken another that was looked at before.
        let rests = pace::soon(|| are_asleep() && are_asleep());
        assert!(rests, "workers {pids:?} never sleep");
    }

    /// How often its workers have gone to sleep, together.
    pub(super) fn sleeps(&self) -> u64 {
        self.pids().into_iter().map(process::sleeps).sum()
    }

    fn answers(&self) -> bool {
        Client::connect(self.address).is_ok_and(|mut client| client.worker().is_ok())
    }

    fn end(&mut self) {
        let pids = self.all_pids();
        for pid in &pids {
            process::signal(*pid, Signal::CONT);
        }
        for child in &self.started {
            process::signal(child.id(), Signal::TERM);
        }
        let all_ended = |started: &mut Vec<Child>| {
            let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
            started.iter_mut().all(ended)
        };
        if !pace::until(|| all_ended(&mut self.started)) {
            for pid in pids {
                process::signal(pid, Signal::KILL);
            }
        }
        for child in &mut self.started {
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
