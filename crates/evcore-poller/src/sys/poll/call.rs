//! The system call of poll.
//!
//! It does not go through rustix, whose array holds borrowed descriptors. This array is kept between
//! waits, and holds numbers.

#![allow(unsafe_code, reason = "poll takes descriptors by number")]

use std::time::Duration;

use rustix::io::Errno;

/// Waits until an entry has something to report, and returns the number of such entries. `timeout`
/// is 24 days at most; `None` waits without limit.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(in crate::sys) fn poll(
    fds: &mut [libc::pollfd],
    timeout: Option<Duration>,
) -> Result<usize, Errno> {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).expect("24 days of seconds fit"),
        tv_nsec: i32::try_from(timeout.subsec_nanos())
            .expect("below 10^9")
            .into(),
    });
    let timeout_ptr = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the kernel writes to the entries of `fds`, of which it is given the number. `timeout`
    // outlives the call. A descriptor that was closed since it was registered is reported as
    // invalid, or taken for another file's: a wrong watch, and no memory is touched.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), count(fds), timeout_ptr, std::ptr::null()) };
    usize::try_from(ready).map_err(|_| last_errno())
}

/// Does the same in milliseconds, because not every system has `ppoll`.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(in crate::sys) fn poll(
    fds: &mut [libc::pollfd],
    timeout: Option<Duration>,
) -> Result<usize, Errno> {
    let timeout = crate::sys::chunked_wait::in_ms(timeout);
    // SAFETY: as above.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), count(fds), timeout) };
    usize::try_from(ready).map_err(|_| last_errno())
}

fn count(fds: &[libc::pollfd]) -> libc::nfds_t {
    libc::nfds_t::try_from(fds.len()).expect("ids end far below 2^32")
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}
