//! Kills of workers, and the number of sessions of each worker.

use evcore_tests::{Server, clients_of, eventually, process_state, signal_to};
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
        eventually("the worker has stopped", || process_state(pid) == Some('T'));
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

fn sessions(pid: u32, port: u16) -> u64 {
    clients_of(pid, port).len() as u64
}
