//! The functions that `ngx_evcore_module.c` declares.
//!
//! A function that can fail returns a negative `errno`, except for [`evcore_open`], which returns
//! `NULL`. nginx calls all of them from its one thread, except for [`evcore_wake`].

#![allow(
    unsafe_code,
    reason = "C calls these functions by name, and passes descriptors as numbers"
)]

use std::ffi::c_int;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use evcore_poller::{BackendKind, Error, Events, Interest, Mode, Poller, Result, Waker};

/// The values of `mode` in [`evcore_add`].
const EDGE: c_int = 1;
const EXCLUSIVE: c_int = 2;

/// A poller, and the reports of its last wait.
#[derive(Debug)]
pub struct Handle {
    poller: Poller,
    events: Events,
}

/// One report of a wait, `evcore_report_t` in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Report {
    /// The key of the registration, or `UINT64_MAX` for a wake.
    pub key: u64,
    /// The bits of [`Ready`](evcore_poller::Ready), or 0 for a wake.
    pub ready: u32,
}

impl Report {
    /// The report of a wake. No registration has its key.
    const WAKE: Self = Self {
        key: u64::MAX,
        ready: 0,
    };
}

/// Opens a poller over epoll, for waits of at most `capacity` events. Returns `NULL` if the kernel
/// refuses.
#[unsafe(no_mangle)]
pub extern "C" fn evcore_open(capacity: usize) -> Option<Box<Handle>> {
    let poller = Poller::with(BackendKind::Epoll).ok()?;
    Some(Box::new(Handle {
        poller,
        // A signal ends a wait with a `raw` buffer. nginx handles signals between waits.
        events: Events::raw(capacity),
    }))
}

/// Closes a poller.
#[unsafe(no_mangle)]
pub extern "C" fn evcore_close(handle: Box<Handle>) {
    drop(handle);
}

/// Registers `fd` under `key`. `mode` is 0 for level-triggered, [`EDGE`], or [`EXCLUSIVE`].
#[unsafe(no_mangle)]
pub extern "C" fn evcore_add(
    handle: &mut Handle,
    fd: RawFd,
    key: u64,
    interest: u8,
    mode: c_int,
) -> c_int {
    if fd < 0 {
        return -libc::EBADF;
    }
    // SAFETY: the number is not -1, and nginx removes a descriptor before it closes it.
    let source = unsafe { BorrowedFd::borrow_raw(fd) };
    let interest = Interest::from_bits_truncate(interest);
    let poller = &mut handle.poller;
    let mode = match mode {
        EXCLUSIVE => Mode::Exclusive,
        EDGE => Mode::Edge,
        _ => Mode::Level,
    };
    code(poller.add(&source, key, interest, mode))
}

/// Changes the interest of a registration.
#[unsafe(no_mangle)]
pub extern "C" fn evcore_modify(handle: &mut Handle, key: u64, interest: u8) -> c_int {
    let interest = Interest::from_bits_truncate(interest);
    code(handle.poller.modify(key, interest))
}

/// Removes a registration whose descriptor stays open.
#[unsafe(no_mangle)]
pub extern "C" fn evcore_remove(handle: &mut Handle, key: u64) -> c_int {
    code(handle.poller.remove(key))
}

/// Removes a registration whose descriptor is about to be closed.
#[unsafe(no_mangle)]
pub extern "C" fn evcore_remove_before_close(handle: &mut Handle, key: u64) -> c_int {
    code(handle.poller.remove_before_close(key))
}

/// Waits for at most `timeout_ms`, or without a limit if `timeout_ms` is negative. Returns the
/// number of reports, or a negative `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn evcore_wait(handle: &mut Handle, timeout_ms: i64) -> c_int {
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    match handle.poller.wait(&mut handle.events, timeout) {
        Ok(count) => {
            let count = count + usize::from(handle.events.was_woken());
            c_int::try_from(count).unwrap_or(c_int::MAX)
        }
        Err(error) => refusal(error),
    }
}

/// Returns a report of the last wait. A wake is reported after the descriptors.
#[unsafe(no_mangle)]
pub extern "C" fn evcore_report(handle: &Handle, position: usize) -> Report {
    match handle.events.get(position) {
        Some(event) => Report {
            key: event.key,
            ready: event.ready.bits().into(),
        },
        None => Report::WAKE,
    }
}

/// Makes a handle that ends a wait from another thread. The handle is never freed, because such a
/// thread may outlive the poller.
#[unsafe(no_mangle)]
pub extern "C" fn evcore_waker(handle: &Handle) -> Box<Waker> {
    Box::new(handle.poller.waker())
}

/// Ends the present wait, or the next one, with a report whose key is `UINT64_MAX`.
#[unsafe(no_mangle)]
pub extern "C" fn evcore_wake(waker: &Waker) {
    waker.wake();
}

fn code(result: Result<()>) -> c_int {
    result.map_or_else(refusal, |()| 0)
}

#[cold]
#[inline(never)]
fn refusal(error: Error) -> c_int {
    -match error {
        Error::Interrupted => libc::EINTR,
        Error::AlreadyRegistered { .. } | Error::AlreadyWatched { .. } => libc::EEXIST,
        Error::NotRegistered { .. } => libc::ENOENT,
        Error::NotOpen { .. } => libc::EBADF,
        other => io::Error::from(other)
            .raw_os_error()
            .unwrap_or(libc::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    const KEY: u64 = (9 << 32) | 7;

    fn reports(handle: &mut Handle) -> Vec<Report> {
        let count = usize::try_from(evcore_wait(handle, 0)).expect("no error");
        let reports = (0..count).map(|position| evcore_report(handle, position));
        reports.collect()
    }

    #[test]
    fn a_registration_lives_from_add_to_remove() {
        let mut handle = evcore_open(4).expect("epoll");
        let (mut near, far) = UnixStream::pair().expect("a pair");
        let fd = far.as_raw_fd();
        assert_eq!(evcore_add(&mut handle, fd, KEY, 0b001, EDGE), 0);
        assert_eq!(reports(&mut handle), []);

        near.write_all(b"x").expect("room");
        let readable = Report { key: KEY, ready: 1 };
        assert_eq!(reports(&mut handle), [readable]);
        assert_eq!(reports(&mut handle), [], "an edge is reported once");

        assert_eq!(evcore_modify(&mut handle, KEY, 0b101), 0);
        let both = Report { key: KEY, ready: 5 };
        assert_eq!(reports(&mut handle), [both]);

        assert_eq!(evcore_remove(&mut handle, KEY), 0);
        assert_eq!(evcore_add(&mut handle, fd, KEY, 0b001, 0), 0);
        assert_eq!(reports(&mut handle), [readable]);
        assert_eq!(evcore_remove_before_close(&mut handle, KEY), 0);
        evcore_close(handle);
    }

    #[test]
    fn a_wake_is_reported_behind_the_events() {
        let mut handle = evcore_open(1).expect("epoll");
        let (near, _far) = UnixStream::pair().expect("a pair");
        let fd = near.as_raw_fd();
        assert_eq!(evcore_add(&mut handle, fd, KEY, 0b100, 0), 0);
        evcore_wake(&evcore_waker(&handle));
        let writable = Report { key: KEY, ready: 4 };
        assert_eq!(reports(&mut handle), [writable, Report::WAKE]);
    }

    #[test]
    fn a_refusal_is_a_negative_errno() {
        let mut handle = evcore_open(1).expect("epoll");
        let (near, _far) = UnixStream::pair().expect("a pair");
        let mut add = |fd, key| evcore_add(&mut handle, fd, key, 0b001, EXCLUSIVE);
        assert_eq!(add(near.as_raw_fd(), KEY), 0);
        assert_eq!(add(near.as_raw_fd(), KEY + 1), -libc::EEXIST);
        assert_eq!(add(-1, KEY + 1), -libc::EBADF);
        assert_eq!(evcore_remove(&mut handle, KEY + 1), -libc::ENOENT);
    }
}
