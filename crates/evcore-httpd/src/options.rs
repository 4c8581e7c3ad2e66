//! The command line.

mod help;

use std::{
    ffi::OsString, fmt, ops::RangeInclusive, os::unix::ffi::OsStrExt, path::PathBuf, str::FromStr,
    time::Duration,
};

use evcore::{balancer::Policy, net::Address, poller::BackendKind};
use evcore_serve::{
    ProxyProtocol, ProxyProtocolError,
    prefork::{Affinity, Cpus},
};
use lexopt::{Arg, Parser, ValueExt};

use crate::{
    accept_option::AcceptOption, body::MAX_BODY_BYTES, cpu_masks, log_entry::LogFormat,
    option_error::OptionError,
};

pub use help::HELP;

/// The maximum of `--flight-recorder`: 24 MiB.
const MAX_RECORDS: usize = 1 << 20;

/// The maximum of `--connections`.
const MAX_CONNECTIONS: u32 = 1 << 20;

/// The most workers that a supervisor accepts.
const MAX_WORKERS: usize = 1024;

/// The maximum of `--open-files`.
const MAX_OPEN_FILES: u32 = 1 << 20;

/// The range of `--send-buffer`: from a page, because kernels raise very small ones.
const SEND_BUFFERS: RangeInclusive<u32> = 4096..=1 << 30;

/// The maximum of `--bodies`.
const MAX_BODIES: usize = usize::MAX;

/// The options of the command line.
#[derive(Debug)]
pub enum Command {
    /// Serves with these options.
    Serve(Box<Options>),
    /// Prints [`HELP`].
    Help,
}

/// The options of the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--listen`. If the list is empty, the server adds the default address, unless it is passed
    /// sockets.
    pub listen: Vec<Address>,
    /// True if the server gets a load of its own.
    pub demo: bool,
    /// The number of workers; with 0 this process serves, without a master.
    pub workers: usize,
    /// True if the workers are threads.
    pub threads: bool,
    /// The CPUs of the workers; `None`: no affinity is set.
    pub affinity: Option<Affinity>,
    /// The policy by which the workers share the listeners.
    pub policy: Policy,
    /// True if each worker has its own listeners, and the kernel distributes the connections
    /// (`SO_REUSEPORT`).
    pub own_listeners: bool,
    /// The most connections accepted in one turn.
    pub multi_accept: usize,
    /// The poller; `None` for the default of the system.
    pub poller: Option<BackendKind>,
    /// The timer queue.
    pub timers: Timers,
    /// The interval of clock updates; `None` for an update in every turn.
    pub timer_resolution: Option<Duration>,
    /// The most connections of one worker.
    pub connections: u32,
    /// The time for a request head, between two reads of a body, and for a body to wait for memory.
    pub header_timeout: Duration,
    /// The time that a connection may be idle.
    pub keepalive_timeout: Duration,
    /// The time between two successful writes of a response.
    pub send_timeout: Duration,
    /// The maximum size of the kernel's buffer for the responses of one connection (`SO_SNDBUF`),
    /// in bytes; with `None` the system decides.
    pub send_buffer: Option<u32>,
    /// The time for open connections in a graceful shutdown.
    pub shutdown_timeout: Duration,
    /// True if connections move to the successor of a worker process.
    pub handover: bool,
    /// True if idle connections move to workers that have fewer.
    pub rebalance: bool,
    /// The load balancers that report the addresses of clients.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// The memory of one worker for all unfinished request bodies, in bytes.
    pub bodies: usize,
    /// `-` is standard output; `None`: no access log.
    pub access_log: Option<PathBuf>,
    /// The format of the access log.
    pub access_log_format: LogFormat,
    /// True if only errors and the addresses are logged to standard error.
    pub quiet: bool,
    /// The events that are logged to standard error.
    pub log_level: LogLevel,
    /// The time of a turn beyond which it is logged; with `None`, no turn is logged.
    pub watchdog: Option<Duration>,
    /// The number of records that are kept for the log after something went wrong.
    pub flight_recorder: usize,
    /// The directory of `/files/...`; `None` if no files are served.
    pub root: Option<PathBuf>,
    /// The name of the file that is served for a directory.
    pub index: Option<OsString>,
    /// The most files that a worker keeps open for later requests.
    pub open_files: u32,
    /// True if `/sleep` and `/block` are enabled.
    pub delay_endpoints: bool,
    /// The path of the pid file.
    pub pid_file: Option<PathBuf>,
}

/// Parses the arguments, without the name of the program.
///
/// # Errors
///
/// The first bad option.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, OptionError> {
    let mut parser = Parser::from_args(arguments);
    let mut options = Options::default();
    let mut accept = AcceptOption::LeastLoaded;
    let mut delay = Duration::from_millis(500);
    let (mut processes, mut threads) = (None, None);
    let mut open_files = None;
    while let Some(argument) = parser.next()? {
        let Arg::Long(name) = argument else {
            return Err(argument.unexpected().into());
        };
        let name = name.to_owned();
        match name.as_str() {
            "help" => return Ok(Command::Help),
            "demo" => options.demo = true,
            "listen" => options.listen.push(address(&value(&mut parser)?)?),
            "workers" => processes = Some(workers(&value(&mut parser)?)?),
            "threads" => {
                threads = Some(number(&name, &value(&mut parser)?, 1, MAX_WORKERS)?);
            }
            "cpu-affinity" => options.affinity = Some(affinity(&value(&mut parser)?)?),
            "access-log" => options.access_log = Some(parser.value()?.into()),
            "access-log-format" => {
                options.access_log_format = value(&mut parser)?.parse().map_err(OptionError)?;
            }
            "quiet" => options.quiet = true,
            "log-level" => options.log_level = value(&mut parser)?.parse()?,
            "watchdog" => options.watchdog = Some(milliseconds(&name, &value(&mut parser)?)?),
            "flight-recorder" => {
                options.flight_recorder = number(&name, &value(&mut parser)?, 0, MAX_RECORDS)?;
            }
            "no-delay-endpoints" => options.delay_endpoints = false,
            "pid" => options.pid_file = Some(file(&name, parser.value()?)?),
            "accept" => accept = value(&mut parser)?.parse()?,
            "accept-delay" => delay = milliseconds(&name, &value(&mut parser)?)?,
            "multi-accept" => {
                options.multi_accept = number(&name, &value(&mut parser)?, 1, 65_536)?;
            }
            "timers" => options.timers = value(&mut parser)?.parse()?,
            "timer-resolution" => {
                options.timer_resolution = Some(milliseconds(&name, &value(&mut parser)?)?);
            }
            "poller" => options.poller = poller(&value(&mut parser)?)?,
            "connections" => {
                options.connections = number(&name, &value(&mut parser)?, 1, MAX_CONNECTIONS)?;
            }
            "header-timeout" => options.header_timeout = milliseconds(&name, &value(&mut parser)?)?,
            "keepalive-timeout" => {
                options.keepalive_timeout = milliseconds(&name, &value(&mut parser)?)?;
            }
            "send-timeout" => options.send_timeout = milliseconds(&name, &value(&mut parser)?)?,
            "send-buffer" => {
                let (least, most) = SEND_BUFFERS.into_inner();
                options.send_buffer = Some(number(&name, &value(&mut parser)?, least, most)?);
            }
            "shutdown-timeout" => {
                options.shutdown_timeout = milliseconds(&name, &value(&mut parser)?)?;
            }
            "handover" => options.handover = on_or_off(&name, &value(&mut parser)?)?,
            "rebalance" => options.rebalance = on_or_off(&name, &value(&mut parser)?)?,
            "proxy-protocol" => {
                let senders = value(&mut parser)?.parse();
                options.proxy_protocol = Some(senders.map_err(bad_networks)?);
            }
            "bodies" => {
                options.bodies = number(&name, &value(&mut parser)?, MAX_BODY_BYTES, MAX_BODIES)?;
            }
            "root" => options.root = Some(directory(&name, parser.value()?)?),
            "index" => options.index = Some(component(&name, parser.value()?)?),
            "open-files" => {
                open_files = Some(number(&name, &value(&mut parser)?, 0, MAX_OPEN_FILES)?);
            }
            _ => return Err(Arg::Long(&name).unexpected().into()),
        }
    }
    options.threads = threads.is_some();
    options.workers = match (processes, threads) {
        (Some(_), Some(_)) => {
            let message = "--threads and --workers: only one of them is allowed".to_owned();
            return Err(OptionError(message));
        }
        (one, other) => one.or(other).unwrap_or(options.workers),
    };
    if options.quiet && options.log_level != LogLevel::Error {
        let message = "--quiet and --log-level: only one of them is allowed".to_owned();
        return Err(OptionError(message));
    }
    if options.affinity.is_some() && options.workers == 0 {
        let message = "--cpu-affinity needs workers, and --workers 0 has none; leave it out";
        return Err(OptionError(message.to_owned()));
    }
    if let Some(unix) = options.listen.iter().find(|address| address.is_unix()) {
        options.allow_send_buffer(unix).map_err(OptionError)?;
    }
    for (name, is_there) in [
        ("index", options.index.is_some()),
        ("open-files", open_files.is_some()),
    ] {
        if is_there && options.root.is_none() {
            return Err(OptionError(format!(
                "--{name} is for files, and there are none without --root DIR"
            )));
        }
    }
    options.open_files = open_files.unwrap_or(options.open_files);
    options.policy = accept.policy(delay, options.workers);
    options.own_listeners = matches!(accept, AcceptOption::ReusePort) && options.workers > 1;
    Ok(Command::Serve(Box::new(options)))
}

impl Options {
    /// Returns whether connections move from worker to worker.
    pub(crate) fn moves_connections(&self) -> bool {
        self.handover && self.workers > 0 && !self.threads
    }

    /// Checks whether a listener at this address can have the [send buffer](Self::send_buffer).
    ///
    /// # Errors
    ///
    /// If it is a Unix socket, whose connections do not inherit it.
    pub(crate) fn allow_send_buffer(&self, address: &Address) -> Result<(), String> {
        if self.send_buffer.is_some() && address.is_unix() {
            return Err(format!(
                "--send-buffer is for TCP, and {address} is a Unix socket, whose connections do not \
                 have it; leave out one of them"
            ));
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            demo: false,
            workers: usable_cpus(),
            threads: false,
            affinity: None,
            policy: Policy::Off,
            own_listeners: false,
            multi_accept: 64,
            poller: None,
            timers: Timers::Wheel,
            timer_resolution: None,
            connections: 10_240,
            header_timeout: Duration::from_secs(60),
            keepalive_timeout: Duration::from_secs(65),
            send_timeout: Duration::from_secs(60),
            send_buffer: None,
            shutdown_timeout: Duration::from_secs(30),
            proxy_protocol: None,
            handover: cfg!(any(target_os = "linux", target_os = "android")),
            rebalance: true,
            bodies: 64 * 1024 * 1024,
            access_log: None,
            access_log_format: LogFormat::Common,
            quiet: false,
            log_level: LogLevel::Error,
            watchdog: None,
            flight_recorder: 0,
            root: None,
            index: None,
            open_files: 1000,
            delay_endpoints: true,
            pid_file: None,
        }
    }
}

/// The timer queue. Each re-arms lazily.
#[derive(Clone, Copy, Debug)]
pub enum Timers {
    /// A hierarchical timing wheel.
    Wheel,
    /// A red-black tree.
    Tree,
    /// A four-ary heap.
    Heap,
}

impl FromStr for Timers {
    type Err = OptionError;

    fn from_str(value: &str) -> Result<Self, OptionError> {
        match value {
            "wheel" => Ok(Self::Wheel),
            "tree" => Ok(Self::Tree),
            "heap" => Ok(Self::Heap),
            _ => Err(OptionError(format!(
                "--timers {value:?}: expected wheel, tree or heap"
            ))),
        }
    }
}

/// A value of `--log-level`. Each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Announcements of the server, and errors.
    Error,
    /// Connections, plans and stale events of the event loop.
    Debug,
    /// Turns, steps, timers and posts of the event loop.
    Trace,
}

impl FromStr for LogLevel {
    type Err = OptionError;

    fn from_str(value: &str) -> Result<Self, OptionError> {
        let level = match value {
            "error" => return Ok(Self::Error),
            "debug" => Self::Debug,
            "trace" => Self::Trace,
            _ => {
                return Err(OptionError(format!(
                    "--log-level {value:?}: expected error, debug or trace"
                )));
            }
        };
        if cfg!(feature = "tracing") {
            Ok(level)
        } else {
            Err(OptionError(format!(
                "--log-level {value}: this httpd is built without `--features tracing`; expected \
                 error"
            )))
        }
    }
}

fn value(parser: &mut Parser) -> Result<String, OptionError> {
    Ok(parser.value()?.string()?)
}

fn file(name: &str, value: OsString) -> Result<PathBuf, OptionError> {
    if value.is_empty() {
        return Err(OptionError(format!(
            "--{name} \"\": expected the path of a file"
        )));
    }
    Ok(value.into())
}

fn directory(name: &str, value: OsString) -> Result<PathBuf, OptionError> {
    if value.is_empty() {
        return Err(OptionError(format!(
            "--{name} \"\": expected the path of a directory"
        )));
    }
    Ok(value.into())
}

/// The name of a file in a directory.
fn component(name: &str, value: OsString) -> Result<OsString, OptionError> {
    let bytes = value.as_bytes();
    if matches!(bytes, b"" | b"." | b"..") || bytes.contains(&b'/') {
        return Err(OptionError(format!(
            "--{name} {value:?}: expected the name of a file, without a directory"
        )));
    }
    Ok(value)
}

fn address(value: &str) -> Result<Address, OptionError> {
    value
        .parse()
        .map_err(|error| OptionError(format!("--listen: {error}")))
}

fn workers(value: &str) -> Result<usize, OptionError> {
    match value {
        "auto" => Ok(usable_cpus()),
        _ => number("workers", value, 0, MAX_WORKERS)
            .map_err(|error| OptionError(format!("{error}, or auto"))),
    }
}

fn affinity(value: &str) -> Result<Affinity, OptionError> {
    let allowed = Cpus::allowed();
    let allowed = allowed.map_err(|error| OptionError(format!("--cpu-affinity: {error}")))?;
    cpu_masks::parse(value, &allowed)
        .map_err(|error| OptionError(format!("--cpu-affinity: {error}")))
}

fn usable_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn poller(value: &str) -> Result<Option<BackendKind>, OptionError> {
    match value {
        "auto" => Ok(None),
        _ => match value.parse() {
            Ok(kind) => Ok(Some(kind)),
            Err(error) => Err(OptionError(format!("--poller: {error}, or auto"))),
        },
    }
}

fn bad_networks(error: ProxyProtocolError) -> OptionError {
    OptionError(format!("--proxy-protocol: {error}"))
}

fn on_or_off(name: &str, value: &str) -> Result<bool, OptionError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(OptionError(format!("--{name} is on or off, not {value:?}"))),
    }
}

fn milliseconds(name: &str, value: &str) -> Result<Duration, OptionError> {
    // The maximum is a day, because a larger number is probably in another unit.
    number(name, value, 1, 86_400_000).map(Duration::from_millis)
}

fn number<N>(name: &str, value: &str, least: N, most: N) -> Result<N, OptionError>
where
    N: FromStr + PartialOrd + fmt::Display,
{
    match value.parse() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(OptionError(format!(
            "--{name} {value:?}: expected a number from {least} to {most}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_levels_that_this_build_cannot_log_are_refused() {
        assert_eq!("error".parse::<LogLevel>().unwrap(), LogLevel::Error);
        for level in ["debug", "trace"] {
            let refused = level.parse::<LogLevel>().err();
            let refused = refused.map(|OptionError(message)| message);
            assert_eq!(refused.is_none(), cfg!(feature = "tracing"), "{refused:?}");
            assert!(refused.is_none_or(|message| message.contains("--features tracing")));
        }
    }
}
