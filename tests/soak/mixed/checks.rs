//! The state that must hold while no client is connected: processes, counters, descriptors, memory
//! and files.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashSet},
    fs,
    path::Path,
};

use serde_json::Value;

use super::{
    session::Target,
    site::{Site, WORKERS, wait_until},
    wire::Wire,
};

type Descriptors = BTreeMap<String, usize>;

/// The most lines of the access log that a kill loses. A worker buffers 64 KiB, and a line has at
/// least 60 bytes.
const LINES_OF_A_KILL: u64 = 64 * 1024 / 60;

/// Beginnings of the lines that a server may log, besides the deaths of workers.
const EXPECTED_LINES: [&str; 6] = [
    "listening on ",
    "httpd: reload: new workers are being started",
    RELOADED,
    "httpd: the new binary is about to be started",
    UPGRADED,
    "httpd: the server stops",
];
const RELOADED: &str = "httpd: reload: the new workers serve";
const UPGRADED: &str = "httpd: the new binary is process";

/// The baselines of the checks of one server.
#[derive(Debug)]
pub(super) struct Checks {
    /// The descriptors of the master, and of each worker, before the first client.
    descriptors: [Descriptors; 2],
    /// The master's process id. A new binary has another one, and its counters were 0 when the
    /// clients' counts were `before_binary`.
    binary: u32,
    before_binary: Counts,
    lines: u64,
    /// The number of bytes of the server's log that were checked.
    seen_of_log: usize,
    seen: Seen,
    /// Anonymous memory of the master and of the largest worker in KiB, at each check.
    pub(super) memory: Vec<[u64; 2]>,
}

/// Disturbances that a server has logged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) deaths: u64,
    pub(super) reloads: u64,
    pub(super) upgrades: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    connections: u64,
    requests: u64,
    uncounted_connections: u64,
    uncounted_requests: u64,
}

impl Counts {
    fn of(target: &Target) -> Self {
        let ledger = &target.ledger;
        Self {
            connections: ledger.connections.get(),
            requests: ledger.requests.get(),
            uncounted_connections: ledger.uncounted_connections.get(),
            uncounted_requests: ledger.uncounted_requests.get(),
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            connections: self.connections - earlier.connections,
            requests: self.requests - earlier.requests,
            uncounted_connections: self.uncounted_connections - earlier.uncounted_connections,
            uncounted_requests: self.uncounted_requests - earlier.uncounted_requests,
        }
    }
}

impl Checks {
    pub(super) fn of(site: &Site) -> Result<Self, String> {
        all_run(site)?;
        let worker = site.workers()[0];
        Ok(Self {
            descriptors: [descriptors(site, site.master), descriptors(site, worker)],
            binary: site.master,
            before_binary: Counts::default(),
            lines: 0,
            seen_of_log: 0,
            seen: Seen::default(),
            memory: Vec::new(),
        })
    }

    pub(super) fn check(&mut self, site: &Site, target: &Target) -> Result<(), String> {
        all_run(site)?;
        self.check_counts(site, target)?;
        self.check_descriptors(site)?;
        self.check_old_logs(site)?;
        let socket = target.unix.is_some().then_some("socket");
        let names = ["access.log", "cwd", "pid", "root", "tmp"];
        check_names(site, names.into_iter().chain(socket))?;
        self.check_log(site, target)?;
        self.measure(site);
        Ok(())
    }

    /// Checks that the server's counters equal the clients'. They may differ by the connections and
    /// requests that a kill has interrupted.
    fn check_counts(&mut self, site: &Site, target: &Target) -> Result<(), String> {
        let mut page = Value::Null;
        let mut asked = Ok(());
        wait_until("only the client that asks is left", || {
            asked = ask(target).map(|answer| page = answer);
            asked.is_err() || page["active"] == 1
        })?;
        asked?;
        let counted = Counts::of(target);
        let number = |name: &str| page[name].as_u64().unwrap_or(u64::MAX);
        if self.binary != site.master {
            // A new binary counts from 0 while the old one still serves.
            self.binary = site.master;
            self.before_binary = Counts {
                connections: counted.connections.wrapping_sub(number("accepted")),
                requests: counted.requests.wrapping_sub(number("requests")),
                ..counted
            };
            return Ok(());
        }
        let counted = counted.since(self.before_binary);
        let accepted = counted.connections - counted.uncounted_connections..=counted.connections;
        let handled =
            number("accepted").saturating_sub(target.ledger.kills.count())..=number("accepted");
        let requests = counted.requests..=counted.requests + counted.uncounted_requests;
        for (name, allowed) in [
            ("accepted", accepted),
            ("handled", handled),
            ("requests", requests),
        ] {
            if !allowed.contains(&number(name)) {
                return Err(format!("{name} is not in {allowed:?}: {page}"));
            }
        }
        Ok(())
    }

    fn check_descriptors(&self, site: &Site) -> Result<(), String> {
        let mut wrong = String::new();
        let result = wait_until("the descriptors are those of the start", || {
            let workers = site.workers();
            let processes = [site.master].into_iter().chain(workers);
            let mut differ = processes.filter_map(|pid| {
                let before = &self.descriptors[usize::from(pid != site.master)];
                let now = descriptors(site, pid);
                (now != *before).then(|| format!("{pid} has {now:?}, and had {before:?}"))
            });
            wrong = differ.next().unwrap_or_default();
            wrong.is_empty()
        });
        result.map_err(|error| format!("{error}: {wrong}"))
    }

    /// Checks that no process has a renamed access log open. Counts the log's lines, and removes
    /// the log.
    fn check_old_logs(&mut self, site: &Site) -> Result<(), String> {
        let names = site.names().into_iter();
        for name in names.filter(|name| name.starts_with("access.log.")) {
            let path = site.directory.file(&name);
            wait_until("an old access log is closed", || {
                let mut processes = site.processes().into_iter();
                !processes.any(|(pid, _)| has_open(pid, &path))
            })?;
            self.lines += whole_lines(&path)?;
            fs::remove_file(&path).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn check_log(&mut self, site: &Site, target: &Target) -> Result<(), String> {
        let log = site.server.log();
        let end = log.rfind('\n').map_or(0, |at| at + 1);
        for line in log[self.seen_of_log..end].lines() {
            let is_death = line.contains("signal: 9");
            self.seen.deaths += u64::from(is_death);
            self.seen.reloads += u64::from(line.starts_with(RELOADED));
            self.seen.upgrades += u64::from(line.starts_with(UPGRADED));
            if !is_death
                && !EXPECTED_LINES
                    .iter()
                    .any(|expected| line.starts_with(expected))
            {
                return Err(format!("an unexpected line: {line}"));
            }
        }
        self.seen_of_log = end;
        let kills = target.ledger.kills.count();
        let deaths = self.seen.deaths;
        if deaths > kills {
            return Err(format!("{deaths} workers died by {kills} kills"));
        }
        Ok(())
    }

    fn measure(&mut self, site: &Site) {
        let workers = site.workers().into_iter().map(anonymous_memory);
        let master = anonymous_memory(site.master);
        self.memory.push([master, workers.max().unwrap_or(0)]);
    }

    /// Checks the files, the log and the port after the end of the server. Returns the disturbances
    /// that it has logged.
    pub(super) fn check_end(mut self, site: &Site, target: &Target) -> Result<Seen, String> {
        wait_until("all processes have ended", || site.processes().is_empty())?;
        if Wire::tcp(target.tcp).is_ok() {
            return Err("somebody listens after the end".to_owned());
        }
        self.check_old_logs(site)?;
        check_names(site, ["access.log", "cwd", "root", "tmp"].into_iter())?;
        self.check_log(site, target)?;
        self.lines += whole_lines(&site.log_path())?;
        let counted = Counts::of(target);
        let lost = target.ledger.kills.count() * LINES_OF_A_KILL;
        let most = counted.requests + counted.uncounted_requests;
        let allowed = counted.requests.saturating_sub(lost)..=most;
        match allowed.contains(&self.lines) {
            true => Ok(self.seen),
            false => Err(format!(
                "{} lines of the access log, not {allowed:?}",
                self.lines
            )),
        }
    }
}

fn all_run(site: &Site) -> Result<(), String> {
    let mut processes = Vec::new();
    let result = wait_until("master and workers run, and nothing else", || {
        processes = site.processes();
        let are_alive = processes.iter().all(|(_, state)| *state != 'Z');
        are_alive && processes.len() == 1 + WORKERS && site.workers().len() == WORKERS
    });
    result.map_err(|error| format!("{error}: {processes:?}"))
}

/// Requests `/status.json` on a new connection. The ledger counts the request and the connection.
fn ask(target: &Target) -> Result<Value, String> {
    let asked = || {
        let mut wire = Wire::tcp(target.tcp)?;
        target.ledger.connections.add(1);
        wire.send(b"GET /status.json HTTP/1.1\r\nHost: soak\r\nConnection: close\r\n\r\n")?;
        wire.head()?;
        target.ledger.requests.add(1);
        wire.rest()
    };
    let body = asked().map_err(|error| format!("/status.json: {error}"))?;
    serde_json::from_slice(&body).map_err(|error| format!("/status.json: {error}"))
}

/// The descriptors of a process. Files that the server keeps open for later requests are left out.
/// The server's log is left out too, because a process opens it again when it writes to it.
fn descriptors(site: &Site, pid: u32) -> Descriptors {
    let mut kinds = Descriptors::new();
    let root = site.directory.file("root").join("");
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    let entries = entries.into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let log = fs::read_link(format!("/proc/{pid}/fd/2")).unwrap_or_default();
    for link in links.filter(|link| *link != log) {
        if !link.starts_with(&root) || link.as_os_str().len() < root.as_os_str().len() {
            let link = link.to_string_lossy();
            let kind = link.split_once(":[").map_or(&*link, |(kind, _)| kind);
            *kinds.entry(kind.to_owned()).or_default() += 1;
        }
    }
    kinds
}

fn has_open(pid: u32, path: &Path) -> bool {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut entries = entries.into_iter().flatten().flatten();
    entries.any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link == path))
}

/// Anonymous memory of a process in KiB. Pages of files and pages shared with other processes do
/// not count.
fn anonymous_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// The number of lines. Fails if one of them is not whole.
fn whole_lines(path: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let is_whole = |line: &str| {
        let starts = line.starts_with("127.0.0.1 - - [") || line.starts_with("unix: - - [");
        starts && line.contains(" HTTP/1.1\" ") && line.ends_with(|c: char| c.is_ascii_digit())
    };
    match text.lines().find(|line| !is_whole(line)) {
        Some(line) => Err(format!("a line of the access log: {line:?}")),
        None if text.is_empty() || text.ends_with('\n') => Ok(text.lines().count() as u64),
        None => Err("a line of the access log without its end".to_owned()),
    }
}

fn check_names<'a>(site: &Site, expected: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let (names, expected) = (site.names(), expected.map(str::to_owned));
    let is_empty = |name: &str| {
        let entries = fs::read_dir(site.directory.file(name));
        entries.is_ok_and(|mut entries| entries.next().is_none())
    };
    match names == expected.collect::<HashSet<_>>() && is_empty("cwd") && is_empty("tmp") {
        true => Ok(()),
        false => Err(format!("files are left, or are missing: {names:?}")),
    }
}

pub(super) fn check_growth(memory: &[[u64; 2]]) -> Result<[u64; 2], String> {
    let quarter = memory.len().div_ceil(4);
    let most =
        |checks: &[[u64; 2]], of: usize| checks.iter().map(|sample| sample[of]).max().unwrap_or(0);
    let (first, last) = (&memory[..quarter], &memory[memory.len() - quarter..]);
    for (of, name) in ["the master", "a worker"].iter().enumerate() {
        let (before, after) = (most(first, of), most(last, of));
        if after.cmp(&allowed(before)) == Ordering::Greater {
            return Err(format!("{name} has grown from {before} to {after} KiB"));
        }
    }
    Ok([most(memory, 0), most(memory, 1)])
}

fn allowed(before: u64) -> u64 {
    before + before / 4 + 4096
}
