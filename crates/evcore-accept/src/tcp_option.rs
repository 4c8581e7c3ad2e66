//! Options of TCP listeners that rustix leaves out.
//!
//! Which systems have them is said here alone.

#![allow(unsafe_code, reason = "setsockopt for options that rustix leaves out")]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// An option of a TCP socket whose value is a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpOption {
    name: c_int,
}

/// Connections are reported when their first bytes have come; the value is in seconds.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const DEFER_ACCEPT: Option<TcpOption> = Some(TcpOption {
    name: libc::TCP_DEFER_ACCEPT,
});
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const DEFER_ACCEPT: Option<TcpOption> = None;

/// Data may come with the first segment (RFC 7413); the value is how many such may be pending.
///
/// Apple's systems want it set after `listen`, which nobody has tried here.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(crate) const FAST_OPEN: Option<TcpOption> = Some(TcpOption {
    name: libc::TCP_FASTOPEN,
});
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(crate) const FAST_OPEN: Option<TcpOption> = None;

impl TcpOption {
    /// Sets the option of a socket.
    pub(crate) fn set(self, socket: impl AsFd, value: c_int) -> rustix::io::Result<()> {
        // SAFETY: the kernel reads `size` bytes behind the pointer, which is the size of `value`,
        // and keeps no pointer; the descriptor is open, since it is borrowed.
        let result = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                self.name,
                (&raw const value).cast(),
                size_of_in_kernel::<c_int>(),
            )
        };
        succeeded(result)
    }

    /// What the option of a socket is.
    #[cfg(test)]
    pub(crate) fn value(self, socket: impl AsFd) -> rustix::io::Result<c_int> {
        let (mut value, mut size) = (0, size_of_in_kernel::<c_int>());
        // SAFETY: the kernel writes at most `size` bytes behind the first pointer, which is the
        // size of `value`, and a size behind the second; it keeps neither.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                self.name,
                (&raw mut value).cast(),
                &raw mut size,
            )
        };
        succeeded(result).map(|()| value)
    }
}

/// The size of a value as the kernel wants to be told it.
#[expect(clippy::cast_possible_truncation, reason = "options are a few bytes")]
const fn size_of_in_kernel<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

fn succeeded(result: c_int) -> rustix::io::Result<()> {
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}
