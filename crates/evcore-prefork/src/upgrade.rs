//! Starts a new binary, which takes over the listeners of the old one. They stay open all the time.
//!
//! The new binary finds the numbers of the descriptors in an environment variable, as in nginx.

#![allow(
    unsafe_code,
    reason = "code between fork and exec, and descriptors known by their numbers"
)]

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, io,
    num::NonZeroU32,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    process::{getpid, getppid},
};

use crate::{
    activation,
    error::{Error, Result},
    mailboxes::Table,
    passed_fds::{self, INHERITED},
    signals,
    stop::Stop,
};

/// The environment variable that lists the mailboxes a new binary inherits, with two descriptors
/// for each.
const MAILBOXES: &str = "EVCORE_MAILBOXES";

/// The environment variable that holds the process id of the master that has started this binary.
const PARENT: &str = "EVCORE_PARENT_BINARY";

/// True once [`inherited`] has taken the descriptors, or has refused them.
static INHERITED_TAKEN: AtomicBool = AtomicBool::new(false);

/// The progress of an upgrade, as the hook [`on_upgrade`](crate::Supervisor::on_upgrade) gets it.
///
/// ```
/// use evcore_prefork::{Supervisor, Upgrade};
///
/// let supervisor = Supervisor::new(4).on_upgrade(|upgrade| match upgrade {
///     Upgrade::Starting => { /* rename the pid file */ }
///     Upgrade::Failed(_) | Upgrade::Ended(_) => { /* rename it back */ }
///     _ => eprintln!("{upgrade}"),
/// });
/// # drop(supervisor);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Upgrade {
    /// No new binary is started, because an upgrade is under way (as in nginx): the new binary
    /// still runs, or the [binary that started this one](parent_binary_alive) does.
    Refused,
    /// No new binary is started, because the workers are [threads](crate::Supervisor::run_threads).
    Unsupported,
    /// The new binary is about to be started. Now rename a pid file, as nginx does to `.oldbin`.
    Starting,
    /// The new binary runs under this process id. This master keeps running until it is stopped.
    Started(NonZeroU32),
    /// The new binary could not be started, or a fast stop came before.
    Failed(io::Error),
    /// The new binary has ended. If the workers of this master were stopped by WINCH, new ones are
    /// started.
    Ended(ExitStatus),
}

/// Prints, for example, `the new binary is process 4711`, for a log.
impl fmt::Display for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("no new binary: an upgrade is still under way"),
            Self::Unsupported => f.write_str("no new binary: the workers are threads"),
            Self::Starting => f.write_str("the new binary is about to be started"),
            Self::Started(pid) => write!(f, "the new binary is process {pid}"),
            Self::Failed(error) => write!(f, "the new binary could not be started: {error}"),
            Self::Ended(status) => write!(f, "the new binary has ended: {status}"),
        }
    }
}

/// Takes the descriptors that this process inherits from an older binary, in the order in which the
/// older binary [passed them on](crate::Supervisor::inherit). The list is empty if this is not a
/// new binary.
///
/// From now on this process owns them, and `exec` closes them. Call it once, at the start, before
/// other descriptors are opened.
///
/// # Errors
///
/// [`Error::BadInheritance`] if the variable [`INHERITED`] holds anything but numbers of open
/// descriptors from 3 up. A second call returns this error too, if the variable is set.
///
/// ```
/// let mut inherited = evcore_prefork::inherited()?.into_iter();
/// let listener = match inherited.next() {
///     Some(descriptor) => std::net::TcpListener::from(descriptor),
///     None => std::net::TcpListener::bind("127.0.0.1:0")?,
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn inherited() -> Result<Vec<OwnedFd>> {
    take_inherited(INHERITED, &INHERITED_TAKEN)
}

/// Returns whether an older binary has started this one. The program may have removed the variable
/// after it has taken the descriptors.
fn is_new_binary() -> bool {
    env::var_os(INHERITED).is_some() || INHERITED_TAKEN.load(Ordering::Acquire)
}

/// Takes the mailboxes that this process inherits. The list is empty if there are no mailboxes, and
/// after the first call.
pub(crate) fn inherited_mailboxes() -> Result<Vec<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    // A program that starts another one removes only `INHERITED` from the other one's environment.
    // So in a process without `INHERITED`, the numbers in `MAILBOXES` are not for that process.
    if !is_new_binary() || TAKEN.load(Ordering::Acquire) {
        return Ok(Vec::new());
    }
    take_inherited(MAILBOXES, &TAKEN)
}

fn take_inherited(variable: &'static str, taken: &AtomicBool) -> Result<Vec<OwnedFd>> {
    let Some(text) = env::var_os(variable) else {
        return Ok(Vec::new());
    };
    let refuse = |why: &str| Error::BadInheritance {
        variable,
        text: text.to_string_lossy().into_owned(),
        why: why.to_owned(),
    };
    if taken.swap(true, Ordering::AcqRel) {
        return Err(refuse("it was taken before"));
    }
    let numbers = numbers(&text).map_err(|why| refuse(&why))?;
    // SAFETY: each is named once. The process that set the variable has opened them for this one to
    // own, and the variable is taken once.
    let taken = unsafe { passed_fds::take(numbers.into_iter()) };
    taken.map_err(|number| refuse(&format!("descriptor {number} is not open")))
}

/// Returns whether this process is the master of a new binary, and the master that started it still
/// lives.
///
/// That older master may take over again. So when this process ends, it must not remove what both
/// binaries use, such as the file of a Unix socket. In a worker process the result is false. Costs
/// a system call.
///
/// ```
/// assert!(!evcore_prefork::parent_binary_alive(), "a test is not a new binary");
/// ```
#[must_use]
pub fn parent_binary_alive() -> bool {
    // As long as the parent lives, no other process has its id. Afterwards, `getppid` returns
    // another id.
    let parent = getppid().map(|pid| pid.as_raw_nonzero().to_string());
    parent.is_some_and(|parent| env::var_os(PARENT).is_some_and(|id| id == *parent))
}

fn numbers(text: &OsStr) -> std::result::Result<Vec<RawFd>, String> {
    let text = text.to_str().ok_or("it is not text")?;
    let mut numbers = Vec::new();
    for word in text.split(',').filter(|_| !text.is_empty()) {
        let number: RawFd = match word.parse() {
            Ok(number) if number >= 0 => number,
            _ => return Err(format!("{word:?} is not the number of a descriptor")),
        };
        if number < passed_fds::FIRST {
            return Err(format!(
                "descriptors 0, 1 and 2 are standard input, output and error; inherited ones have \
                 numbers from {} up",
                passed_fds::FIRST
            ));
        }
        if numbers.contains(&number) {
            return Err(format!("descriptor {number} is named twice"));
        }
        numbers.push(number);
    }
    Ok(numbers)
}

/// This program, with the arguments of its start. By the time of an upgrade, another file may have
/// replaced the program's file.
#[derive(Debug)]
pub(crate) struct Binary {
    program: PathBuf,
    arguments: Vec<OsString>,
    inherited: Vec<OwnedFd>,
    mailboxes: Option<Arc<Table>>,
    keeps_mailboxes: bool,
    child: Option<Child>,
}

impl Binary {
    /// Call this at the start, because the system may return another path once the program's file
    /// is replaced.
    pub(crate) fn this_one(
        inherited: Vec<OwnedFd>,
        mailboxes: Option<Arc<Table>>,
        keeps_mailboxes: bool,
    ) -> Self {
        let mut arguments = env::args_os();
        let first = arguments.next().unwrap_or_default();
        Self {
            program: env::current_exe().unwrap_or_else(|_| first.into()),
            arguments: arguments.collect(),
            inherited,
            mailboxes,
            keeps_mailboxes,
            child: None,
        }
    }

    pub(crate) fn start(&mut self, report: &mut dyn FnMut(&Upgrade)) {
        if self.child.is_some() || parent_binary_alive() {
            report(&Upgrade::Refused);
            return;
        }
        report(&Upgrade::Starting);
        match self.spawn() {
            Ok(child) => {
                let pid = NonZeroU32::new(child.id()).expect("a process id is not 0");
                self.child = Some(child);
                report(&Upgrade::Started(pid));
            }
            Err(error) => report(&Upgrade::Failed(error)),
        }
    }

    pub(crate) fn has_newer(&self) -> bool {
        self.child.is_some()
    }

    pub(crate) fn keeps_mailboxes(&self) -> bool {
        self.keeps_mailboxes
    }

    /// Reaps the new binary if it has ended, and reports that. Returns whether it has ended.
    pub(crate) fn reap(&mut self, report: &mut dyn FnMut(&Upgrade)) -> bool {
        let ended = self.child.as_mut().map(Child::try_wait);
        let Some(Ok(Some(status))) = ended else {
            return false;
        };
        self.child = None;
        report(&Upgrade::Ended(status));
        true
    }

    /// Closes what a new binary would inherit, because no new binary is started any more.
    pub(crate) fn close(&mut self) {
        self.inherited.clear();
        self.mailboxes = None;
    }

    /// Starts the new binary, unless a fast stop was requested. A TERM or INT for the whole process
    /// group may have come before the child existed.
    fn spawn(&self) -> io::Result<Child> {
        // The signals are blocked, because in the child the handlers of this process would store a
        // request in memory that exec discards. The child inherits the mask, so signals to it stay
        // pending: stop signals until their default effect is restored, and commands until the new
        // binary has handlers.
        signals::block();
        let child = match Stop::from_severity(signals::state().severity()) {
            Some(Stop::Fast) => Err(io::Error::other("this server is stopping")),
            _ => self.command().spawn(),
        };
        signals::unblock();
        child
    }

    /// The command of the new binary. Spawn it with the signals blocked.
    fn command(&self) -> Command {
        let mut numbers: Vec<RawFd> = self.inherited.iter().map(AsRawFd::as_raw_fd).collect();
        let mailboxes = self.mailboxes.iter().flat_map(|table| table.numbers());
        let mailboxes: Vec<RawFd> = mailboxes.collect();
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command.env(INHERITED, list(&numbers));
        match mailboxes.is_empty() {
            true => command.env_remove(MAILBOXES),
            false => command.env(MAILBOXES, list(&mailboxes)),
        };
        numbers.extend(mailboxes);
        // `WATCHDOG_PID` names this process, whose place the new binary takes. If this variable is
        // missing, the others of a service manager's watchdog are for any process of the service.
        command.env_remove("WATCHDOG_PID");
        command.env(PARENT, getpid().as_raw_nonzero().to_string());
        // The first binary decides whether the variables of socket activation are removed. A newer
        // binary has them only if the first one has kept them.
        if !is_new_binary() && !activation::is_for_this_process() {
            for variable in activation::VARIABLES {
                command.env_remove(variable);
            }
        } else if env::var_os(activation::LISTEN_PID).is_some() {
            // The new binary cannot have the id of this process, which lives. It might have the id
            // of the first binary, which may have ended.
            command.env(
                activation::LISTEN_PID,
                getpid().as_raw_nonzero().to_string(),
            );
        }
        let prepare = move || {
            numbers.iter().try_for_each(|&fd| pass_on(fd))?;
            signals::restore_default_stops();
            Ok(())
        };
        // SAFETY: the closure makes system calls that are allowed between fork and exec, and
        // allocates nothing.
        unsafe { command.pre_exec(prepare) };
        command
    }
}

fn list(numbers: &[RawFd]) -> String {
    let words: Vec<String> = numbers.iter().map(RawFd::to_string).collect();
    words.join(",")
}

/// Keeps a descriptor open across exec. It must be called only in the child.
fn pass_on(number: RawFd) -> io::Result<()> {
    // SAFETY: `Binary` holds it open, and this child is a copy of its process.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_setfd(fd.as_fd(), FdFlags::empty())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_numbers_is_parsed_in_order() {
        assert_eq!(numbers(OsStr::new("5,3,70")), Ok(vec![5, 3, 70]));
        assert_eq!(numbers(OsStr::new("")), Ok(vec![]));
    }

    #[test]
    fn a_word_that_is_not_a_number_is_named_in_the_error() {
        for (text, word) in [("5,x", "x"), ("5,", ""), ("-1", "-1"), ("5;6", "5;6")] {
            let refusal = numbers(OsStr::new(text)).unwrap_err();
            assert_eq!(
                refusal,
                format!("{word:?} is not the number of a descriptor")
            );
        }
        let refusal = numbers(OsStr::new("5,2")).unwrap_err();
        assert!(refusal.starts_with("descriptors 0, 1 and 2 are standard input"));
        let refusal = numbers(OsStr::new("5,6,5")).unwrap_err();
        assert_eq!(refusal, "descriptor 5 is named twice");
    }

    #[test]
    fn a_process_that_is_not_a_new_binary_inherits_nothing() {
        assert!(inherited().unwrap().is_empty());
    }
}
