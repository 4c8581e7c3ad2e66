//! A new binary that takes over the listeners of the old one, without a moment at which nobody
//! listens.
//!
//! The new binary finds the numbers of the descriptors in an environment variable, as nginx's does.

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
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    io::{FdFlags, fcntl_getfd, fcntl_setfd},
    process::{getpid, getppid},
};

use crate::{Error, Result, Stop, signals};

/// The environment variable that tells a new binary what it inherits: `5,6,9`, in the order in
/// which the old one [named them](crate::Supervisor::inherit).
///
/// It stays set: whoever starts other programs leaves it out there, by `Command::env_remove`.
pub const INHERITED: &str = "EVCORE_INHERITED";

/// The environment variable by which a new binary knows the process that started it.
const PREDECESSOR: &str = "EVCORE_PREDECESSOR";

/// The least number that may be inherited. Taking a standard stream would close it, and nobody
/// would see why the program fails.
const FIRST_INHERITED: RawFd = 3;

/// What becomes of a new binary, as [`on_upgrade`](crate::Supervisor::on_upgrade) is told of it.
///
/// ```
/// use evcore_prefork::{Supervisor, Upgrade};
///
/// let supervisor = Supervisor::new(4).on_upgrade(|upgrade| match upgrade {
///     Upgrade::Begins => { /* put the pid file aside */ }
///     Upgrade::Failed(_) | Upgrade::Ended(_) => { /* put it back */ }
///     _ => eprintln!("{upgrade}"),
/// });
/// # drop(supervisor);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Upgrade {
    /// None is started: one upgrade is to be over before the next begins (nginx), and either the
    /// new binary still runs, or this one's own predecessor [still lives](predecessor_lives).
    Refused,
    /// It is about to be started: the time to put a pid file aside, under nginx as `.oldbin`.
    Begins,
    /// It runs, under this process id, beside this master, which goes on until it is told to stop.
    Started(NonZeroU32),
    /// It could not be started, or this master was told to stop at once before it was.
    Failed(io::Error),
    /// It has ended before this master did, which goes on. If it rests, its workers come back.
    Ended(ExitStatus),
}

/// `the new binary is process 4711`, for a log.
impl fmt::Display for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("no new binary: an upgrade is still under way"),
            Self::Begins => f.write_str("the new binary is about to be started"),
            Self::Started(pid) => write!(f, "the new binary is process {pid}"),
            Self::Failed(error) => write!(f, "the new binary could not be started: {error}"),
            Self::Ended(status) => write!(f, "the new binary has ended: {status}"),
        }
    }
}

/// The descriptors that this process inherits from an older one, in the order in which that one
/// named them; none where it was not started as a new binary.
///
/// They are this process's own from now on, and are not passed on by `exec` again. To be asked
/// once, at the start, before other descriptors are opened.
///
/// # Errors
///
/// [`Error::BadInheritance`] if the variable [`INHERITED`] holds anything but numbers of open
/// descriptors from 3 up, or was asked for before.
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
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let Some(text) = env::var_os(INHERITED) else {
        return Ok(Vec::new());
    };
    let refuse = |why: &str| Error::BadInheritance {
        text: text.to_string_lossy().into_owned(),
        why: why.to_owned(),
    };
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Err(refuse("it was taken before"));
    }
    let numbers = numbers(&text).map_err(|why| refuse(&why))?;
    for &number in &numbers {
        // SAFETY: it is borrowed for this one call, which refuses what is not open.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        fcntl_getfd(fd)
            .and_then(|flags| fcntl_setfd(fd, flags | FdFlags::CLOEXEC))
            .map_err(|_| refuse(&format!("descriptor {number} is not open")))?;
    }
    // SAFETY: all are open, each is named once, and whoever set the variable, which is taken once,
    // has opened them for this process to own.
    let own = |number| unsafe { OwnedFd::from_raw_fd(number) };
    Ok(numbers.into_iter().map(own).collect())
}

/// Whether this process was started as a new binary by a master that still lives, and so may have
/// to give way to it again.
///
/// What both serve by is then not this process's to remove when it ends: the file of a Unix socket,
/// above all. Costs a system call.
///
/// ```
/// assert!(!evcore_prefork::predecessor_lives(), "nobody upgrades to a test");
/// ```
#[must_use]
pub fn predecessor_lives() -> bool {
    // A process whose parent dies is given another; so the number cannot have passed to a stranger.
    let parent = getppid().map(|pid| pid.as_raw_nonzero().to_string());
    parent.is_some_and(|parent| env::var_os(PREDECESSOR).is_some_and(|told| told == *parent))
}

/// The numbers in a list, none of them twice.
fn numbers(text: &OsStr) -> std::result::Result<Vec<RawFd>, String> {
    let text = text.to_str().ok_or("it is no text")?;
    let mut numbers = Vec::new();
    for word in text.split(',').filter(|_| !text.is_empty()) {
        let number: RawFd = match word.parse() {
            Ok(number) if number >= 0 => number,
            _ => return Err(format!("{word:?} is no descriptor's number")),
        };
        if number < FIRST_INHERITED {
            return Err(format!(
                "descriptors 0, 1 and 2 are standard input, output and error; what is inherited \
                 has numbers from {FIRST_INHERITED} up"
            ));
        }
        if numbers.contains(&number) {
            return Err(format!("descriptor {number} is named twice"));
        }
        numbers.push(number);
    }
    Ok(numbers)
}

/// This program as it was started, which may be another by the time it is started again.
#[derive(Debug)]
pub(crate) struct Binary {
    program: PathBuf,
    arguments: Vec<OsString>,
    inherited: Vec<OwnedFd>,
    child: Option<Child>,
}

impl Binary {
    /// To be asked before the file is replaced: the system may know it by its new name afterwards.
    pub(crate) fn this_one(inherited: Vec<OwnedFd>) -> Self {
        let mut arguments = env::args_os();
        let first = arguments.next().unwrap_or_default();
        Self {
            // Where the system cannot tell, what it was called by.
            program: env::current_exe().unwrap_or_else(|_| first.into()),
            arguments: arguments.collect(),
            inherited,
            child: None,
        }
    }

    /// Starts it, unless one that was started still runs.
    pub(crate) fn start(&mut self, tell: &mut dyn FnMut(&Upgrade)) {
        if self.child.is_some() || predecessor_lives() {
            tell(&Upgrade::Refused);
            return;
        }
        tell(&Upgrade::Begins);
        match self.spawn() {
            Ok(child) => {
                let pid = NonZeroU32::new(child.id()).expect("a process has a number");
                self.child = Some(child);
                tell(&Upgrade::Started(pid));
            }
            Err(error) => tell(&Upgrade::Failed(error)),
        }
    }

    /// Says whether it has ended.
    pub(crate) fn reap(&mut self, tell: &mut dyn FnMut(&Upgrade)) -> bool {
        let ended = self.child.as_mut().map(Child::try_wait);
        let Some(Ok(Some(status))) = ended else {
            return false;
        };
        self.child = None;
        tell(&Upgrade::Ended(status));
        true
    }

    /// Closes what it would inherit: nobody is to take over any more.
    pub(crate) fn close(&mut self) {
        self.inherited.clear();
    }

    /// Starts it, unless this master is to stop at once: a TERM or INT for the whole process group
    /// may have come before there was a child that it could have ended.
    fn spawn(&self) -> io::Result<Child> {
        // The child inherits the mask. So what comes for it waits until it has other handlers: those
        // of this process would note it in memory that exec throws away.
        signals::block();
        let child = match Stop::of(signals::here().severity()) {
            Some(Stop::Fast) => Err(io::Error::other("this server was told to stop")),
            _ => self.command().spawn(),
        };
        signals::unblock();
        child
    }

    /// To be spawned with the signals blocked.
    fn command(&self) -> Command {
        let numbers: Vec<RawFd> = self.inherited.iter().map(AsRawFd::as_raw_fd).collect();
        let list: Vec<String> = numbers.iter().map(RawFd::to_string).collect();
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command.env(INHERITED, list.join(","));
        command.env(PREDECESSOR, getpid().as_raw_nonzero().to_string());
        let prepare = move || {
            numbers.iter().try_for_each(|&fd| pass_on(fd))?;
            signals::leave_stops_to_exec();
            Ok(())
        };
        // SAFETY: it makes system calls that are allowed between fork and exec, and allocates
        // nothing.
        unsafe { command.pre_exec(prepare) };
        command
    }
}

/// Keeps a descriptor open over exec. To be called in the child only.
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
    fn a_list_of_numbers_is_read_in_its_order() {
        assert_eq!(numbers(OsStr::new("5,3,70")), Ok(vec![5, 3, 70]));
        assert_eq!(numbers(OsStr::new("")), Ok(vec![]));
    }

    #[test]
    fn what_is_no_list_of_numbers_is_refused_by_name() {
        for (text, word) in [("5,x", "x"), ("5,", ""), ("-1", "-1"), ("5;6", "5;6")] {
            let refusal = numbers(OsStr::new(text)).unwrap_err();
            assert_eq!(refusal, format!("{word:?} is no descriptor's number"));
        }
        let refusal = numbers(OsStr::new("5,2")).unwrap_err();
        assert!(refusal.starts_with("descriptors 0, 1 and 2 are standard input"));
        let refusal = numbers(OsStr::new("5,6,5")).unwrap_err();
        assert_eq!(refusal, "descriptor 5 is named twice");
    }

    #[test]
    fn who_is_no_new_binary_inherits_nothing() {
        assert!(inherited().unwrap().is_empty());
    }
}
