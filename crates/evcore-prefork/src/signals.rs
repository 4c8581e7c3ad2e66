//! What TERM, INT, QUIT and CHLD do to this process.
//!
//! Master and worker have the same handlers: note the stop, then write to a descriptor. Both the
//! note and the descriptor belong to the process, so a forked child inherits the handlers and has
//! only to reset the two, with the signals blocked, before it goes on. Nothing is installed in the
//! child, so nothing can fail there, and there is no gap in which a signal would find no handler.
//!
//! HUP, USR1, USR2 and WINCH are left as they are.

#![allow(
    unsafe_code,
    reason = "installs signal handlers, masks signals, and keeps the descriptor that they write to"
)]

use std::{
    mem::MaybeUninit,
    os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering},
};

use libc::c_int;
use signal_hook::{SigId, low_level};

use crate::{Error, Result, Stop};

/// Whether some `Handlers` exist.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The stop that was asked for, as `severity` numbers it; 0 if none was. It only ever grows.
static STOP: AtomicU8 = AtomicU8::new(0);

/// Where the handlers write, or `NOWHERE`.
// Invariant: an open descriptor that is owned by this static alone.
static WAKE: AtomicI32 = AtomicI32::new(NOWHERE);

const NOWHERE: RawFd = -1;

const STOPS: [(c_int, Stop); 3] = [
    (libc::SIGTERM, Stop::Fast),
    (libc::SIGINT, Stop::Fast),
    (libc::SIGQUIT, Stop::Graceful),
];

/// The process's handlers, until they are dropped.
///
/// From then on these signals do nothing: signal-hook keeps its own handler in place.
#[derive(Debug)]
pub(crate) struct Handlers {
    stops: Vec<SigId>,
    children: Option<SigId>,
}

impl Handlers {
    /// Takes TERM, INT and QUIT, and unblocks all that this module handles.
    pub(crate) fn install() -> Result<Self> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(Error::InUse);
        }
        // From here on, an early return gives back what was taken.
        let mut handlers = Self {
            stops: Vec::with_capacity(STOPS.len()),
            children: None,
        };
        for (signal, stop) in STOPS {
            handlers.stops.push(register(signal, move || note(stop))?);
        }
        unblock();
        Ok(handlers)
    }

    /// Takes CHLD too, which writes to the descriptor and notes nothing.
    pub(crate) fn watch_children(&mut self) -> Result<()> {
        self.children = Some(register(libc::SIGCHLD, ring)?);
        Ok(())
    }

    /// In a forked child that still has the signals blocked: forgets what was meant for its parent.
    pub(crate) fn inherit(&mut self) {
        if let Some(children) = self.children.take() {
            low_level::unregister(children);
        }
        forget();
    }

    /// Keeps the handlers for as long as the process lives.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        for id in self.stops.drain(..).chain(self.children.take()) {
            // Returns when no other thread is in the handler any more.
            low_level::unregister(id);
        }
        forget();
        TAKEN.store(false, Ordering::Release);
    }
}

/// The stop that was asked for so far.
pub(crate) fn stop() -> Option<Stop> {
    let severity = STOP.load(Ordering::SeqCst);
    let stops = [Stop::Graceful, Stop::Fast];
    stops
        .into_iter()
        .find(|&stop| self::severity(stop) == severity)
}

/// Does what the handler of a stop signal does.
pub(crate) fn note(stop: Stop) {
    STOP.fetch_max(severity(stop), Ordering::SeqCst);
    ring();
}

/// Makes the handlers write to `fd`, and does so at once if a stop was noted before.
///
/// A descriptor that was set before stays open: a handler on another thread may be about to write
/// to it, and must not find another file under its number.
pub(crate) fn wake_by(fd: OwnedFd) {
    // The handler stores STOP and then loads WAKE, this stores WAKE and then loads STOP: in the
    // one order that all sequentially consistent accesses have, one of the two sees the other.
    WAKE.store(fd.into_raw_fd(), Ordering::SeqCst);
    if stop().is_some() {
        ring();
    }
}

/// Holds back the signals that this module handles.
pub(crate) fn block() {
    mask(libc::SIG_BLOCK);
}

/// Lets them through, those first that were held back.
pub(crate) fn unblock() {
    mask(libc::SIG_UNBLOCK);
}

const fn severity(stop: Stop) -> u8 {
    match stop {
        Stop::Graceful => 1,
        Stop::Fast => 2,
    }
}

/// Writes to the descriptor, if there is one. If it is full, its reader has been woken already.
fn ring() {
    let fd = WAKE.load(Ordering::SeqCst);
    if fd != NOWHERE {
        // SAFETY: WAKE's descriptor is closed by `forget` alone, while no handler can run.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
    }
}

/// Forgets the stop and closes the descriptor. No handler may be able to run meanwhile.
fn forget() {
    STOP.store(0, Ordering::SeqCst);
    let fd = WAKE.swap(NOWHERE, Ordering::SeqCst);
    if fd != NOWHERE {
        // SAFETY: `wake_by` gave WAKE this descriptor to own, and WAKE has just given it up.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

fn register(signal: c_int, action: impl Fn() + Sync + Send + 'static) -> Result<SigId> {
    // SAFETY: the actions of this module (`note` and `ring`) access atomics and call write(2), all
    // of which a handler may do; signal-hook keeps errno.
    unsafe { low_level::register(signal, action) }.map_err(Error::os("sigaction"))
}

fn mask(how: c_int) {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the pointer is to memory for a set, which this call may fill.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: `sigemptyset` has just filled it, and cannot fail.
    let mut set = unsafe { set.assume_init() };
    for signal in STOPS
        .map(|(signal, _)| signal)
        .into_iter()
        .chain([libc::SIGCHLD])
    {
        // SAFETY: `set` is a set, and `signal` the number of a signal.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: `set` is a set, and a null pointer asks for no old one.
    let refused = unsafe { libc::pthread_sigmask(how, &raw const set, ptr::null_mut()) };
    debug_assert_eq!(refused, 0, "SIG_BLOCK and SIG_UNBLOCK are always accepted");
}
