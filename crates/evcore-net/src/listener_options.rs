//! The options of a listener.

use std::time::Duration;

use crate::socket_options::SocketOptions;

/// Options of a [`Listener`](crate::Listener), set before it is bound.
///
/// | option | default |
/// |---|---|
/// | [`backlog`](Self::backlog) | 511 |
/// | [`reuse_address`](Self::reuse_address) | on |
/// | [`reuse_port`](Self::reuse_port) | off |
/// | [`v6_only`](Self::v6_only) | on |
/// | [`defer_accept`](Self::defer_accept) | off |
/// | [`fast_open`](Self::fast_open) | off |
/// | [`mode`](Self::mode) | from the umask |
/// | [`retry_in_use`](Self::retry_in_use) | off |
/// | [`socket`](Self::socket) | those of [`SocketOptions`] |
///
/// An option that this system or this kind of address does not have is an error. (Only
/// [`reuse_address`](Self::reuse_address) and [`nodelay`](SocketOptions::nodelay) are ignored for
/// Unix sockets.)
///
/// # Examples
///
/// ```
/// use evcore_net::Listener;
///
/// let listener = Listener::builder()
///     .backlog(4096)
///     .bind("127.0.0.1:0")?;
/// assert_ne!(listener.local_addr().tcp().unwrap().port(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options have no effect until `bind`"]
pub struct ListenerOptions {
    pub(crate) backlog: u32,
    pub(crate) reuse_address: bool,
    pub(crate) reuse_port: bool,
    pub(crate) v6_only: bool,
    /// Zero if it is off.
    pub(crate) defer_accept: Duration,
    pub(crate) fast_open: u32,
    pub(crate) mode: Option<u32>,
    pub(crate) retry_in_use: bool,
    pub(crate) socket: SocketOptions,
}

impl ListenerOptions {
    /// The default options, as in the table above.
    pub const fn new() -> Self {
        Self {
            backlog: 511,
            reuse_address: true,
            reuse_port: false,
            v6_only: true,
            defer_accept: Duration::ZERO,
            fast_open: 0,
            mode: None,
            retry_in_use: false,
            socket: SocketOptions::new(),
        }
    }

    /// Sets how many connections may wait to be accepted: 511 by default, as in nginx.
    ///
    /// The kernel silently lowers it to its own limit. On Linux that is `net.core.somaxconn`, which
    /// is 4096 by default and was 128 before 5.4; on FreeBSD `kern.ipc.soacceptqueue`; on macOS
    /// `kern.ipc.somaxconn`.
    pub const fn backlog(mut self, connections: u32) -> Self {
        self.backlog = connections;
        self
    }

    /// Sets whether to listen at an address that connections of an earlier listener still use
    /// (`SO_REUSEADDR`): on by default, so that a server can be restarted.
    ///
    /// This option does not let two listeners share an address. It has no effect on Unix sockets.
    pub const fn reuse_address(mut self, on: bool) -> Self {
        self.reuse_address = on;
        self
    }

    /// Sets whether other sockets may listen at the same address, each with a backlog of its own:
    /// off by default.
    ///
    /// Linux (`SO_REUSEPORT`) and FreeBSD (`SO_REUSEPORT_LB`) spread the connections over them.
    /// NetBSD, OpenBSD and macOS let them bind, and do not specify which of them gets a connection.
    /// The option is not available on illumos, or for Unix sockets.
    pub const fn reuse_port(mut self, on: bool) -> Self {
        self.reuse_port = on;
        self
    }

    /// Sets whether an IPv6 address takes IPv6 connections only: on by default.
    ///
    /// If it is off, `[::]` takes IPv4 connections too, from mapped addresses such as
    /// `::ffff:192.0.2.1`. It cannot be off for an IPv4 address or a Unix socket. On OpenBSD it is
    /// always on.
    pub const fn v6_only(mut self, on: bool) -> Self {
        self.v6_only = on;
        self
    }

    /// Sets how long the kernel may withhold a connection until its first bytes have arrived
    /// (`TCP_DEFER_ACCEPT`), rounded up to whole seconds. The default is [`Duration::ZERO`]:
    /// connections are reported at once.
    ///
    /// Use it for protocols in which the client sends first, so that the server is not woken for
    /// clients that send nothing. When the time is over, the kernel reports the connection anyway,
    /// or drops it. Linux only.
    pub const fn defer_accept(mut self, at_most: Duration) -> Self {
        self.defer_accept = at_most;
        self
    }

    /// Sets the maximum number of pending connections whose first segment carried data (TCP Fast
    /// Open, RFC 7413). The default is 0: none.
    ///
    /// A request may then arrive twice, so use this only if requests may be repeated. Linux and
    /// FreeBSD only. The kernel silently ignores it unless the administrator allows it: on Linux by
    /// the flag 0x2 of `net.ipv4.tcp_fastopen`, on FreeBSD by
    /// `net.inet.tcp.fastopen.server_enable`.
    pub const fn fast_open(mut self, pending_max: u32) -> Self {
        self.fast_open = pending_max;
        self
    }

    /// Sets the permissions of a Unix socket's file, such as `0o660`. The default follows from the
    /// umask. Not for TCP.
    ///
    /// On Linux a client may connect if it may write to the file. Other systems check only the
    /// permissions of the directory. The file has these permissions before any client can connect.
    pub const fn mode(mut self, permissions: u32) -> Self {
        self.mode = Some(permissions);
        self
    }

    /// Sets whether to retry while the address is in use, 5 times with a pause of 500 ms before
    /// each retry: off by default. (nginx makes five attempts in all, with the same pause.)
    ///
    /// It is for a server that starts while its predecessor is still ending. While it retries,
    /// [`bind`](Self::bind) sleeps for at most 2.5 s in all, and signals do not interrupt it. If
    /// the server has to stop meanwhile, use [`bind_with`](Self::bind_with).
    pub const fn retry_in_use(mut self, on: bool) -> Self {
        self.retry_in_use = on;
        self
    }

    /// Sets the options of accepted connections, such as keepalive and the sizes of their buffers.
    pub fn socket(mut self, options: SocketOptions) -> Self {
        self.socket = options;
        self
    }
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, SocketAddr, TcpListener};
    use std::ops::ControlFlow;

    use rustix::net::sockopt;

    use crate::loopback::LOCALHOST;
    use crate::{Address, Error, Listener};

    #[test]
    fn an_address_in_use_is_an_error_at_once_by_default() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let second = Listener::bind(listener.local_addr());
        assert!(
            matches!(second, Err(Error::AddressInUse { .. })),
            "{second:?}"
        );
    }

    #[test]
    fn bind_takes_text_socket_addresses_and_addresses() {
        let options = ListenerOptions::new();
        let text = String::from("127.0.0.1:0");
        let address = Address::from(LOCALHOST);
        let SocketAddr::V4(v4) = LOCALHOST else {
            unreachable!("it is an address of IPv4");
        };
        let listeners = [
            options.bind("127.0.0.1:0"),
            options.bind(&text),
            options.bind(text),
            options.bind(LOCALHOST),
            options.bind(v4),
            options.bind(([127, 0, 0, 1], 0)),
            options.bind((v4.ip().to_owned(), 0)),
            options.bind(&address),
            options.bind(address),
        ];
        for listener in listeners {
            let address = listener.unwrap().local_addr().tcp().unwrap();
            assert_eq!(address.ip(), LOCALHOST.ip());
            assert_ne!(address.port(), 0);
        }
    }

    #[test]
    fn bind_refuses_a_text_that_is_not_an_address() {
        let refused = ListenerOptions::new().bind("localhost:80").unwrap_err();
        assert!(matches!(refused, Error::InvalidAddress(_)), "{refused:?}");
        let message = refused.to_string();
        assert!(
            message.starts_with("\"localhost:80\" is not an address"),
            "{message}"
        );
        let kind = std::io::Error::from(refused).kind();
        assert_eq!(kind, std::io::ErrorKind::InvalidInput);
    }

    #[test]
    fn an_address_of_another_machine_is_not_available() {
        // This block is reserved for documentation.
        let foreign = SocketAddr::from(([192, 0, 2, 1], 0));
        let result = Listener::bind(foreign);
        assert!(
            matches!(result, Err(Error::AddressNotAvailable { .. })),
            "{result:?}"
        );
    }

    #[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
    #[test]
    fn with_reuse_port_two_listeners_share_an_address() {
        let options = Listener::builder().reuse_port(true);
        let first = options.bind(LOCALHOST).unwrap();
        let second = options.bind(first.local_addr()).unwrap();
        assert_eq!(first.local_addr(), second.local_addr());
    }

    #[test]
    fn v6_only_reaches_the_socket() {
        // On Linux, a listener at any other IPv6 address is v6-only in any case.
        let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        if TcpListener::bind(v6).is_err() {
            return; // this machine has no IPv6
        }
        for v6_only in [true, false] {
            let listener = Listener::builder().v6_only(v6_only).bind(v6).unwrap();
            assert_eq!(sockopt::ipv6_v6only(&listener).unwrap(), v6_only);
        }
    }

    #[test]
    fn reuse_address_reaches_the_socket() {
        for on in [true, false] {
            let listener = Listener::builder()
                .reuse_address(on)
                .bind(LOCALHOST)
                .unwrap();
            assert_eq!(sockopt::socket_reuseaddr(&listener).unwrap(), on);
        }
    }

    #[test]
    fn a_backlog_beyond_the_range_of_the_kernel_is_valid() {
        assert!(
            Listener::builder()
                .backlog(u32::MAX)
                .bind(LOCALHOST)
                .is_ok()
        );
    }

    #[test]
    fn an_option_that_an_address_cannot_have_is_refused() {
        let unix = Address::Unix("/no/such/directory/a.sock".into());
        let options = ListenerOptions::new();
        for (options, address, option) in [
            (options.clone().reuse_port(true), &unix, "reuse_port"),
            (options.clone().fast_open(1), &unix, "fast_open"),
            (
                options.clone().defer_accept(Duration::from_nanos(1)),
                &unix,
                "defer_accept",
            ),
            (options.clone().mode(0o600), &LOCALHOST.into(), "mode"),
            (options.clone().v6_only(false), &LOCALHOST.into(), "v6_only"),
            (options.clone().v6_only(false), &unix, "v6_only"),
        ] {
            let refused = options.bind(address.clone()).unwrap_err();
            assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
            let message = refused.to_string();
            assert!(message.contains(option), "{message}");
            assert!(message.contains(&address.to_string()), "{message}");
        }
    }

    #[test]
    fn the_longest_durations_and_counts_do_not_overflow() {
        let options = Listener::builder().fast_open(u32::MAX);
        let has_both = cfg!(target_os = "linux");
        assert!(options.bind(LOCALHOST).is_ok() || !has_both);
        let options = Listener::builder().defer_accept(Duration::MAX);
        assert!(options.bind(LOCALHOST).is_ok() || !has_both);
    }

    #[test]
    fn an_address_in_use_is_retried_only_with_retry_in_use() {
        let other = Listener::bind(LOCALHOST).unwrap();
        let address = other.local_addr();
        let refused = Listener::builder().bind_with(address.clone(), |_| unreachable!());
        assert!(matches!(refused, Err(Error::AddressInUse { .. })));

        let (address, mut other) = (address.clone(), Some(other));
        let bound = Listener::builder()
            .retry_in_use(true)
            .bind_with(address, |_| {
                other = None;
                ControlFlow::Continue(())
            });
        assert!(bound.is_ok());
    }
}
