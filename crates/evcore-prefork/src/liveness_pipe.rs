//! The liveness pipe between a worker process and its master: a socket pair, one end for each.
//!
//! Over the pipe the worker reports that it serves, and the master reports that the worker has a
//! successor. When the master is gone, however it ended, the kernel closes the master's end. The
//! kernel then sends the worker SIGIO, even if the worker has changed its user, and without the
//! help of the worker's event loop.
//!
//! A worker must not hold the master's end of a sibling's pipe, because the sibling would then not
//! notice the end of the master.

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
    sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering},
};

use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
    process::getpid,
};

use crate::{
    error::{Error, Result},
    pause::pause,
    signal_state::NO_FD,
    successor::Successor,
};

/// The worker's end in this process, or `NO_FD`.
// Invariant: once set, a socket that is never closed.
static CHILD_END: AtomicI32 = AtomicI32::new(NO_FD);

/// The last report of the master: the byte of a [`Successor`], or 0.
static SUCCESSOR: AtomicU8 = AtomicU8::new(0);

const GENERATION: u8 = b'g';
const BINARY: u8 = b'b';
const RESTART: u8 = b'r';

pub(crate) fn liveness_pipe() -> Result<(ParentEnd, ChildEnd)> {
    let (parent, child) = pair().map_err(Error::os(
        "making the liveness pipe between master and worker (socketpair)",
    ))?;
    Ok((ParentEnd(parent), ChildEnd(child)))
}

fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (parent, child) = UnixStream::pair()?;
    parent.set_nonblocking(true)?;
    child.set_nonblocking(true)?;
    Ok((parent, child))
}

/// The master's end of a liveness pipe. When it is closed, the worker stops.
#[derive(Debug)]
pub(crate) struct ParentEnd(UnixStream);

/// The flag that keeps a write to a closed pipe from raising SIGPIPE. On Apple's systems, the
/// standard library sets a socket option for that.
#[cfg(not(target_vendor = "apple"))]
const WITHOUT_SIGPIPE: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const WITHOUT_SIGPIPE: SendFlags = SendFlags::empty();

/// The most attempts at a report, with a pause after each.
const REPORTS_MAX: u32 = 10;

/// The most checks of the pipe that show nothing, with a pause after each.
const CHECKS_MAX: u32 = 10;

/// The state of a worker's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Nothing,
    Ready,
    /// The worker's end is closed, so no report will follow.
    Closed,
}

impl ParentEnd {
    pub(crate) fn read(&mut self) -> Report {
        match self.0.read(&mut [0]) {
            Ok(0) => Report::Closed,
            Ok(_) => Report::Ready,
            Err(_) => Report::Nothing,
        }
    }

    /// Reports the worker's successor to the worker. If that fails, the worker keeps the successor
    /// that was reported before, if any.
    pub(crate) fn report_successor(&self, successor: Successor) {
        let byte = match successor {
            Successor::Generation => GENERATION,
            Successor::Binary => BINARY,
            Successor::Restart => RESTART,
        };
        let _ = send(&self.0, &[byte], WITHOUT_SIGPIPE);
    }
}

impl AsFd for ParentEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[derive(Debug)]
pub(crate) struct ChildEnd(UnixStream);

impl ChildEnd {
    /// Makes this process get SIGIO when the master is gone.
    ///
    /// The master may be gone already, so call [`parent_gone`] afterwards.
    pub(crate) fn install(self) {
        // Without the signal the worker serves, and might outlive its master, which is better than
        // no worker.
        let _ = send_sigio(&self.0);
        CHILD_END.store(self.0.into_raw_fd(), Ordering::Release);
    }
}

/// Returns whether this process is a worker whose master is gone. A signal handler may call it.
///
/// The end of the master raises only one signal, so no later signal causes another check. Therefore
/// this function itself repeats a check that shows nothing.
pub(crate) fn parent_gone() -> bool {
    child_end().is_some_and(|end| is_gone(|| check(end), pause))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Gone,
    Held,
    Unknown,
}

/// Repeats `check` until it shows something. Returns false after [`CHECKS_MAX`] attempts.
fn is_gone(mut check: impl FnMut() -> Check, pause: impl Fn()) -> bool {
    for _ in 0..CHECKS_MAX {
        match check() {
            Check::Unknown => pause(),
            shown => return shown == Check::Gone,
        }
    }
    false
}

/// Checks the pipe. First reads all reports of the master, because the end of the stream comes
/// after them.
fn check(end: BorrowedFd<'_>) -> Check {
    let mut report = [0; 1];
    loop {
        return match recv(end, &mut report, RecvFlags::empty()) {
            // The error means that the master ended before it had read the worker's report.
            Ok((_, 0)) | Err(Errno::CONNRESET | Errno::NOTCONN) => Check::Gone,
            Ok(_) => {
                SUCCESSOR.store(report[0], Ordering::Release);
                continue;
            }
            Err(Errno::AGAIN) => Check::Held,
            Err(_) => Check::Unknown,
        };
    }
}

pub(crate) fn successor() -> Option<Successor> {
    if let Some(end) = child_end() {
        check(end);
    }
    match SUCCESSOR.load(Ordering::Acquire) {
        GENERATION => Some(Successor::Generation),
        BINARY => Some(Successor::Binary),
        RESTART => Some(Successor::Restart),
        _ => None,
    }
}

/// Reports that this worker serves. If the kernel has no memory for the report, it is sent again,
/// because without the report the server would not announce that it listens.
pub(crate) fn report_ready() {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    let Some(end) = child_end() else { return };
    if IS_REPORTED.load(Ordering::Acquire) {
        return; // the master reads one report, and more would fill the pipe
    }
    for _ in 0..REPORTS_MAX {
        if send(end, b"!", WITHOUT_SIGPIPE).is_ok() || check(end) == Check::Gone {
            IS_REPORTED.store(true, Ordering::Release);
            return;
        }
        pause();
    }
}

fn child_end() -> Option<BorrowedFd<'static>> {
    let fd = CHILD_END.load(Ordering::Acquire);
    // SAFETY: `install` gave this descriptor up to CHILD_END, and nothing closes it.
    (fd != NO_FD).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
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
    fn a_ready_report_is_read_once() {
        let (mut parent, child) = liveness_pipe().unwrap();
        assert_eq!(parent.read(), Report::Nothing);
        send(&child.0, b"!", SendFlags::empty()).unwrap();
        assert_eq!(parent.read(), Report::Ready);
        assert_eq!(parent.read(), Report::Nothing);
    }

    #[test]
    fn a_closed_end_is_reported_as_closed() {
        let (mut parent, child) = liveness_pipe().unwrap();
        drop(child);
        assert_eq!(parent.read(), Report::Closed);
    }

    #[test]
    fn a_parent_that_is_gone_is_noticed_with_and_without_a_report() {
        for reports in [false, true] {
            let (parent, child) = liveness_pipe().unwrap();
            assert_eq!(check(child.0.as_fd()), Check::Held);
            if reports {
                send(&child.0, b"!", SendFlags::empty()).unwrap();
            }
            drop(parent);
            assert_eq!(check(child.0.as_fd()), Check::Gone);
        }
    }

    #[test]
    fn after_reports_of_successors_the_masters_end_is_noticed() {
        let (parent, child) = liveness_pipe().unwrap();
        for successor in [Successor::Binary, Successor::Restart, Successor::Generation] {
            parent.report_successor(successor);
            assert_eq!(check(child.0.as_fd()), Check::Held);
            assert_eq!(super::successor(), Some(successor));
        }
        parent.report_successor(Successor::Binary);
        drop(parent);
        assert_eq!(check(child.0.as_fd()), Check::Gone);
    }

    #[test]
    fn an_error_shows_nothing_of_the_parent() {
        let file = std::fs::File::open("Cargo.toml")
            .expect("cargo runs the tests in the directory of Cargo.toml");
        assert_eq!(
            check(file.as_fd()),
            Check::Unknown,
            "a file is not a socket"
        );
    }

    fn gone_after(checks: &[Check]) -> bool {
        let mut left = checks.iter().copied();
        let is_gone = is_gone(|| left.next().expect("there is no further check"), || {});
        assert_eq!(left.next(), None, "each check is made");
        is_gone
    }

    #[test]
    fn a_check_that_shows_nothing_is_repeated() {
        use Check::{Gone, Held, Unknown};
        assert!(gone_after(&[Gone]));
        assert!(!gone_after(&[Held]));
        assert!(gone_after(&[Unknown, Unknown, Gone]));
        assert!(!gone_after(&[Unknown, Held]));
        assert!(!gone_after(&[Unknown; CHECKS_MAX as usize]));
    }

    #[test]
    fn a_process_without_a_liveness_pipe_has_lost_no_parent() {
        assert!(!parent_gone());
    }
}
