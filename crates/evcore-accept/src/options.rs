//! How a listener is to be made.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{bind, listen, sockopt};

use crate::{Error, Listener, sys};

/// Options for a [`Listener`] that is about to be made.
///
/// | option | default |
/// |---|---|
/// | [`backlog`](Self::backlog) | 511 |
/// | [`reuse_address`](Self::reuse_address) | on |
/// | [`reuse_port`](Self::reuse_port) | off |
/// | [`v6_only`](Self::v6_only) | on |
/// | [`nodelay`](Self::nodelay) | on |
/// | [`retry_in_use`](Self::retry_in_use) | off |
///
/// # Examples
///
/// ```
/// use evcore_accept::Listener;
///
/// let listener = Listener::builder()
///     .backlog(4096)
///     .nodelay(false)
///     .bind("127.0.0.1:0".parse()?)?;
/// assert_ne!(listener.local_addr().port(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options listen nowhere until `bind`"]
pub struct ListenerOptions {
    backlog: u32,
    reuse_address: bool,
    reuse_port: bool,
    v6_only: bool,
    nodelay: bool,
    retry_in_use: bool,
}

/// How often an address in use is tried again (nginx).
const BIND_RETRIES: u32 = 5;

/// The pause before each retry (nginx).
const BIND_RETRY_PAUSE: Duration = Duration::from_millis(500);

impl ListenerOptions {
    /// The defaults, as in the table above.
    pub const fn new() -> Self {
        Self {
            backlog: 511,
            reuse_address: true,
            reuse_port: false,
            v6_only: true,
            nodelay: true,
            retry_in_use: false,
        }
    }

    /// How many connections may wait to be accepted: 511 by default, as in nginx.
    ///
    /// The kernel takes it as a wish and lowers it to its own limit without a word: on Linux
    /// `net.core.somaxconn`, which is 4096 by default and was 128 before 5.4; on FreeBSD
    /// `kern.ipc.soacceptqueue`; on macOS `kern.ipc.somaxconn`.
    pub const fn backlog(mut self, connections: u32) -> Self {
        self.backlog = connections;
        self
    }

    /// Whether to listen where connections of an earlier listener still linger (`SO_REUSEADDR`): on
    /// by default, so that a server can be restarted.
    ///
    /// It does not let two listeners share an address.
    pub const fn reuse_address(mut self, on: bool) -> Self {
        self.reuse_address = on;
        self
    }

    /// Whether other sockets may listen on the same address, each with its own queue: off by
    /// default.
    ///
    /// Linux (`SO_REUSEPORT`) and FreeBSD (`SO_REUSEPORT_LB`) spread the connections over them.
    /// NetBSD and macOS let them bind, and promise nothing about who gets a connection.
    /// On illumos it is not available here, and [`bind`](Self::bind) fails.
    pub const fn reuse_port(mut self, on: bool) -> Self {
        self.reuse_port = on;
        self
    }

    /// Whether an IPv6 address takes IPv6 connections only: on by default.
    ///
    /// If off, `[::]` takes IPv4 connections too, under mapped addresses such as
    /// `::ffff:192.0.2.1`. No effect on an IPv4 address.
    pub const fn v6_only(mut self, on: bool) -> Self {
        self.v6_only = on;
        self
    }

    /// Whether what is accepted sends small segments at once (`TCP_NODELAY`): on by default.
    ///
    /// On Linux connections inherit it from the listener, so it costs no system call for each;
    /// elsewhere it costs one.
    pub const fn nodelay(mut self, on: bool) -> Self {
        self.nodelay = on;
        self
    }

    /// Whether to try again when the address is in use, 5 times with 500 ms before each: off by
    /// default.
    ///
    /// For a server that starts while its predecessor is still leaving, as nginx does it.
    /// While it retries, [`bind`](Self::bind) blocks the thread, for 2.5 s at most.
    pub const fn retry_in_use(mut self, on: bool) -> Self {
        self.retry_in_use = on;
        self
    }

    /// Makes a listener at `address`; port 0 asks for any that is free.
    ///
    /// # Errors
    ///
    /// [`Error::AddressInUse`], [`Error::AddressNotAvailable`], [`Error::PermissionDenied`], or
    /// [`Error::Listen`] for whatever else the system has to say.
    pub fn bind(&self, address: SocketAddr) -> Result<Listener, Error> {
        if self.retry_in_use {
            retry_in_use(|| self.open(address), || thread::sleep(BIND_RETRY_PAUSE))
        } else {
            self.open(address)
        }
    }

    /// One attempt to make the listener.
    fn open(&self, address: SocketAddr) -> Result<Listener, Error> {
        let failed = |call| move |errno: Errno| Error::listen(address, call, errno);

        let fd = sys::tcp_socket(&address).map_err(failed("socket"))?;
        sockopt::set_socket_reuseaddr(&fd, self.reuse_address)
            .map_err(failed("setsockopt(SO_REUSEADDR)"))?;
        if self.reuse_port {
            sys::set_reuse_port(&fd).map_err(failed("setsockopt(SO_REUSEPORT)"))?;
        }
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, self.v6_only)
                .map_err(failed("setsockopt(IPV6_V6ONLY)"))?;
        }
        sockopt::set_tcp_nodelay(&fd, self.nodelay).map_err(failed("setsockopt(TCP_NODELAY)"))?;
        bind(&fd, &address).map_err(failed("bind"))?;
        listen(&fd, i32::try_from(self.backlog).unwrap_or(i32::MAX)).map_err(failed("listen"))?;
        Listener::ready(fd).map_err(failed("getsockname"))
    }
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Repeats `attempt` while the address is in use, with a `pause` before each retry.
///
/// The whole attempt, since "address in use" can come from `listen` as well as from `bind`.
fn retry_in_use<T>(
    mut attempt: impl FnMut() -> Result<T, Error>,
    mut pause: impl FnMut(),
) -> Result<T, Error> {
    for _ in 0..BIND_RETRIES {
        match attempt() {
            Err(Error::AddressInUse { .. }) => pause(),
            done => return done,
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, TcpListener};

    use crate::loopback::LOCALHOST;

    fn in_use() -> Error {
        Error::AddressInUse { address: LOCALHOST }
    }

    #[test]
    fn an_address_in_use_is_retried_five_times() {
        let (mut attempts, mut pauses) = (0, 0);
        let result = retry_in_use::<()>(
            || {
                attempts += 1;
                Err(in_use())
            },
            || pauses += 1,
        );
        assert!(matches!(result, Err(Error::AddressInUse { .. })));
        assert_eq!((attempts, pauses), (6, 5));
    }

    #[test]
    fn retrying_ends_when_the_address_is_free() {
        let mut attempts = 0;
        let mut pauses = 0;
        let result = retry_in_use(
            || {
                attempts += 1;
                if attempts == 3 {
                    Ok("bound")
                } else {
                    Err(in_use())
                }
            },
            || pauses += 1,
        );
        assert_eq!(result.unwrap(), "bound");
        assert_eq!(pauses, 2);
    }

    #[test]
    fn other_errors_are_not_retried() {
        let mut pauses = 0;
        let result = retry_in_use::<()>(
            || Err(Error::PermissionDenied { address: LOCALHOST }),
            || pauses += 1,
        );
        assert!(matches!(result, Err(Error::PermissionDenied { .. })));
        assert_eq!(pauses, 0);
    }

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
    fn an_address_of_another_machine_is_not_available() {
        // From the block that is reserved for documentation.
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
    fn v6_only_is_what_was_asked_for() {
        // Linux makes every other address v6-only of its own accord.
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
    fn reuse_address_is_what_was_asked_for() {
        for on in [true, false] {
            let listener = Listener::builder()
                .reuse_address(on)
                .bind(LOCALHOST)
                .unwrap();
            assert_eq!(sockopt::socket_reuseaddr(&listener).unwrap(), on);
        }
    }

    #[test]
    fn a_backlog_beyond_the_kernels_range_is_the_largest() {
        assert!(
            Listener::builder()
                .backlog(u32::MAX)
                .bind(LOCALHOST)
                .is_ok()
        );
    }
}
