//! The flags of poll. Event ports and `/dev/poll` have the same ones.

use std::{ffi::c_short, os::fd::RawFd};

use crate::{interest::Interest, ready::Ready};

/// The flags that are reported without a request.
pub(in crate::sys) const UNREQUESTED: c_short = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;

pub(in crate::sys) fn requested_flags(interest: Interest) -> c_short {
    [
        (Interest::READ, libc::POLLIN),
        (Interest::WRITE, libc::POLLOUT),
        (Interest::PRIORITY, libc::POLLPRI),
    ]
    .into_iter()
    .filter(|(side, _)| interest.contains(*side))
    .fold(0, |flags, (_, flag)| flags | flag)
}

pub(in crate::sys) fn readiness(found: c_short) -> Ready {
    [
        (libc::POLLIN, Ready::READABLE),
        (libc::POLLOUT, Ready::WRITABLE),
        (libc::POLLPRI, Ready::PRIORITY),
        (libc::POLLERR, Ready::ERROR),
        (libc::POLLNVAL, Ready::ERROR),
        (libc::POLLHUP, Ready::WRITE_CLOSED),
    ]
    .into_iter()
    .filter(|(flag, _)| found & flag != 0)
    .fold(Ready::NONE, |ready, (_, bit)| ready | bit)
}

pub(in crate::sys) fn entry(fd: RawFd, events: c_short) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}
