//! A server with its files and processes, and its disturbances.

use std::{
    collections::HashSet,
    fmt, fs,
    ops::Range,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use evcore_tests::{PATIENCE, Scratch, Server, httpd, try_signal_to};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use super::{
    exchange::ServedFile,
    random::{Random, pause},
    session::Target,
};

pub(super) const WORKERS: usize = 4;

/// A server with its files. Dropping this value kills all its processes.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) name: &'static str,
    pub(super) directory: Scratch,
    pub(super) server: Server,
    /// The master, which changes with an upgrade.
    pub(super) master: u32,
    pub(super) done: Done,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) reloads: u32,
    pub(super) upgrades: u32,
    pub(super) stops: u32,
    pub(super) rotations: u32,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            reloads,
            upgrades,
            stops,
            rotations,
        } = self;
        write!(
            f,
            "{reloads} reloads, {upgrades} upgrades, {stops} stops, {rotations} rotations"
        )
    }
}

impl Site {
    pub(super) fn start(name: &'static str, policy: &str, poller: &str) -> (Self, Target) {
        let directory = Scratch::new(name);
        for empty in ["root", "cwd", "tmp"] {
            fs::create_dir(directory.file(empty)).expect("the directory is writable");
        }
        let files = ServedFile::write_all(&directory.file("root"));
        // Under `reuseport`, the kernel does not distribute the connections of a Unix socket.
        let unix = (policy != "reuseport").then(|| directory.file("socket"));
        let mut command = Command::new(httpd());
        // All processes of the server, and of later binaries, are in one group of their own.
        command.process_group(0).current_dir(directory.file("cwd"));
        command.env("TMPDIR", directory.file("tmp"));
        // This number of connections is enough, and fits the usual limit on descriptors.
        command.args(["--listen", "127.0.0.1:0", "--connections", "1000"]);
        command.arg("--workers");
        command.arg(WORKERS.to_string());
        command.args(["--accept", policy, "--poller", poller]);
        // A connection may be lost only if its worker was killed, so the test must know the worker
        // of each connection. Therefore rebalancing is off. `tests/soak/moves.rs` tests connections
        // that move.
        command.args(["--rebalance", "off"]);
        if let Some(unix) = &unix {
            command.arg("--listen");
            command.arg(format!("unix:{}", unix.display()));
        }
        for (option, file) in [("--access-log", "access.log"), ("--pid", "pid")] {
            command.arg(option).arg(directory.file(file));
        }
        command.arg("--root").arg(directory.file("root"));
        let server = Server::from_command(command, 1 + usize::from(unix.is_some()));
        let target = Target {
            tcp: server.address(),
            unix,
            files,
            ledger: super::ledger::Ledger::default(),
        };
        let site = Self {
            name,
            directory,
            master: server.pid(),
            server,
            done: Done::default(),
        };
        (site, target)
    }

    /// The workers, including those that are stopping.
    pub(super) fn workers(&self) -> Vec<u32> {
        let master = self.master;
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().map(str::parse);
        children.filter_map(Result::ok).collect()
    }

    pub(super) fn kill(&self, target: &Target, random: &mut Random) -> Result<(), String> {
        let mut workers = Vec::new();
        wait_until("there is a worker", || {
            workers = self.workers();
            !workers.is_empty()
        })?;
        let pid = *random.pick(&workers);
        target.ledger.will_be_killed(pid);
        target.ledger.kills.begin();
        // The worker may have ended since it was listed.
        let _ = try_signal_to(pid, Signal::KILL);
        wait_until("a killed worker is gone", || !self.workers().contains(&pid))?;
        target.ledger.kills.end();
        Ok(())
    }

    pub(super) fn stop_for(&mut self, ms: Range<usize>, random: &mut Random) {
        let workers = self.workers();
        if workers.is_empty() {
            return;
        }
        let pid = *random.pick(&workers);
        let _ = try_signal_to(pid, Signal::STOP);
        random.pause(ms);
        let _ = try_signal_to(pid, Signal::CONT);
        self.done.stops += 1;
    }

    /// Reloads the server, sometimes kills a worker meanwhile, and waits for the end of the old
    /// workers.
    pub(super) fn reload(&mut self, target: &Target, random: &mut Random) -> Result<(), String> {
        let old = self.workers();
        target.ledger.turnovers.begin();
        self.signal(Signal::HUP);
        if random.once_in(3) {
            random.pause(0..200);
            self.kill(target, random)?;
        }
        wait_until("a reload is done", || {
            let workers = self.workers();
            workers.len() == WORKERS && !workers.iter().any(|pid| old.contains(pid))
        })?;
        target.ledger.turnovers.end();
        self.done.reloads += 1;
        Ok(())
    }

    /// Starts a new binary, and stops the old one when the new one serves.
    pub(super) fn upgrade(&mut self, target: &Target, random: &mut Random) -> Result<(), String> {
        let old = self.master;
        self.signal(Signal::USR2);
        let mut new = None;
        wait_until("a new binary has written its process id", || {
            new = self.pid_in_file().filter(|pid| *pid != old);
            new.is_some()
        })?;
        // Both binaries serve meanwhile.
        random.pause(0..500);
        target.ledger.turnovers.begin();
        self.signal(Signal::QUIT);
        self.wait_for_end("an old binary ends")?;
        target.ledger.turnovers.end();
        self.master = new.expect("just waited for");
        self.done.upgrades += 1;
        Ok(())
    }

    fn pid_in_file(&self) -> Option<u32> {
        let text = fs::read_to_string(self.directory.file("pid")).ok()?;
        text.trim().parse().ok()
    }

    pub(super) fn rotate(&mut self) -> Result<(), String> {
        self.done.rotations += 1;
        let renamed = format!("access.log.{}", self.done.rotations);
        fs::rename(self.log_path(), self.directory.file(&renamed))
            .map_err(|error| format!("the access log: {error}"))?;
        self.signal(Signal::USR1);
        wait_until("there is a new access log", || self.log_path().exists())
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.directory.file("access.log")
    }

    pub(super) fn signal(&self, signal: Signal) {
        // If the master has ended, a later check finds that the signal had no effect.
        let _ = try_signal_to(self.master, signal);
    }

    /// Waits until the master has ended. Fails if its exit status is not 0.
    pub(super) fn wait_for_end(&mut self, what: &str) -> Result<(), String> {
        let status = if self.master == self.server.pid() {
            Some(self.server.wait().success())
        } else {
            self.wait_for_adopted(what)?
        };
        match status {
            Some(true) => Ok(()),
            _ => Err(format!("{what}, but its exit status is not 0")),
        }
    }

    /// Waits for a later binary, which is an orphan that this process has adopted.
    fn wait_for_adopted(&self, what: &str) -> Result<Option<bool>, String> {
        let pid = i32::try_from(self.master).ok().and_then(Pid::from_raw);
        let mut ended = None;
        wait_until(what, || {
            let waited = waitpid(pid, WaitOptions::NOHANG);
            ended = waited.ok().flatten();
            ended.is_some()
        })?;
        Ok(ended.map(|(_, status)| status.exit_status() == Some(0)))
    }

    /// The process ids and states of all processes of this server, including processes that have
    /// ended and were not yet waited for.
    pub(super) fn processes(&self) -> Vec<(u32, char)> {
        let entries = fs::read_dir("/proc").expect("the system has it");
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let pids = names.filter_map(|name| name.parse::<u32>().ok());
        pids.filter_map(|pid| Some((pid, self.state(pid)?)))
            .collect()
    }

    fn state(&self, pid: u32) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // State, parent and group are behind the name, which may contain anything.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next();
        let group = fields.nth(1)?.parse();
        state.filter(|_| group == Ok(self.server.pid()))
    }

    pub(super) fn names(&self) -> HashSet<String> {
        let entries = fs::read_dir(self.directory.path()).expect("it is there");
        let names = entries.map(|entry| entry.expect("it can be read").file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let group = i32::try_from(self.server.pid())
            .ok()
            .and_then(Pid::from_raw);
        if let Some(group) = group.filter(|_| !self.processes().is_empty()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Waits for a condition, which `what` describes in the error.
pub(super) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        if Instant::now() > deadline {
            return Err(format!("gave up waiting: {what}"));
        }
        pause(Duration::from_millis(10));
    }
    Ok(())
}
