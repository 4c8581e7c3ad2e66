//! The system call `poll`. rustix is not used, because its `poll` takes an array of borrowed
//! descriptors. The backends keep their arrays between waits, so the arrays hold numbers.

#![allow(unsafe_code, reason = "poll takes descriptors by number")]

use std::time::Duration;

use rustix::io::Errno;

use super::errno;

/// Waits until an entry has something to report, and returns the number of such entries. `timeout`
/// is at most 24 days; `None` waits without limit.
pub(super) fn poll(array: &mut [libc::pollfd], timeout: Option<Duration>) -> Result<usize, Errno> {
    usize::try_from(call(array, timeout)).map_err(|_| errno::last())
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn call(array: &mut [libc::pollfd], timeout: Option<Duration>) -> libc::c_int {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).expect("24 days of seconds fit"),
        tv_nsec: i32::try_from(timeout.subsec_nanos())
            .expect("below 10^9")
            .into(),
    });
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the kernel writes to the entries of `array`, and is given their number. `timeout`
    // points to a local that outlives the call. If a descriptor was closed since it was registered,
    // the kernel reports it as invalid, or watches the file that has its number now. Watching the
    // wrong file touches no memory.
    unsafe { libc::ppoll(array.as_mut_ptr(), count(array), timeout, std::ptr::null()) }
}

/// The timeout is in milliseconds here, because not every system has `ppoll`.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn call(array: &mut [libc::pollfd], timeout: Option<Duration>) -> libc::c_int {
    let timeout = crate::sys::chunked_wait::in_ms(timeout);
    // SAFETY: as above.
    unsafe { libc::poll(array.as_mut_ptr(), count(array), timeout) }
}

fn count(array: &[libc::pollfd]) -> libc::nfds_t {
    libc::nfds_t::try_from(array.len()).expect("descriptors end far below 2^32")
}
