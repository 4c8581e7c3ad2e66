//! What signals do to this process.
//!
//! Master and worker have the same handlers: note what came, then write to a descriptor. The notes
//! and the descriptor belong to the process, so a forked child inherits the handlers and has only
//! to reset the notes, with the signals blocked, before it goes on. Nothing is installed in the
//! child, so nothing can fail there, and there is no gap in which a signal would find no handler.
//!
//! A child that is to become a new binary has them until exec: it gives those of the stops up before.
//!
//! TERM, INT, QUIT and USR1 are for master and worker. HUP, USR2, WINCH and CHLD are for a master;
//! a worker ignores them. IO comes to a worker when its leash moves.

#![allow(
    unsafe_code,
    reason = "installs signal handlers, masks signals, and keeps the descriptor that they write to"
)]

use std::{
    mem::{self, MaybeUninit},
    os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering},
};

use libc::c_int;
use signal_hook::{SigId, low_level};

use crate::{
    Error, Result, Stop, leash,
    told::{NOWHERE, Told},
};

/// Whether some `Handlers` exist.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// What this process was told.
// Invariant: its descriptor is open, and owned by this static alone.
static HERE: Told = Told {
    stop: AtomicU8::new(0),
    reopens: AtomicU32::new(0),
    wake: AtomicI32::new(NOWHERE),
};

/// The orders that have come to this process as a master, and were not taken yet: bits.
static ORDERS: AtomicU8 = AtomicU8::new(0);

/// What a master can be told besides stops and reopening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// HUP: new workers for old.
    Reload,
    /// USR2: start a new binary.
    Upgrade,
    /// WINCH: workers go, the master stays.
    Rest,
}

const STOPS: [(c_int, Stop); 3] = [
    (libc::SIGTERM, Stop::Fast),
    (libc::SIGINT, Stop::Fast),
    (libc::SIGQUIT, Stop::Graceful),
];

const ORDER_SIGNALS: [(c_int, Order); 3] = [
    (libc::SIGHUP, Order::Reload),
    (libc::SIGUSR2, Order::Upgrade),
    (libc::SIGWINCH, Order::Rest),
];

/// What a worker without a master heeds.
const SOLO: [c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1];

/// What this module handles.
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
/// From then on these signals do nothing: signal-hook keeps its own handler in place.
#[derive(Debug)]
pub(crate) struct Handlers {
    for_all: Vec<SigId>,
    for_a_master: Vec<SigId>,
}

impl Handlers {
    /// Takes what any worker heeds. What was blocked stays so: what is pending needs its handler.
    pub(crate) fn install() -> Result<Self> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(Error::InUse);
        }
        // From here on, an early return gives back what was taken.
        let mut handlers = Self {
            for_all: Vec::with_capacity(STOPS.len() + 2),
            for_a_master: Vec::new(),
        };
        for (signal, stop) in STOPS {
            handlers.for_all.push(register(signal, move || note(stop))?);
        }
        let reopen = || ring(HERE.reopen());
        handlers.for_all.push(register(libc::SIGUSR1, reopen)?);
        Ok(handlers)
    }

    /// Takes what a master heeds too, and what its workers will need: IO does nothing in a master.
    /// Then unblocks all of it, with what came while it was blocked.
    pub(crate) fn command(&mut self) -> Result<()> {
        for (signal, order) in ORDER_SIGNALS {
            let id = register(signal, move || note_order(order))?;
            self.for_a_master.push(id);
        }
        let child = || ring(HERE.bell());
        self.for_a_master.push(register(libc::SIGCHLD, child)?);
        self.for_all.push(register(libc::SIGIO, follow_master)?);
        unblock();
        Ok(())
    }

    /// In a forked child that still has the signals blocked: forgets what was meant for its parent.
    pub(crate) fn inherit(&mut self) {
        for id in self.for_a_master.drain(..) {
            low_level::unregister(id);
        }
        forget();
    }

    /// Keeps the handlers for as long as the process lives, and unblocks what they heed without a
    /// master's: of the others, the application may wait for what it has blocked.
    pub(crate) fn serve_alone(self) {
        mem::forget(self);
        mask(libc::SIG_UNBLOCK, &SOLO);
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        for id in self.for_all.drain(..).chain(self.for_a_master.drain(..)) {
            // Returns when no other thread is in the handler any more.
            low_level::unregister(id);
        }
        forget();
        TAKEN.store(false, Ordering::Release);
    }
}

/// What this process was told.
pub(crate) fn here() -> &'static Told {
    &HERE
}

/// Takes the orders that have come.
pub(crate) fn take_orders() -> Orders {
    Orders(ORDERS.swap(0, Ordering::SeqCst))
}

/// Some orders. Which came first is not known: signals of different numbers have no order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orders(u8);

impl Orders {
    pub(crate) fn contain(self, order: Order) -> bool {
        self.0 & bit(order) != 0
    }
}

/// Does what the handler of a stop signal does.
pub(crate) fn note(stop: Stop) {
    ring(HERE.stop(stop.severity()));
}

/// Does what the handler of IO does: a worker whose master is gone stops.
pub(crate) fn follow_master() {
    if leash::is_torn() {
        note(Stop::Fast);
    }
}

/// Makes the handlers write to `fd`, and does so at once if something was told before.
///
/// A descriptor that was set before stays open: a handler on another thread may be about to write
/// to it, and must not find another file under its number.
pub(crate) fn wake_by(fd: OwnedFd) {
    let fd = fd.into_raw_fd();
    if HERE.wake_by(fd) {
        ring(Some(fd));
    }
}

/// Writes to the descriptor, if there is one. If it is full, its reader has been woken already.
fn ring(fd: Option<RawFd>) {
    if let Some(fd) = fd {
        // SAFETY: HERE's descriptor is closed by `forget` alone, while no handler can run.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
    }
}

/// In a forked child that is about to become another program, with the signals still blocked: from
/// here on a stop ends it, as it ends any program that has just been started. One that has come
/// since the fork ends it now.
pub(crate) fn leave_stops_to_exec() {
    for (signal, _) in STOPS {
        // SAFETY: signal(2) may be called between fork and exec; the child has no other thread.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    unblock();
}

/// Holds back the signals that this module handles.
pub(crate) fn block() {
    mask(libc::SIG_BLOCK, &ALL);
}

/// Lets them through, those first that were held back.
pub(crate) fn unblock() {
    mask(libc::SIG_UNBLOCK, &ALL);
}

fn note_order(order: Order) {
    ORDERS.fetch_or(bit(order), Ordering::SeqCst);
    ring(HERE.bell());
}

const fn bit(order: Order) -> u8 {
    1 << order as u8
}

/// Forgets all news and closes the descriptor. No handler may be able to run meanwhile.
fn forget() {
    HERE.stop.store(0, Ordering::SeqCst);
    HERE.reopens.store(0, Ordering::SeqCst);
    ORDERS.store(0, Ordering::SeqCst);
    let fd = HERE.wake.swap(NOWHERE, Ordering::SeqCst);
    if fd != NOWHERE {
        // SAFETY: `wake_by` gave HERE this descriptor to own, and HERE has just given it up.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

fn register(signal: c_int, action: impl Fn() + Sync + Send + 'static) -> Result<SigId> {
    // SAFETY: the actions of this module access atomics, peek at a socket and call write(2), all of
    // which a handler may do; signal-hook keeps errno.
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
    // SAFETY: `set` is a set, and a null pointer asks for no old one.
    let refused = unsafe { libc::pthread_sigmask(how, &raw const set, ptr::null_mut()) };
    debug_assert_eq!(refused, 0, "SIG_BLOCK and SIG_UNBLOCK are always accepted");
}
