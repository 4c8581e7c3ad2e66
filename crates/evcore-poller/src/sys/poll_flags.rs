//! The flags of poll. Event ports and `/dev/poll` have the same.

use std::ffi::{c_int, c_short};

use crate::{interest::Interest, ready::Ready};

/// The flags that ask for `interest`.
pub(super) fn asking(interest: Interest) -> c_short {
    [
        (Interest::READ, libc::POLLIN),
        (Interest::WRITE, libc::POLLOUT),
        (Interest::PRIORITY, libc::POLLPRI),
    ]
    .into_iter()
    .filter(|(side, _)| interest.contains(*side))
    .fold(0, |flags, (_, flag)| flags | flag)
}

/// The readiness of the flags that poll has found.
pub(super) fn readiness(found: impl Into<c_int>) -> Ready {
    let found = found.into();
    [
        (libc::POLLIN, Ready::READABLE),
        (libc::POLLOUT, Ready::WRITABLE),
        (libc::POLLPRI, Ready::PRIORITY),
        (libc::POLLERR, Ready::ERROR),
        (libc::POLLNVAL, Ready::ERROR),
        (libc::POLLHUP, Ready::WRITE_CLOSED),
    ]
    .into_iter()
    .filter(|(flag, _)| found & c_int::from(*flag) != 0)
    .fold(Ready::NONE, |ready, (_, bit)| ready | bit)
}
