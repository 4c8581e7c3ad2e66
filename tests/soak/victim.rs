//! Kills of workers, and the number of sessions of each worker.

use std::{collections::HashSet, fs};

use evcore_tests::{Server, eventually, signal_to};
use rustix::process::Signal;

use super::random;

/// Number of workers that were killed, and of sessions that died with them.
#[derive(Debug, Default)]
pub(super) struct Killed {
    workers: usize,
    pub(super) sessions: u64,
}

impl Killed {
    /// Kills a random worker with a session, if a randomly chosen server has one, and waits for its
    /// replacement. Returns how many were killed so far.
    pub(super) fn kill_one_of(&mut self, servers: &[&Server]) -> usize {
        let server = servers[random(servers.len())];
        self.kill_first(server, |sessions| sessions > 0)
    }

    /// Kills a random worker without a session, if there is one. Returns how many were killed so
    /// far.
    pub(super) fn kill_an_idle_one_of(&mut self, server: &Server) -> usize {
        self.kill_first(server, |sessions| sessions == 0)
    }

    /// Tries the workers in a random order, and kills the first one that `may_die`. Returns how
    /// many were killed so far.
    fn kill_first(&mut self, server: &Server, may_die: fn(u64) -> bool) -> usize {
        let mut pids = server.worker_pids();
        while !pids.is_empty() {
            let pid = pids.swap_remove(random(pids.len()));
            if self.kill(server, pid, may_die) {
                break;
            }
        }
        self.workers
    }

    fn kill(&mut self, server: &Server, pid: u32, may_die: fn(u64) -> bool) -> bool {
        // A suspended worker accepts no further client, so the number is exact.
        signal_to(pid, Signal::STOP);
        eventually("the worker has stopped", || state(pid) == Some('T'));
        let sessions = sessions(pid, server.address().port());
        if !may_die(sessions) {
            signal_to(pid, Signal::CONT);
            return false;
        }
        let workers = server.worker_pids().len();
        signal_to(pid, Signal::KILL);
        eventually("another worker runs", || {
            let pids = server.worker_pids();
            pids.len() == workers && !pids.contains(&pid)
        });
        self.workers += 1;
        self.sessions += sessions;
        true
    }
}

/// Returns the state of a process: the letter behind its name, which is in parentheses and may
/// contain anything.
pub(super) fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn sessions(pid: u32, port: u16) -> u64 {
    clients_of(pid, port).len() as u64
}

/// Returns the ports of the clients that are connected to a worker at the server's port `port`.
pub(super) fn clients_of(pid: u32, port: u16) -> HashSet<u16> {
    let files = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let links: HashSet<String> = links
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    let sockets = fs::read_to_string("/proc/net/tcp").expect("the system has IPv4");
    let clients = sockets.lines().filter_map(|line| {
        // The fields are number, local address, remote address and state (0A listens); the tenth is
        // the inode.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_open = fields[1].ends_with(&format!(":{port:04X}"))
            && fields[3] != "0A"
            && links.contains(&format!("socket:[{}]", fields[9]));
        let (_, client) = fields[2].rsplit_once(':').filter(|_| is_open)?;
        u16::from_str_radix(client, 16).ok()
    });
    clients.collect()
}
