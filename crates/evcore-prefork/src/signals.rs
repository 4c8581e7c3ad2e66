//! The signal handlers of masters and workers.
//!
//! A handler stores a request, and then writes to a descriptor. A forked worker inherits the
//! master's handlers. While the signals are still blocked, the worker drops the parent's requests,
//! and the handlers that only a master needs. It installs no handler, so nothing can fail. Its
//! handlers exist before the first signal arrives.

#![allow(
    unsafe_code,
    reason = "installs signal handlers, masks signals, and keeps the descriptor that they write to"
)]

use std::{
    mem::{self, ManuallyDrop, MaybeUninit},
    os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering},
};

use libc::c_int;
use rustix::io::{Errno, FdFlags, dup2, fcntl_setfd};
use signal_hook::{SigId, low_level};

use crate::{
    error::{Error, Result},
    liveness_pipe,
    signal_state::{NO_FD, SignalState},
    stop::Stop,
};

/// True while this process has `Handlers`.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// The requests to this process.
// Invariant: a descriptor in it is open, and only this static owns it.
static STATE: SignalState = SignalState {
    stop: AtomicU8::new(0),
    reopen_count: AtomicU32::new(0),
    wake_fd: AtomicI32::new(NO_FD),
};

/// The pending commands to this master, each as a bit.
static COMMANDS: AtomicU8 = AtomicU8::new(0);

/// A command to a master. Stops and reopening are in [`SignalState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// HUP: replace the workers.
    Reload,
    /// USR2: start a new binary.
    Upgrade,
    /// WINCH: stop the workers, and stay.
    Drain,
}

const STOPS: [(c_int, Stop); 3] = [
    (libc::SIGTERM, Stop::Fast),
    (libc::SIGINT, Stop::Fast),
    (libc::SIGQUIT, Stop::Graceful),
];

const COMMAND_SIGNALS: [(c_int, Command); 3] = [
    (libc::SIGHUP, Command::Reload),
    (libc::SIGUSR2, Command::Upgrade),
    (libc::SIGWINCH, Command::Drain),
];

/// The signals that a worker without a master handles.
const SOLO: [c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1];

const ALL: [c_int; 9] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGHUP,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGCHLD,
    libc::SIGIO,
];

/// The process's handlers, until they are dropped.
///
/// After that, signal-hook's own handlers stay installed, so these signals do not get their default
/// effect back. A signal then only calls the functions that the application has set for it.
#[derive(Debug)]
pub(crate) struct Handlers {
    for_all: Vec<SigId>,
    for_a_master: Vec<SigId>,
}

impl Handlers {
    /// Installs the handlers that every worker needs. Blocked signals stay blocked, because a
    /// pending one may need a handler that is not installed yet.
    pub(crate) fn install() -> Result<Self> {
        if IN_USE.swap(true, Ordering::AcqRel) {
            return Err(Error::InUse);
        }
        // From here on, an early return removes the handlers that were installed.
        let mut handlers = Self {
            for_all: Vec::with_capacity(STOPS.len() + 2),
            for_a_master: Vec::new(),
        };
        for (signal, stop) in STOPS {
            let id = register(signal, move || request_stop(stop))?;
            handlers.for_all.push(id);
        }
        let reopen = || wake(STATE.request_reopen());
        handlers.for_all.push(register(libc::SIGUSR1, reopen)?);
        Ok(handlers)
    }

    /// Installs the handlers of a master, and the handler of `SIGIO`. Only workers need the latter,
    /// and they inherit it from the master. Then unblocks the signals of this module, which
    /// delivers the pending ones.
    pub(crate) fn install_for_master(&mut self) -> Result<()> {
        for (signal, command) in COMMAND_SIGNALS {
            let id = register(signal, move || request(command))?;
            self.for_a_master.push(id);
        }
        let child = || wake(STATE.wake_fd());
        self.for_a_master.push(register(libc::SIGCHLD, child)?);
        let parent = register(libc::SIGIO, stop_if_parent_gone)?;
        self.for_all.push(parent);
        unblock();
        Ok(())
    }

    /// In a forked child whose signals are still blocked: drops the requests to the parent, and the
    /// handlers that only a master needs.
    pub(crate) fn inherit(&mut self) {
        for id in self.for_a_master.drain(..) {
            low_level::unregister(id);
        }
        reset();
    }

    /// Keeps the handlers for the life of the process, and unblocks the signals of a worker without
    /// a master. Other signals stay blocked, because the application may wait for them.
    pub(crate) fn keep_for_solo(self) {
        mem::forget(self);
        mask(libc::SIG_UNBLOCK, &SOLO);
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        for id in self.for_all.drain(..).chain(self.for_a_master.drain(..)) {
            // This call returns when no other thread runs the handler any more.
            low_level::unregister(id);
        }
        reset();
        IN_USE.store(false, Ordering::Release);
    }
}

pub(crate) fn state() -> &'static SignalState {
    &STATE
}

pub(crate) fn take_commands() -> Commands {
    Commands(COMMANDS.swap(0, Ordering::SeqCst))
}

/// Commands that were pending. They are a set, because signals of different numbers have no order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commands(u8);

impl Commands {
    pub(crate) fn contain(self, command: Command) -> bool {
        self.0 & bit(command) != 0
    }
}

fn request_stop(stop: Stop) {
    wake(STATE.request_stop(stop.severity()));
}

/// The handler of IO, which stops a worker whose master is gone.
pub(crate) fn stop_if_parent_gone() {
    if liveness_pipe::parent_gone() {
        request_stop(Stop::Fast);
    }
}

/// Makes the handlers write to `fd`, and writes to it at once if there was a request before.
///
/// An earlier descriptor keeps its number, and gets the file of `fd` in one step (`dup2`), because
/// a handler on another thread may be about to write to that number.
pub(crate) fn set_wake_fd(fd: OwnedFd) {
    let fd = match STATE.wake_fd() {
        None => fd.into_raw_fd(),
        Some(number) => {
            // SAFETY: STATE owns this descriptor. It keeps its number, so a handler that runs
            // meanwhile writes to the old file or to the new one.
            let mut old = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
            // Both descriptors are open, so `dup2` fails only while another thread opens files.
            while dup2(&fd, &mut old) == Err(Errno::BUSY) {}
            let _ = fcntl_setfd(&*old, FdFlags::CLOEXEC);
            number
        }
    };
    if STATE.set_wake_fd(fd) {
        wake(Some(fd));
    }
}

/// Writes to the descriptor, if there is one. Ignores an error, because the reader of a full
/// descriptor has been woken already.
fn wake(fd: Option<RawFd>) {
    if let Some(fd) = fd {
        // SAFETY: STATE's descriptor is closed only by `reset`, while no handler can run.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
    }
}

/// Restores the default effect of stop signals, in a forked child that is about to become another
/// program, and whose signals are still blocked. A stop signal that has come since the fork ends
/// the child now. Other signals stay blocked until the new program has handlers, because their
/// default effect would end it (HUP, USR1, USR2) or would drop the signal (CHLD, WINCH).
pub(crate) fn restore_default_stops() {
    for (signal, _) in STOPS {
        // SAFETY: signal(2) may be called between fork and exec; the child has no other thread.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    mask(libc::SIG_UNBLOCK, &STOPS.map(|(signal, _)| signal));
}

pub(crate) fn block() {
    mask(libc::SIG_BLOCK, &ALL);
}

pub(crate) fn unblock() {
    mask(libc::SIG_UNBLOCK, &ALL);
}

fn request(command: Command) {
    COMMANDS.fetch_or(bit(command), Ordering::SeqCst);
    wake(STATE.wake_fd());
}

const fn bit(command: Command) -> u8 {
    1 << command as u8
}

/// Drops all requests, and closes the descriptor. No handler may run meanwhile.
fn reset() {
    STATE.stop.store(0, Ordering::SeqCst);
    STATE.reopen_count.store(0, Ordering::SeqCst);
    COMMANDS.store(0, Ordering::SeqCst);
    let fd = STATE.wake_fd.swap(NO_FD, Ordering::SeqCst);
    if fd != NO_FD {
        // SAFETY: `set_wake_fd` gave STATE this descriptor to own, and STATE has just given it up.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

fn register(signal: c_int, action: impl Fn() + Sync + Send + 'static) -> Result<SigId> {
    // SAFETY: the actions of this module access atomics, peek at a socket, and call write(2) and
    // poll(2). A handler may do all of that; signal-hook keeps errno.
    unsafe { low_level::register(signal, action) }
        .map_err(Error::os("installing a signal handler (sigaction)"))
}

fn mask(how: c_int, signals: &[c_int]) {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the pointer is to memory for a set, which this call may fill.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: `sigemptyset` has just filled it, and cannot fail.
    let mut set = unsafe { set.assume_init() };
    for &signal in signals {
        // SAFETY: `set` is a set, and `signal` the number of a signal.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: `set` is a set, and a null pointer means that the old one is not returned.
    let refused = unsafe { libc::pthread_sigmask(how, &raw const set, ptr::null_mut()) };
    debug_assert_eq!(refused, 0, "SIG_BLOCK and SIG_UNBLOCK are always accepted");
}
