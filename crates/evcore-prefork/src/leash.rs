//! What ties a worker to its master: a pair of sockets, one end for each.
//!
//! The worker says over it that it serves. And when the master is gone, however it ended, the
//! kernel closes the master's end and sends the worker SIGIO, which it asks for when it puts the
//! leash on.
//! That works on every Unix, also for a worker that has changed its user, and asks nothing of the
//! worker's event loop.
//!
//! A worker must not hold the master's end of a sibling's leash, or that sibling would notice
//! nothing as long as this one lives.

#![allow(
    unsafe_code,
    reason = "fcntl(F_SETOWN) and ioctl(FIOASYNC), and a descriptor that a signal handler reads"
)]

use std::{
    io::{self, Read},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd},
        unix::net::UnixStream,
    },
    sync::atomic::{AtomicI32, Ordering},
};

use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
    process::getpid,
};

use crate::{Error, Result, told::NOWHERE};

/// The worker's end in this process, or `NOWHERE`.
// Invariant: once set, a socket that is never closed.
static WORN: AtomicI32 = AtomicI32::new(NOWHERE);

/// A new leash: the master's end and the worker's.
pub(crate) fn leash() -> Result<(Held, Worn)> {
    let (held, worn) = pair().map_err(Error::os(
        "making the liveness pipe between master and worker (socketpair)",
    ))?;
    Ok((Held(held), Worn(worn)))
}

fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (held, worn) = UnixStream::pair()?;
    held.set_nonblocking(true)?;
    worn.set_nonblocking(true)?;
    Ok((held, worn))
}

/// The master's end. To drop it is to let the worker go.
#[derive(Debug)]
pub(crate) struct Held(UnixStream);

/// A write to a master that is gone is not to end the worker: by this flag, or on Apple's systems
/// by an option that the standard library sets.
#[cfg(not(target_vendor = "apple"))]
const QUIETLY: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const QUIETLY: SendFlags = SendFlags::empty();

/// What came over a leash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Nothing,
    /// The worker serves.
    Ready,
    /// The worker's end is closed: nothing will come any more.
    Ended,
}

impl Held {
    /// Takes what has come.
    pub(crate) fn news(&mut self) -> News {
        match self.0.read(&mut [0]) {
            Ok(0) => News::Ended,
            Ok(_) => News::Ready,
            Err(_) => News::Nothing,
        }
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The worker's end.
#[derive(Debug)]
pub(crate) struct Worn(UnixStream);

impl Worn {
    /// Puts the leash on this process: from now on it is sent SIGIO when the master is gone.
    ///
    /// Whether the master is gone already is to be asked afterwards, by [`is_torn`].
    pub(crate) fn put_on(self) {
        // A refusal leaves a worker that serves and may outlive its master, which is better than
        // none; no system refuses it for a socket.
        let _ = send_sigio(&self.0);
        WORN.store(self.0.into_raw_fd(), Ordering::Release);
    }
}

/// Whether this process wears a leash whose other end nobody holds. A signal handler may ask.
pub(crate) fn is_torn() -> bool {
    worn().is_some_and(is_gone)
}

/// Whether nobody holds the other end.
fn is_gone(worn: BorrowedFd<'_>) -> bool {
    match recv(worn, &mut [0; 1], RecvFlags::PEEK) {
        Ok((_, n)) => n == 0,
        Err(Errno::AGAIN | Errno::INTR) => false,
        // A master that has not read what it was told leaves a reset.
        Err(_) => true,
    }
}

/// Tells the master that this worker serves.
pub(crate) fn tell_ready() {
    if let Some(worn) = worn() {
        // Who has no master any more tells nobody. It is one byte, for which there is room.
        let _ = send(worn, b"!", QUIETLY);
    }
}

fn worn() -> Option<BorrowedFd<'static>> {
    let fd = WORN.load(Ordering::Acquire);
    // SAFETY: `put_on` gave up this descriptor to WORN, and nobody closes it.
    (fd != NOWHERE).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

fn send_sigio(socket: &UnixStream) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    // SAFETY: F_SETOWN takes a number, here this process's own.
    let owned = unsafe { libc::fcntl(fd, libc::F_SETOWN, getpid().as_raw_pid()) };
    if owned == -1 {
        return Err(io::Error::last_os_error());
    }
    let mut on: libc::c_int = 1;
    // The request's type differs from system to system.
    let request = libc::FIOASYNC as _;
    // SAFETY: FIOASYNC reads one int, which lives through the call.
    let refused = unsafe { libc::ioctl(fd, request, &raw mut on) };
    if refused == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_says_ready_is_heard_once() {
        let (mut held, worn) = leash().unwrap();
        assert_eq!(held.news(), News::Nothing);
        send(&worn.0, b"!", SendFlags::empty()).unwrap();
        assert_eq!(held.news(), News::Ready);
        assert_eq!(held.news(), News::Nothing);
    }

    #[test]
    fn a_worker_that_is_gone_is_told_apart_from_one_that_is_silent() {
        let (mut held, worn) = leash().unwrap();
        drop(worn);
        assert_eq!(held.news(), News::Ended);
    }

    #[test]
    fn a_master_that_is_gone_is_noticed_whether_or_not_it_has_listened() {
        for says_ready in [false, true] {
            let (held, worn) = leash().unwrap();
            assert!(!is_gone(worn.0.as_fd()));
            if says_ready {
                send(&worn.0, b"!", SendFlags::empty()).unwrap();
            }
            drop(held);
            assert!(is_gone(worn.0.as_fd()));
        }
    }

    #[test]
    fn who_wears_no_leash_has_lost_no_master() {
        assert!(!is_torn());
    }
}
