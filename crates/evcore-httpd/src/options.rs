//! What the command line may say.

use std::{ffi::OsString, fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use evcore::{accept::Address, balancer::Policy, poller::BackendKind};
use evcore_prefork::{Affinity, Cpus};
use lexopt::{Arg, Parser, ValueExt};

use crate::{cpu_masks, request::MOST_BODY_BYTES};

pub const HELP: &str = "\
An HTTP server on every part of evcore.

Usage: httpd [OPTIONS]

  --listen ADDR            address and port, [v6]:port, or unix:PATH;
                           may be repeated                     [127.0.0.1:8080]
  --workers N | auto       worker processes; 0: serve in this process    [auto]
  --threads N              workers as threads of one process instead
  --cpu-affinity LIST      auto, auto MASK, or masks, one a worker; not with
                           --workers 0                                   [none]
  --accept off | mutex | exclusive | reuseport | least-loaded
                           how workers share the listeners        [least-loaded]
  --accept-delay MS        how long a worker that does not listen waits before
                           it tries again (nginx: accept_mutex_delay)    [500]
  --multi-accept N         accepts a turn at most                        [64]
  --poller NAME            auto, or one that this system has: epoll, kqueue,
                           port, poll, select                            [auto]
  --timers NAME            wheel, tree or heap                           [wheel]
  --timer-resolution MS    update the clock this often, not every turn   [every turn]
  --connections N          per worker                                    [10240]
  --header-timeout MS      for a request's header, between reads of a body, or
                           for a body that waits for --bodies         [60000]
  --keepalive-timeout MS   for an idle connection                        [65000]
  --send-timeout MS        between two writes that the client takes      [60000]
  --shutdown-timeout MS    for what is under way at QUIT                 [30000]
  --bodies BYTES           what the bodies of requests may hold of a worker's
                           memory, all of them together: others wait  [67108864]
  --access-log PATH        a line for each answer, in the common log format;
                           -: to standard output; what a full pipe or disk
                           does not take is lost, and counted            [none]
  --pid FILE               to hold the master's process id               [none]
  --no-delay-endpoints     without /sleep and /block
  --help

Paths: /  /bytes/N  /echo (POST)  /sleep/MS  /block/MS  /worker  /status
/status.json
Signals, to the master: TERM, INT stop now; QUIT finishes what is under way, and
closes who is idle, after a second if it was answered within the last second;
HUP: new workers, then QUIT to the old; USR1 opens the access log again;
USR2 (not with --threads): a new binary beside this one, with the same
listeners; WINCH: QUIT to the workers, until HUP.
--workers 0 has no master, and heeds TERM, INT, QUIT and USR1 alone.
";

/// Named by the server's contract, and not there yet: refused by name, never ignored.
const NOT_BUILT_YET: &[&str] = &["root"];

/// The most of anything that is counted in connections: a table of that many is no mistake yet.
const MOST_CONNECTIONS: u32 = 1 << 20;

/// The most workers that a supervisor takes.
const MOST_WORKERS: usize = 1024;

/// The most for `--bodies`: what can be counted.
const MOST_BODIES: usize = usize::MAX;

/// What to do.
#[derive(Debug)]
pub enum Asked {
    Serve(Box<Options>),
    Help,
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    pub listen: Vec<Address>,
    /// 0: no master, serve in this process.
    pub workers: usize,
    /// Workers are threads.
    pub threads: bool,
    pub affinity: Option<Affinity>,
    pub policy: Policy,
    /// Each worker has listeners of its own, among which the kernel spreads the clients
    /// (`SO_REUSEPORT`).
    pub own_listeners: bool,
    pub multi_accept: usize,
    /// `None`: the best that there is.
    pub poller: Option<BackendKind>,
    pub timers: Timers,
    /// `None`: the clock is updated every turn.
    pub timer_resolution: Option<Duration>,
    /// Per worker.
    pub connections: u32,
    pub header_timeout: Duration,
    pub keepalive_timeout: Duration,
    pub send_timeout: Duration,
    pub shutdown_timeout: Duration,
    /// Bytes, per worker.
    pub bodies: usize,
    /// `-`: standard output.
    pub access_log: Option<PathBuf>,
    /// Whether there are `/sleep` and `/block`.
    pub delay_endpoints: bool,
    pub pid_file: Option<PathBuf>,
}

/// One line that names the option and says what is allowed.
#[derive(Debug)]
pub struct BadOption(String);

impl fmt::Display for BadOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<lexopt::Error> for BadOption {
    fn from(error: lexopt::Error) -> Self {
        Self(format!("{error}; --help lists the options"))
    }
}

/// The options among `arguments`, or the first that is wrong.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Asked, BadOption> {
    let mut parser = Parser::from_args(arguments);
    let mut options = Options::default();
    let mut sharing = Sharing::LeastLoaded;
    let mut delay = Duration::from_millis(500);
    let (mut processes, mut threads) = (None, None);
    while let Some(argument) = parser.next()? {
        let Arg::Long(name) = argument else {
            return Err(argument.unexpected().into());
        };
        let name = name.to_owned();
        match name.as_str() {
            "help" => return Ok(Asked::Help),
            "listen" => options.listen.push(address(&value(&mut parser)?)?),
            "workers" => processes = Some(workers(&value(&mut parser)?)?),
            "threads" => {
                threads = Some(number(&name, &value(&mut parser)?, 1, MOST_WORKERS)?);
            }
            "cpu-affinity" => options.affinity = Some(affinity(&value(&mut parser)?)?),
            "access-log" => options.access_log = Some(parser.value()?.into()),
            "no-delay-endpoints" => options.delay_endpoints = false,
            "pid" => options.pid_file = Some(file(&name, parser.value()?)?),
            "accept" => sharing = value(&mut parser)?.parse()?,
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
                options.connections = number(&name, &value(&mut parser)?, 1, MOST_CONNECTIONS)?;
            }
            "header-timeout" => options.header_timeout = milliseconds(&name, &value(&mut parser)?)?,
            "keepalive-timeout" => {
                options.keepalive_timeout = milliseconds(&name, &value(&mut parser)?)?;
            }
            "send-timeout" => options.send_timeout = milliseconds(&name, &value(&mut parser)?)?,
            "shutdown-timeout" => {
                options.shutdown_timeout = milliseconds(&name, &value(&mut parser)?)?;
            }
            "bodies" => {
                options.bodies = number(&name, &value(&mut parser)?, MOST_BODY_BYTES, MOST_BODIES)?;
            }
            other if NOT_BUILT_YET.contains(&other) => {
                return Err(BadOption(format!(
                    "--{other} is not built yet; leave it out"
                )));
            }
            _ => return Err(Arg::Long(&name).unexpected().into()),
        }
    }
    if options.listen.is_empty() {
        options
            .listen
            .push(SocketAddr::from(([127, 0, 0, 1], 8080)).into());
    }
    options.threads = threads.is_some();
    options.workers = match (processes, threads) {
        (Some(_), Some(_)) => {
            let message = "--threads and --workers: it is one of the two".to_owned();
            return Err(BadOption(message));
        }
        (one, other) => one.or(other).unwrap_or(options.workers),
    };
    if options.affinity.is_some() && options.workers == 0 {
        let message = "--cpu-affinity is for workers, and --workers 0 has none; leave it out";
        return Err(BadOption(message.to_owned()));
    }
    options.policy = sharing.policy(delay, options.workers);
    options.own_listeners = matches!(sharing, Sharing::ReusePort) && options.workers > 1;
    Ok(Asked::Serve(Box::new(options)))
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
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
            shutdown_timeout: Duration::from_secs(30),
            bodies: 64 * 1024 * 1024,
            access_log: None,
            delay_endpoints: true,
            pid_file: None,
        }
    }
}

/// What `--accept` may say.
#[derive(Clone, Copy)]
enum Sharing {
    Off,
    Mutex,
    Exclusive,
    ReusePort,
    LeastLoaded,
}

impl Sharing {
    /// A single worker has nobody to share with, and so needs no lock (nginx).
    fn policy(self, delay: Duration, workers: usize) -> Policy {
        let policy = match self {
            _ if workers <= 1 => Policy::Off,
            // With `reuseport` no listener is shared.
            Self::Off | Self::ReusePort => Policy::Off,
            Self::Mutex => Policy::mutex(),
            Self::Exclusive => Policy::exclusive(),
            Self::LeastLoaded => Policy::least_loaded(),
        };
        policy.with_delay(delay)
    }
}

impl FromStr for Sharing {
    type Err = BadOption;

    fn from_str(value: &str) -> Result<Self, BadOption> {
        match value {
            "off" => Ok(Self::Off),
            "mutex" => Ok(Self::Mutex),
            "exclusive" => Ok(Self::Exclusive),
            "reuseport" => Ok(Self::ReusePort),
            "least-loaded" => Ok(Self::LeastLoaded),
            _ => Err(BadOption(format!(
                "--accept {value:?}: it is off, mutex, exclusive, reuseport or least-loaded"
            ))),
        }
    }
}

/// Which timer queue: each re-arms lazily.
#[derive(Clone, Copy, Debug)]
pub enum Timers {
    Wheel,
    Tree,
    Heap,
}

impl FromStr for Timers {
    type Err = BadOption;

    fn from_str(value: &str) -> Result<Self, BadOption> {
        match value {
            "wheel" => Ok(Self::Wheel),
            "tree" => Ok(Self::Tree),
            "heap" => Ok(Self::Heap),
            _ => Err(BadOption(format!(
                "--timers {value:?}: it is wheel, tree or heap"
            ))),
        }
    }
}

fn value(parser: &mut Parser) -> Result<String, BadOption> {
    Ok(parser.value()?.string()?)
}

fn file(name: &str, value: OsString) -> Result<PathBuf, BadOption> {
    if value.is_empty() {
        return Err(BadOption(format!(
            "--{name} \"\": it is the path of a file"
        )));
    }
    Ok(value.into())
}

fn address(value: &str) -> Result<Address, BadOption> {
    value
        .parse()
        .map_err(|error| BadOption(format!("--listen: {error}")))
}

fn workers(value: &str) -> Result<usize, BadOption> {
    match value {
        "auto" => Ok(usable_cpus()),
        _ => number("workers", value, 0, MOST_WORKERS)
            .map_err(|error| BadOption(format!("{error}, or auto"))),
    }
}

fn affinity(value: &str) -> Result<Affinity, BadOption> {
    let allowed = Cpus::allowed();
    let allowed = allowed.map_err(|error| BadOption(format!("--cpu-affinity: {error}")))?;
    cpu_masks::parse(value, &allowed).map_err(|error| BadOption(format!("--cpu-affinity: {error}")))
}

fn usable_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn poller(value: &str) -> Result<Option<BackendKind>, BadOption> {
    match value {
        "auto" => Ok(None),
        _ => match value.parse() {
            Ok(kind) => Ok(Some(kind)),
            Err(error) => Err(BadOption(format!("--poller: {error}, or auto"))),
        },
    }
}

fn milliseconds(name: &str, value: &str) -> Result<Duration, BadOption> {
    // A day; whoever wants more has mistaken the unit.
    number(name, value, 1, 86_400_000).map(Duration::from_millis)
}

fn number<N>(name: &str, value: &str, least: N, most: N) -> Result<N, BadOption>
where
    N: FromStr + PartialOrd + fmt::Display,
{
    match value.parse() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(BadOption(format!(
            "--{name} {value:?}: it is a number from {least} to {most}"
        ))),
    }
}
