//! The table of socket options: one row for each option, with the systems and the addresses that
//! have it.
//!
//! Listeners and connects take their options from this table. Each value is a number or a text, so
//! one function sets them all. The setters of rustix and socket2 do not exist on systems without
//! the option, so each use would repeat the list of systems. Neither library has all options.

#![allow(unsafe_code, reason = "setsockopt and getsockopt for each row")]

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use crate::address::Address;

/// The constants of libc; those that have another name on some systems are renamed.
mod c {
    #[cfg(target_os = "freebsd")]
    // FreeBSD's `SO_REUSEPORT` lets several sockets listen too, but does not spread the
    // connections.
    pub(super) use libc::SO_REUSEPORT_LB as SO_REUSEPORT;
    #[cfg(target_vendor = "apple")]
    pub(super) use libc::TCP_KEEPALIVE as TCP_KEEPIDLE;
    pub(super) use libc::*;
}

#[derive(Debug)]
pub(crate) struct SocketOption {
    /// The name of the method that sets it.
    pub(crate) name: &'static str,
    addresses: Addresses,
    support: Support,
}

/// The kinds of address whose sockets have an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addresses {
    Tcp,
    Ipv4,
    Ipv6,
    Unix,
}

#[derive(Clone, Copy, Debug)]
enum Support {
    Number {
        level: c_int,
        number: c_int,
    },
    /// The code that opens the socket sets the option by another call.
    OtherCall,
    Missing,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Number(c_int),
    Text(&'a str),
    /// The code that opens the socket applies the value itself. The row is used only to refuse the
    /// option where it is not available.
    OtherCall,
}

/// Declares rows for the systems for which the predicate holds. On other systems the rows are
/// `Missing`.
macro_rules! rows {
    (if $systems:meta; $($(#[$doc:meta])* $row:ident = $name:literal, $kind:ident, $level:ident, $number:ident;)+) => {$(
        $(#[$doc])*
        pub(crate) const $row: SocketOption = SocketOption {
            name: $name,
            addresses: Addresses::$kind,
            #[cfg($systems)]
            support: Support::Number { level: c::$level, number: c::$number },
            #[cfg(not($systems))]
            support: Support::Missing,
        };
    )+};
}

rows! { if all();
    REUSE_ADDRESS = "reuse_address", Tcp, SOL_SOCKET, SO_REUSEADDR;
    V6_ONLY = "v6_only", Ipv6, IPPROTO_IPV6, IPV6_V6ONLY;
    NODELAY = "nodelay", Tcp, IPPROTO_TCP, TCP_NODELAY;
    RECEIVE_BUFFER = "receive_buffer", Tcp, SOL_SOCKET, SO_RCVBUF;
    SEND_BUFFER = "send_buffer", Tcp, SOL_SOCKET, SO_SNDBUF;
    TOS_V4 = "tos", Ipv4, IPPROTO_IP, IP_TOS;
    TOS_V6 = "tos", Ipv6, IPPROTO_IPV6, IPV6_TCLASS;
}

rows! { if not(any(target_os = "illumos", target_os = "solaris"));
    REUSE_PORT = "reuse_port", Tcp, SOL_SOCKET, SO_REUSEPORT;
}

// On OpenBSD the times and the number of probes are settings of the whole system. The method
// `keepalive` sets a time, so it is missing there although SO_KEEPALIVE exists.
rows! { if not(target_os = "openbsd");
    KEEPALIVE = "keepalive", Tcp, SOL_SOCKET, SO_KEEPALIVE;
    /// The value is in seconds.
    KEEPALIVE_IDLE = "keepalive", Tcp, IPPROTO_TCP, TCP_KEEPIDLE;
    /// The value is in seconds.
    KEEPALIVE_INTERVAL = "keepalive_interval", Tcp, IPPROTO_TCP, TCP_KEEPINTVL;
    KEEPALIVE_PROBES = "keepalive_probes", Tcp, IPPROTO_TCP, TCP_KEEPCNT;
}

rows! { if any(target_os = "linux", target_os = "android", target_os = "freebsd");
    /// The first segment of a connection may carry data (RFC 7413). The value is the limit of
    /// pending connections of that kind.
    ///
    /// Apple's systems require the option to be set after `listen`, and this crate does not do
    /// that.
    FAST_OPEN = "fast_open", Tcp, IPPROTO_TCP, TCP_FASTOPEN;
    CONGESTION_CONTROL = "congestion_control", Tcp, IPPROTO_TCP, TCP_CONGESTION;
}

rows! { if any(target_os = "linux", target_os = "android");
    /// The kernel reports a connection when its first bytes have arrived. The value is in seconds.
    DEFER_ACCEPT = "defer_accept", Tcp, IPPROTO_TCP, TCP_DEFER_ACCEPT;
    /// The kernel connects with the first bytes that are sent, if it has a cookie of the server.
    FAST_OPEN_CONNECT = "fast_open", Tcp, IPPROTO_TCP, TCP_FASTOPEN_CONNECT;
    /// The kernel chooses the local port when it connects, and not when it binds. It works for IPv6
    /// too.
    BIND_ADDRESS_NO_PORT = "local_address", Tcp, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT;
    /// The type of service of the IPv4 packets that an IPv6 socket sends.
    TOS_OF_MAPPED = "tos", Ipv6, IPPROTO_IP, IP_TOS;
    /// The value is in milliseconds.
    USER_TIMEOUT = "user_timeout", Tcp, IPPROTO_TCP, TCP_USER_TIMEOUT;
    NOTSENT_LOWAT = "notsent_lowat", Tcp, IPPROTO_TCP, TCP_NOTSENT_LOWAT;
    MARK = "mark", Tcp, SOL_SOCKET, SO_MARK;
    DEVICE = "device", Tcp, SOL_SOCKET, SO_BINDTODEVICE;
    TRANSPARENT_V4 = "transparent", Ipv4, IPPROTO_IP, IP_TRANSPARENT;
    TRANSPARENT_V6 = "transparent", Ipv6, IPPROTO_IPV6, IPV6_TRANSPARENT;
    /// The value is in microseconds.
    BUSY_POLL = "busy_poll", Tcp, SOL_SOCKET, SO_BUSY_POLL;
}

/// Multipath TCP, which is chosen by the protocol of the socket.
pub(crate) const MULTIPATH: SocketOption = SocketOption {
    name: "multipath",
    addresses: Addresses::Tcp,
    support: if cfg!(any(target_os = "linux", target_os = "android")) {
        Support::OtherCall
    } else {
        Support::Missing
    },
};

/// The local address of a connection, which is set by bind(2).
pub(crate) const LOCAL_ADDRESS: SocketOption = SocketOption {
    name: "local_address",
    addresses: Addresses::Tcp,
    support: Support::OtherCall,
};

/// The permissions of a Unix socket's file, which are set by chmod(2).
pub(crate) const MODE: SocketOption = SocketOption {
    name: "mode",
    addresses: Addresses::Unix,
    support: Support::OtherCall,
};

impl SocketOption {
    /// Returns where the option is not available, as the end of a message, for example `for TCP` or
    /// `on this system`. Returns `None` if a socket of this address has the option.
    pub(crate) fn missing_place(&self, address: &Address) -> Option<&'static str> {
        let is_v4 = address.tcp().map(|address| address.is_ipv4());
        match (self.addresses, is_v4) {
            (Addresses::Unix, Some(_)) => Some("for TCP"),
            (Addresses::Tcp | Addresses::Ipv4 | Addresses::Ipv6, None) => Some("for Unix sockets"),
            (Addresses::Ipv6, Some(true)) => Some("for IPv4"),
            (Addresses::Ipv4, Some(false)) => Some("for IPv6"),
            _ => matches!(self.support, Support::Missing).then_some("on this system"),
        }
    }

    pub(crate) fn set(&self, socket: impl AsFd, value: Value<'_>) -> rustix::io::Result<()> {
        match (self.support, value) {
            (Support::Missing, _) => Err(Errno::NOPROTOOPT),
            (Support::Number { level, number }, Value::Number(value)) => {
                let value = value.to_ne_bytes();
                set_bytes(socket, (level, number), &value)
            }
            // Linux cuts a name off after `TEXT_MAX` bytes and at a zero byte. An empty name is an
            // error for `TCP_CONGESTION`, but with `SO_BINDTODEVICE` it removes the binding.
            (_, Value::Text(text))
                if !(1..=TEXT_MAX).contains(&text.len()) || text.contains('\0') =>
            {
                Err(Errno::INVAL)
            }
            (Support::Number { level, number }, Value::Text(text)) => {
                set_bytes(socket, (level, number), text.as_bytes())
            }
            (Support::OtherCall, _) | (_, Value::OtherCall) => Ok(()),
        }
    }

    #[cfg(test)]
    pub(crate) fn read(&self, socket: impl AsFd) -> Option<c_int> {
        let Support::Number { level, number } = self.support else {
            return None;
        };
        let [value] = value(socket, level, number).unwrap();
        Some(value)
    }

    /// Reads an option whose value is a text of at most 16 bytes.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn read_text(&self, socket: impl AsFd) -> String {
        let Support::Number { level, number } = self.support else {
            panic!("this system lacks {self:?}");
        };
        let value: [c_int; 4] = value(socket, level, number).unwrap();
        let bytes = value.iter().flat_map(|four| four.to_ne_bytes());
        let text = bytes.take_while(|byte| *byte != 0).map(char::from);
        text.collect()
    }
}

/// Length of the longest name of a device (`IFNAMSIZ`) or of a congestion control, in bytes and
/// without the zero at its end.
const TEXT_MAX: usize = 15;

fn set_bytes(
    socket: impl AsFd,
    (level, number): (c_int, c_int),
    value: &[u8],
) -> rustix::io::Result<()> {
    let size = libc::socklen_t::try_from(value.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: `size` is the length of `value`. The kernel reads at most `size` bytes at the
    // pointer, and keeps no pointer. The descriptor is borrowed, so it is open.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            number,
            value.as_ptr().cast::<c_void>(),
            size,
        )
    };
    succeeded(result)
}

/// The credentials of the peer of a Unix socket: process, user and group, as the kernel stores
/// them.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn peer_credentials(socket: impl AsFd) -> rustix::io::Result<[u32; 3]> {
    // rustix's function cannot be used: its type for process ids excludes 0, which the kernel
    // returns if the peer is a process of another namespace.
    let three = value(socket, libc::SOL_SOCKET, libc::SO_PEERCRED)?;
    Ok(three.map(|number| u32::from_ne_bytes(number.to_ne_bytes())))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn peer_credentials(_socket: impl AsFd) -> rustix::io::Result<[u32; 3]> {
    Err(Errno::OPNOTSUPP)
}

/// Milliseconds since the last packet of the peer.
#[cfg(target_os = "linux")]
pub(crate) fn last_packet_ms(socket: impl AsFd) -> rustix::io::Result<u32> {
    const DATA: usize =
        std::mem::offset_of!(libc::tcp_info, tcpi_last_data_recv) / size_of::<c_int>();
    const ACK: usize =
        std::mem::offset_of!(libc::tcp_info, tcpi_last_ack_recv) / size_of::<c_int>();
    let info: [c_int; ACK + 1] = value(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    // A packet that only brings data does not update the time of the last acknowledgement. Before
    // the first data, the kernel counts the time of the last data from the creation of the socket.
    let ms = |at: usize| u32::from_ne_bytes(info[at].to_ne_bytes());
    Ok(ms(DATA).min(ms(ACK)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn last_packet_ms(_socket: impl AsFd) -> rustix::io::Result<u32> {
    Err(Errno::OPNOTSUPP)
}

#[cfg(any(test, target_os = "linux", target_os = "android"))]
fn value<const N: usize>(
    socket: impl AsFd,
    level: c_int,
    number: c_int,
) -> rustix::io::Result<[c_int; N]> {
    let (mut value, mut size) = ([0; N], size_in_kernel::<[c_int; N]>());
    // SAFETY: `size` is the size of `value`. The kernel writes at most `size` bytes at the first
    // pointer. At the second pointer it writes a new `size`. It keeps neither pointer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            number,
            (&raw mut value).cast(),
            &raw mut size,
        )
    };
    succeeded(result).map(|()| value)
}

/// The size of a value in the type that the kernel uses.
#[cfg(any(test, target_os = "linux", target_os = "android"))]
#[expect(clippy::cast_possible_truncation, reason = "options are a few bytes")]
const fn size_in_kernel<T>() -> libc::socklen_t {
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
        let listener = match options.bind(LOCALHOST) {
            Ok(listener) => listener,
            Err(refused) => {
                assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
                assert!(
                    DEFER_ACCEPT.missing_place(&LOCALHOST.into()).is_some(),
                    "{refused}"
                );
                return;
            }
        };
        // The kernel stores the time as a number of retransmissions, so it may round up.
        assert!(DEFER_ACCEPT.read(&listener).unwrap() >= 2);
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
        match Listener::builder().fast_open(7).bind(LOCALHOST) {
            Ok(listener) => {
                assert_ne!(FAST_OPEN.read(&listener).unwrap(), 0);
                let plain = Listener::bind(LOCALHOST).unwrap();
                assert_eq!(FAST_OPEN.read(&plain).unwrap(), 0);
            }
            Err(refused) => {
                assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
                assert!(
                    FAST_OPEN.missing_place(&LOCALHOST.into()).is_some(),
                    "{refused}"
                );
            }
        }
    }

    /// The backlog of a listener: the number of connections that wait, and the number that may
    /// wait.
    #[cfg(target_os = "linux")]
    fn backlog(listener: &Listener) -> (u32, u32) {
        // SAFETY: the structure has only integer fields, and zero is a valid integer.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut size = size_in_kernel::<libc::tcp_info>();
        // SAFETY: `size` is the size of `info`. The kernel writes at most `size` bytes at the first
        // pointer. At the second pointer it writes a new `size`. It keeps neither pointer.
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
