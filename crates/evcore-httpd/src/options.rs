//! The command line, as a table: a field of [`Options`] is an option.
//!
//! The documentation of a field is the option's text in `--help`. The attributes of the field
//! define the option's name, value, default and parser. A test compares `docs/httpd.md` with this
//! table.

mod values;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser,
    builder::{OsStringValueParser, TypedValueParser},
    parser::ValueSource,
};
use evcore::{balancer::Policy, net::Address, poller::BackendKind};
use evcore_serve::{ProxyProtocol, prefork::Affinity};

use crate::{
    accept_option::AcceptOption, body::MAX_BODY_BYTES, log_entry::LogFormat,
    option_error::OptionError,
};

pub use values::{AutoOr, LogLevel, Timers};

use values::{MAX_WORKERS, affinity, component, milliseconds, number, on_or_off, poller, workers};

/// The default of `--handover`: `on` if this system can move connections (Linux), else `off`.
const HANDOVER: &str = match cfg!(any(target_os = "linux", target_os = "android")) {
    true => "on",
    false => "off",
};

/// The second part of `--help`.
const PATHS_AND_SIGNALS: &str = "\
MS is a time in milliseconds.

Paths: /  /bytes/N  /echo (POST)  /sleep/MS  /block/MS  /worker  /status
/status.json  /history.json  /metrics  /dashboard  /dashboard.js
/dashboard.css
/files/NAME (with --root)

Signals, to the master:
  TERM, INT  stop now
  QUIT       finish open requests, then stop; idle connections are closed; one that
             received a response within the last second is closed a second later
  HUP        start new workers, which take over the connections of the old ones;
             those then finish open requests and stop
  USR1       reopen the access log
  USR2       start a new binary with the same listeners (not with --threads)
  WINCH      send QUIT to the workers; HUP starts new ones
With --workers 0, only TERM, INT, QUIT and USR1 are handled.";

/// An HTTP server on evcore.
#[derive(Clone, Debug, Parser)]
#[command(name = "httpd", args_override_self = true, term_width = 100)]
#[command(disable_help_flag = true, after_help = PATHS_AND_SIGNALS)]
#[command(version, disable_version_flag = true)]
#[command(override_usage = "httpd [OPTIONS]")]
pub struct Options {
    /// `ADDRESS:PORT`, `[IPV6]:PORT` or `unix:PATH`; may be repeated. Sockets that a service
    /// manager passes (`LISTEN_FDS`) are added. The default is `127.0.0.1:8080` if none is passed.
    #[arg(long, value_name = "ADDR")]
    pub listen: Vec<Address>,

    /// Number of worker processes; `auto`: one for each CPU that the process may use; `0`: serve in
    /// this process, without a master.
    #[arg(long = "workers", value_name = "N|auto", default_value = "auto", value_parser = workers)]
    pub processes: usize,

    /// Number of worker threads, instead of processes.
    #[arg(long, value_name = "N", value_parser = number(1..=MAX_WORKERS))]
    #[arg(conflicts_with = "processes")]
    pub threads: Option<usize>,

    /// CPUs of the workers: `auto`, `auto MASK`, or a mask for each worker; not with `--workers 0`.
    #[arg(long = "cpu-affinity", value_name = "LIST", value_parser = affinity)]
    pub affinity: Option<Affinity>,

    /// Policy by which workers share the listeners. Only epoll has exclusive wake-ups: on other
    /// pollers, `exclusive` is the same as `off`, and `least-loaded` uses the accept lock. With
    /// `reuseport` each worker has its own listeners, and Unix sockets need a single worker.
    #[arg(long, value_name = "POLICY", default_value = "least-loaded")]
    pub accept: AcceptOption,

    /// Time after which a worker that does not listen tries again (nginx:
    /// `accept_mutex_delay`).
    #[arg(long, value_name = "MS", default_value = "500", value_parser = milliseconds)]
    pub accept_delay: Duration,

    /// The most connections accepted in one turn of the event loop.
    #[arg(long, value_name = "N", default_value = "64", value_parser = number(1..=65_536_usize))]
    pub multi_accept: usize,

    /// `auto`, `epoll`, `kqueue`, `port`, `devpoll`, `poll` or `select`, if the system has it;
    /// `io_uring`, if Linux (6.1 or later) permits it; with it, a connection wakes all workers
    /// under `--accept off` and `exclusive`; `epoll-masked`, to test the server's edge-triggered
    /// reads.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = poller)]
    pub poller: AutoOr<BackendKind>,

    /// Timer queue.
    #[arg(long, value_name = "NAME", default_value = "wheel")]
    pub timers: Timers,

    /// Interval of clock updates. Without it, each turn updates the clock.
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timer_resolution: Option<Duration>,

    /// The most connections of one worker. While no more than a sixteenth of them is free, each
    /// turn that has new clients closes idle connections, the oldest first.
    #[arg(long, value_name = "N", default_value = "10240", value_parser = number(1..=1_u32 << 20))]
    pub connections: u32,

    /// Time for a request head, between two reads of a body, and for a body to wait for memory.
    #[arg(long, value_name = "MS", default_value = "60000", value_parser = milliseconds)]
    pub header_timeout: Duration,

    /// Time that a connection may be idle.
    #[arg(long, value_name = "MS", default_value = "65000", value_parser = milliseconds)]
    pub keepalive_timeout: Duration,

    /// Time between two successful writes of a response.
    #[arg(long, value_name = "MS", default_value = "60000", value_parser = milliseconds)]
    pub send_timeout: Duration,

    // The minimum is a page, because kernels raise very small sizes.
    /// Bytes of the responses of one connection that the kernel may hold (`SO_SNDBUF`); it doubles
    /// the number. Not for Unix sockets.
    #[arg(long, value_name = "BYTES", value_parser = number(4096..=1_u32 << 30))]
    pub send_buffer: Option<u32>,

    /// Time for open connections after QUIT.
    #[arg(long, value_name = "MS", default_value = "30000", value_parser = milliseconds)]
    pub shutdown_timeout: Duration,

    /// Move open connections to the new workers after HUP, and after USR2 and QUIT; not with
    /// `--workers 0` or `--threads`. It needs Linux.
    #[arg(long, value_name = "on|off", default_value = HANDOVER, value_parser = on_or_off())]
    #[arg(action = ArgAction::Set, hide_possible_values = true)]
    pub handover: bool,

    /// Move the idle connections of a worker that dies, also by `kill -9`, to its successor. It
    /// needs Linux and `--handover on`.
    #[arg(long, value_name = "on|off", default_value = "off", value_parser = on_or_off())]
    #[arg(action = ArgAction::Set, hide_possible_values = true)]
    pub fd_store: bool,

    /// Kill a worker process whose turn of the event loop lasts longer; at least 8.
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub hang_timeout: Option<Duration>,

    /// Move idle connections from workers that have more to those that have fewer; only where
    /// connections can move, and not with `--accept off` or `reuseport`.
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = on_or_off())]
    #[arg(action = ArgAction::Set, hide_possible_values = true)]
    pub rebalance: bool,

    /// Load balancers whose connections begin with a header of the PROXY protocol (1 or 2), which
    /// has the client's address: networks such as `10.0.0.0/8`, addresses, and `unix:` for Unix
    /// sockets, separated by commas. Connections from other addresses are served without it.
    #[arg(long, value_name = "NETWORKS")]
    pub proxy_protocol: Option<ProxyProtocol>,

    /// Memory of one worker for all unfinished request bodies; more bodies wait. It also holds
    /// long pages that clients do not read; a client whose page finds no room is disconnected.
    #[arg(long, value_name = "BYTES", default_value = "67108864")]
    #[arg(value_parser = number(MAX_BODY_BYTES..=usize::MAX))]
    pub bodies: usize,

    /// Write a line for each response; `-`: to standard output. Lines that a full pipe or disk
    /// refuses are lost and counted.
    #[arg(long, value_name = "PATH")]
    pub access_log: Option<PathBuf>,

    /// The common log format, or an object in JSON.
    #[arg(long, value_name = "F", default_value = "common")]
    pub access_log_format: LogFormat,

    /// Lines on standard error: `error`; `debug`: also connections and plans of the event loop;
    /// `trace`: also its turns, steps and timers. `debug` and `trace` need a build with `--features
    /// tracing`.
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "error",
        hide_possible_values = true
    )]
    pub log_level: LogLevel,

    /// Log only errors, and the addresses that it listens on; not with `--log-level debug` or
    /// `trace`.
    #[arg(long)]
    pub quiet: bool,

    /// Log a turn of the event loop that takes longer; at most one a second.
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub watchdog: Option<Duration>,

    /// Keep the last N records of what the event loop does, and log them after a panic of the
    /// worker, and with each turn that `--watchdog` logs.
    #[arg(long, value_name = "N", default_value = "0", value_parser = number(0..=1_usize << 20))]
    pub flight_recorder: usize,

    /// Record what the workers get from outside, for `evcore-replay`: in `FILE.N` of worker N, and
    /// in FILE with `--workers 0`. The recording has what clients sent, and only its owner may read
    /// it. Connections do not move.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["threads", "proxy_protocol"])]
    pub record: Option<PathBuf>,

    /// Size of the recording of a worker. It begins anew when half of it is used and no connection
    /// is open; needs `--record`.
    #[arg(long, value_name = "BYTES", default_value = "67108864")]
    #[arg(value_parser = number(65_536..=1_usize << 40))]
    pub record_size: usize,

    /// Blank the values of `Authorization`, `Cookie` and `Proxy-Authorization` in a recording;
    /// needs `--record`.
    #[arg(long, requires = "record")]
    pub record_blank: bool,

    /// Write the process id of the master; the file appears when the server is ready.
    #[arg(long = "pid", value_name = "FILE")]
    pub pid_file: Option<PathBuf>,

    /// Serve the files in DIR at `/files/`; relative symbolic links are followed within DIR.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// The file in a directory that is served for the directory; needs `--root`.
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(component))]
    pub index: Option<OsString>,

    /// The most files that one worker keeps open for later requests; after a second, a request
    /// opens the name again; needs `--root`.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = number(0..=1_u32 << 20))]
    pub open_files: u32,

    /// Disable `/sleep` and `/block`.
    #[arg(long = "no-delay-endpoints", action = ArgAction::SetFalse)]
    pub delay_endpoints: bool,

    /// Put a load on the server that shows the dashboard at work: every few seconds a worker is
    /// killed, clients leave, or all workers are replaced.
    #[arg(long)]
    pub demo: bool,
}

/// The task of a command line.
#[derive(Debug)]
pub enum Command {
    /// Serves with these options.
    Serve(Box<Options>),
    /// Prints this text.
    Print(String),
}

/// Parses the arguments, without the name of the program.
///
/// # Errors
///
/// The first bad option.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, OptionError> {
    let program = std::iter::once("httpd".into());
    let matches = match command().try_get_matches_from(program.chain(arguments)) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return Ok(Command::Print(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let options = Options::from_arg_matches(&matches)?;
    options.check(&matches).map_err(OptionError)?;
    Ok(Command::Serve(Box::new(options)))
}

/// Returns the table of options.
pub fn table() -> clap::Command {
    let help = Arg::new("help").short('h').long("help");
    let help = help.action(ArgAction::HelpShort).help("Print this text");
    let version = Arg::new("version").short('V').long("version");
    let version = version.action(ArgAction::Version).help("Print the version");
    Options::command().args([help, version])
}

/// Returns the table for a terminal, without the backquotes that `docs/httpd.md` has.
fn command() -> clap::Command {
    table().mut_args(|arg| {
        let text = arg.get_help().map(|help| help.to_string().replace('`', ""));
        // A value may begin with a hyphen, such as a number that is out of range.
        let takes_value = arg.get_action().takes_values();
        arg.help(text.unwrap_or_default())
            .allow_hyphen_values(takes_value)
    })
}

impl Options {
    /// Returns the number of workers; with 0 this process serves, without a master.
    pub fn workers(&self) -> usize {
        self.threads.unwrap_or(self.processes)
    }

    /// Returns whether the workers are threads.
    pub(crate) fn threads(&self) -> bool {
        self.threads.is_some()
    }

    /// Returns the policy by which the workers share the listeners.
    pub(crate) fn policy(&self) -> Policy {
        self.accept.policy(self.accept_delay, self.workers())
    }

    /// Returns whether each worker has its own listeners, and the kernel distributes the
    /// connections (`SO_REUSEPORT`).
    pub(crate) fn own_listeners(&self) -> bool {
        self.accept == AcceptOption::ReusePort && self.workers() > 1
    }

    /// Returns whether connections move from worker to worker.
    pub(crate) fn moves_connections(&self) -> bool {
        self.handover && self.workers() > 0 && !self.threads() && self.record.is_none()
    }

    /// Checks whether a listener at this address can have the [send buffer](Self::send_buffer).
    ///
    /// # Errors
    ///
    /// If that option is given and the address is that of a Unix socket, because connections of
    /// Unix sockets do not inherit the listener's buffer size.
    pub(crate) fn allow_send_buffer(&self, address: &Address) -> Result<(), String> {
        if self.send_buffer.is_some() && address.is_unix() {
            return Err(format!(
                "--send-buffer is for TCP, and {address} is a Unix socket, whose connections do not \
                 have it; leave out one of them"
            ));
        }
        Ok(())
    }

    /// Checks the options that exclude or need each other.
    fn check(&self, matches: &ArgMatches) -> Result<(), String> {
        self.log_level.check()?;
        if self.quiet && self.log_level != LogLevel::Error {
            return Err("--quiet and --log-level: only one of them is allowed".to_owned());
        }
        if self.affinity.is_some() && self.workers() == 0 {
            let message = "--cpu-affinity needs workers, and --workers 0 has none; leave it out";
            return Err(message.to_owned());
        }
        if self.fd_store && !self.moves_connections() {
            let message =
                "--fd-store on needs worker processes whose connections move (--handover on)";
            return Err(message.to_owned());
        }
        if self.hang_timeout.is_some() && (self.threads() || self.workers() == 0) {
            let message =
                "--hang-timeout is for worker processes, because threads cannot be killed";
            return Err(message.to_owned());
        }
        if self.hang_timeout.is_some() && self.record.is_some() {
            let message = "--hang-timeout does not watch recorded workers: leave out --record";
            return Err(message.to_owned());
        }
        if self.demo && (self.threads() || self.workers() == 0) {
            let message = "--demo kills workers: it needs --workers, and not 0 of them";
            return Err(message.to_owned());
        }
        if let Some(unix) = self.listen.iter().find(|address| address.is_unix()) {
            self.allow_send_buffer(unix)?;
        }
        let is_given = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
        if self.record.is_none() && is_given("record_size") {
            let message =
                "--record-size is for a recording, and there is none without --record FILE";
            return Err(message.to_owned());
        }
        if self.access_log.is_none() && is_given("access_log_format") {
            let message =
                "--access-log-format is for a log, and there is none without --access-log PATH";
            return Err(message.to_owned());
        }
        for (id, name) in [("index", "--index"), ("open_files", "--open-files")] {
            if is_given(id) && self.root.is_none() {
                return Err(format!(
                    "{name} is for files, and there are none without --root DIR"
                ));
            }
        }
        Ok(())
    }
}

/// The options of an empty command line.
impl Default for Options {
    fn default() -> Self {
        Self::parse_from(["httpd"])
    }
}
