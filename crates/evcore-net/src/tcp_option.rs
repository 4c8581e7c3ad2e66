//! Options of TCP sockets that rustix does not have.
//!
//! This file alone decides which systems have them.

#![allow(
    unsafe_code,
    reason = "setsockopt for options that rustix does not have"
)]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// An option of a TCP socket whose value is a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpOption {
    level: c_int,
    name: c_int,
}

/// The kernel reports a connection when its first bytes have arrived. The value is in seconds.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const DEFER_ACCEPT: Option<TcpOption> = Some(TcpOption {
    level: libc::IPPROTO_TCP,
    name: libc::TCP_DEFER_ACCEPT,
});
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const DEFER_ACCEPT: Option<TcpOption> = None;

/// The first segment of a connection may carry data (RFC 7413). The value is the limit of pending
/// connections of that kind.
///
/// Apple's systems require it to be set after `listen`, which is not implemented.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(crate) const FAST_OPEN: Option<TcpOption> = Some(TcpOption {
    level: libc::IPPROTO_TCP,
    name: libc::TCP_FASTOPEN,
});
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(crate) const FAST_OPEN: Option<TcpOption> = None;

/// The kernel connects with the first bytes that are sent, if it has a cookie of the server.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const FAST_OPEN_CONNECT: Option<TcpOption> = Some(TcpOption {
    level: libc::IPPROTO_TCP,
    name: libc::TCP_FASTOPEN_CONNECT,
});
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const FAST_OPEN_CONNECT: Option<TcpOption> = None;

/// The kernel chooses the local port when it connects, and not when it binds. It is for IPv6 too.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const BIND_ADDRESS_NO_PORT: Option<TcpOption> = Some(TcpOption {
    level: libc::IPPROTO_IP,
    name: libc::IP_BIND_ADDRESS_NO_PORT,
});
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const BIND_ADDRESS_NO_PORT: Option<TcpOption> = None;

impl TcpOption {
    /// Sets the option of a socket.
    pub(crate) fn set(self, socket: impl AsFd, value: c_int) -> rustix::io::Result<()> {
        // SAFETY: the kernel reads as many bytes at the pointer as `value` has, and keeps no
        // pointer. The descriptor is borrowed, so it is open.
        let result = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                self.level,
                self.name,
                (&raw const value).cast(),
                size_of_in_kernel::<c_int>(),
            )
        };
        succeeded(result)
    }

    /// Reads the option of a socket.
    #[cfg(test)]
    pub(crate) fn value(self, socket: impl AsFd) -> rustix::io::Result<c_int> {
        let (mut value, mut size) = (0, size_of_in_kernel::<c_int>());
        // SAFETY: the kernel writes at most `size` bytes at the first pointer, which is the size of
        // `value`, and a size at the second. It keeps neither pointer.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                self.level,
                self.name,
                (&raw mut value).cast(),
                &raw mut size,
            )
        };
        succeeded(result).map(|()| value)
    }
}

/// The size of a value in the type that the kernel uses.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpStream;
    use std::time::Duration;

    use crate::loopback::{LOCALHOST, accept_one};
    use crate::{Accept, Error, Listener};

    #[test]
    fn defer_accept_withholds_a_connection_without_bytes() {
        let options = Listener::builder().defer_accept(Duration::from_millis(1_500));
        let Some(option) = DEFER_ACCEPT else {
            let refused = options.bind(LOCALHOST);
            assert!(matches!(refused, Err(Error::Unsupported { .. })));
            return;
        };
        let listener = options.bind(LOCALHOST).unwrap();
        // The kernel counts retransmissions, so it may round up.
        assert!(option.value(&listener).unwrap() >= 2);
        let mut client = TcpStream::connect(listener.local_addr()).unwrap();
        assert!(matches!(listener.accept().unwrap(), Accept::WouldBlock));
        client.write_all(b"hello").unwrap();
        let (stream, _) = accept_one(&listener);
        assert_eq!(
            stream.recv(&mut [0; 8]).unwrap(),
            5,
            "the bytes have arrived"
        );
    }

    #[test]
    fn fast_open_reaches_the_socket() {
        let options = Listener::builder().fast_open(7);
        match FAST_OPEN {
            Some(option) => {
                let listener = options.bind(LOCALHOST).unwrap();
                assert_ne!(option.value(&listener).unwrap(), 0);
                let plain = Listener::bind(LOCALHOST).unwrap();
                assert_eq!(option.value(&plain).unwrap(), 0);
            }
            None => assert!(options.bind(LOCALHOST).is_err()),
        }
    }

    /// The backlog of a listener: how many connections wait, and how many may wait.
    #[cfg(target_os = "linux")]
    fn backlog(listener: &Listener) -> (u32, u32) {
        // SAFETY: the structure has only integer fields, and zero is a valid integer.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut size = size_of_in_kernel::<libc::tcp_info>();
        // SAFETY: the kernel writes at most `size` bytes at the first pointer, which is the size of
        // `info`, and a size at the second. It keeps neither pointer.
        let result = unsafe {
            libc::getsockopt(
                listener.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut size,
            )
        };
        succeeded(result).unwrap();
        (info.tcpi_unacked, info.tcpi_sacked)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_backlog_reaches_the_kernel() {
        for limit in [1, 100] {
            let options = Listener::builder().backlog(limit);
            let listener = options.bind(LOCALHOST).unwrap();
            assert_eq!(backlog(&listener), (0, limit));
            let _client = TcpStream::connect(listener.local_addr()).unwrap();
            assert_eq!(backlog(&listener), (1, limit));
        }
    }
}
