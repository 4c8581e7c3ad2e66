//! Connecting to a listener, without waiting for the result.
//!
//! The kernel either connects at once or begins to. Both give a [`Stream`], and its first event as a
//! writable socket is the result. A timeout is a timer of the caller.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, bind, connect, sockopt};

use crate::tcp_option::{BIND_ADDRESS_NO_PORT, FAST_OPEN_CONNECT};
use crate::{Address, Error, PathError, Stream, sys};

/// Options of a connection, set before it is made.
///
/// | option | default |
/// |---|---|
/// | [`local_address`](Self::local_address) | the kernel's choice |
/// | [`nodelay`](Self::nodelay) | on |
/// | [`keepalive`](Self::keepalive) | off |
/// | [`fast_open`](Self::fast_open) | off |
///
/// An option that this system or this kind of address does not have is an error, and never ignored.
///
/// # Examples
///
/// ```
/// use evcore_net::{ConnectOptions, Listener};
/// use std::{net::Ipv4Addr, time::Duration};
///
/// let listener = Listener::bind("127.0.0.1:0")?;
/// let stream = ConnectOptions::new()
///     .local_address((Ipv4Addr::LOCALHOST, 0))
///     .keepalive(Duration::from_secs(60))
///     .connect(listener.local_addr())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options have no effect until `connect`"]
pub struct ConnectOptions {
    local_address: Option<SocketAddr>,
    nodelay: bool,
    /// Zero if off.
    keepalive: Duration,
    fast_open: bool,
}

impl ConnectOptions {
    /// The default options, as in the table above.
    pub const fn new() -> Self {
        Self {
            local_address: None,
            nodelay: true,
            keepalive: Duration::ZERO,
            fast_open: false,
        }
    }

    /// Sets the address to connect from, for a machine that has several. By default the kernel chooses
    /// it. Not for Unix sockets.
    ///
    /// With port 0 the kernel chooses a free port. On Linux it does so when it connects, so several
    /// connections share a local port if they lead to different addresses
    /// (`IP_BIND_ADDRESS_NO_PORT`, as in nginx). On other systems each takes a port of its own.
    pub fn local_address(mut self, address: impl Into<SocketAddr>) -> Self {
        self.local_address = Some(address.into());
        self
    }

    /// Sets whether to send small segments at once (`TCP_NODELAY`): on by default, as for
    /// [listeners](crate::ListenerOptions::nodelay). Unix sockets always send at once.
    pub const fn nodelay(mut self, on: bool) -> Self {
        self.nodelay = on;
        self
    }

    /// Sets how long the peer may be silent before the kernel probes whether it still exists
    /// (`SO_KEEPALIVE`), rounded up to whole seconds. The default is [`Duration::ZERO`]: never.
    ///
    /// The number of probes and the pause between them are those of the system. On Linux these are 9
    /// probes, 75 seconds apart. Not for Unix sockets, nor on OpenBSD.
    pub const fn keepalive(mut self, idle: Duration) -> Self {
        self.keepalive = idle;
        self
    }

    /// Sets whether the first bytes may go out with the first segment (TCP Fast Open, RFC 7413): off
    /// by default.
    ///
    /// If this machine has a cookie of the server, the stream counts as connected at once, and the
    /// kernel connects with the first [`send`](Stream::send). A request may then arrive twice, so use
    /// this only if requests may be repeated. Linux only. The kernel silently ignores it unless bit 1
    /// of `net.ipv4.tcp_fastopen` is set, which it is by default.
    pub const fn fast_open(mut self, on: bool) -> Self {
        self.fast_open = on;
        self
    }

    /// Begins to connect to `address`, and does not wait for the result.
    ///
    /// `address` is anything that converts into an [`Address`]: a text such as `"127.0.0.1:80"`,
    /// `"[::1]:80"` or `"unix:/run/server.sock"`, a [`SocketAddr`], or an IP address with a port such
    /// as `([127, 0, 0, 1], 80)`. Host names are not looked up.
    ///
    /// # The result
    ///
    /// Let the poller watch the stream for writing. The first event comes when the connection is made,
    /// or has failed: in the next wait if that has already happened, as is usual for a Unix socket. Then
    /// [`take_error`](Stream::take_error) returns the reason of a failure, or `None` if the stream is
    /// connected.
    ///
    /// Until then, calls fail with `WouldBlock` or [`NotConnected`](io::ErrorKind::NotConnected). The
    /// kernel gives up on an address that does not answer after minutes (Linux: some two minutes).
    /// Close the stream earlier by a timer of your loop.
    ///
    /// # Errors
    ///
    /// - [`Error::BacklogFull`] for a Unix socket whose listener has no room. No event reports room, so
    ///   try again after a pause. (Only Linux has this error; other systems refuse such a client. Over
    ///   TCP the connection stays in progress.)
    /// - [`Error::Connect`] if connecting has already failed: refused, unreachable, or out of
    ///   descriptors or of local ports. The reason is its `source`.
    /// - [`Error::InvalidAddress`] and [`Error::Unsupported`].
    ///
    /// An address that cannot be reached may fail here or later, and the kinds of the errors are the
    /// same. After an error there is no socket.
    ///
    /// # Examples
    ///
    /// ```
    /// use evcore_net::{Error, Stream};
    /// use std::io::ErrorKind;
    ///
    /// let error = Stream::connect("unix:/no/such/server.sock").unwrap_err();
    /// assert!(matches!(error, Error::Connect { .. }));
    /// assert_eq!(std::io::Error::from(error).kind(), ErrorKind::NotFound);
    /// ```
    pub fn connect(
        &self,
        address: impl TryInto<Address, Error: Into<Error>>,
    ) -> Result<Stream, Error> {
        let address = address.try_into().map_err(Into::into)?;
        self.refuse_unsupported(&address)?;
        let connected = match &address {
            Address::Tcp(tcp) => self.connect_tcp(tcp),
            Address::Unix(path) => connect_unix(path),
            Address::Abstract(_) => Err(Failure::path(PathError::Abstract)),
            Address::Unnamed => Err(Failure::path(PathError::Empty)),
        };
        match connected {
            Ok(fd) => Ok(Stream::from_socket(fd)),
            Err(failure) => Err(failure.at(address)),
        }
    }

    fn refuse_unsupported(&self, address: &Address) -> Result<(), Error> {
        const HERE: &str = "on this system";
        const FOR_UNIX: &str = "for Unix sockets";

        // All fields, so that the compiler asks for a decision about a new one.
        let Self {
            local_address,
            nodelay: _,
            keepalive,
            fast_open,
        } = self;
        let is_unix = address.is_unix();
        let keeps_alive = !keepalive.is_zero();
        let is_bound = local_address.is_some();
        let refusals = [
            (is_bound && is_unix, "local_address", FOR_UNIX),
            (keeps_alive && is_unix, "keepalive", FOR_UNIX),
            (keeps_alive && !sys::HAS_KEEPALIVE_IDLE, "keepalive", HERE),
            (*fast_open && is_unix, "fast_open", FOR_UNIX),
            (*fast_open && FAST_OPEN_CONNECT.is_none(), "fast_open", HERE),
        ];
        Error::of_first_refusal(&refusals, address)
    }

    fn connect_tcp(&self, address: &SocketAddr) -> Result<OwnedFd, Failure> {
        let fd = sys::tcp_socket(address).map_err(failed("socket"))?;
        if self.nodelay {
            sockopt::set_tcp_nodelay(&fd, true).map_err(failed("setsockopt(TCP_NODELAY)"))?;
        }
        if !self.keepalive.is_zero() {
            sys::set_keepalive(&fd, self.keepalive).map_err(failed("setsockopt(SO_KEEPALIVE)"))?;
        }
        if let Some(option) = FAST_OPEN_CONNECT.filter(|_| self.fast_open) {
            option
                .set(&fd, 1)
                .map_err(failed("setsockopt(TCP_FASTOPEN_CONNECT)"))?;
        }
        if let Some(local) = self.local_address {
            if let Some(option) = BIND_ADDRESS_NO_PORT.filter(|_| local.port() == 0) {
                // Without it there are fewer local ports, and nothing else changes.
                let _ = option.set(&fd, 1);
            }
            bind(&fd, &local).map_err(failed("bind"))?;
        }
        begin(connect(&fd, address))?;
        Ok(fd)
    }
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self::new()
    }
}

fn connect_unix(path: &Path) -> Result<OwnedFd, Failure> {
    PathError::check(path).map_err(Failure::path)?;
    let name = SocketAddrUnix::new(path).map_err(failed("connect"))?;
    let fd = sys::unix_socket().map_err(failed("socket"))?;
    begin(connect(&fd, &name))?;
    Ok(fd)
}

/// A connect that is in progress has begun. One that a signal interrupts goes on.
fn begin(connected: rustix::io::Result<()>) -> Result<(), Failure> {
    match connected {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(()),
        Err(errno) => Err(failed("connect")(errno)),
    }
}

/// Why a connection could not be begun.
struct Failure {
    call: &'static str,
    source: io::Error,
}

impl Failure {
    fn path(error: PathError) -> Self {
        Self {
            call: "connect",
            source: io::Error::new(io::ErrorKind::InvalidInput, error),
        }
    }

    fn at(self, address: Address) -> Error {
        let Self { call, source } = self;
        // TCP never has this one: it has no room in a backlog to wait for.
        if address.is_unix() && source.kind() == io::ErrorKind::WouldBlock {
            return Error::BacklogFull { address };
        }
        Error::Connect {
            address,
            call,
            source,
        }
    }
}

fn failed(call: &'static str) -> impl FnOnce(Errno) -> Failure {
    move |errno| Failure {
        call,
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use crate::Listener;
    use crate::loopback::{LOCALHOST, accept_one};

    #[test]
    fn options_reach_the_socket() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let plain = Stream::connect(listener.local_addr()).unwrap();
        assert!(sockopt::tcp_nodelay(&plain).unwrap());
        assert!(!sockopt::socket_keepalive(&plain).unwrap());

        let options = ConnectOptions::new().nodelay(false);
        let stream = options.connect(listener.local_addr()).unwrap();
        assert!(!sockopt::tcp_nodelay(&stream).unwrap());
    }

    #[cfg(not(target_os = "openbsd"))]
    #[test]
    fn keepalive_is_rounded_up_and_never_overflows() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        for (idle, seconds) in [
            (Duration::from_millis(1_001), Some(2)),
            (Duration::MAX, None),
        ] {
            let options = ConnectOptions::new().keepalive(idle);
            let stream = options.connect(listener.local_addr()).unwrap();
            assert!(sockopt::socket_keepalive(&stream).unwrap());
            let idle = sockopt::tcp_keepidle(&stream).unwrap().as_secs();
            assert_eq!(idle, seconds.unwrap_or(idle));
        }
    }

    #[test]
    fn fast_open_reaches_the_socket() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let options = ConnectOptions::new().fast_open(true);
        match FAST_OPEN_CONNECT {
            Some(option) => {
                let stream = options.connect(listener.local_addr()).unwrap();
                assert_eq!(option.value(&stream).unwrap(), 1);
            }
            None => assert!(options.connect(listener.local_addr()).is_err()),
        }
    }

    #[test]
    fn the_local_address_is_the_one_that_was_set() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let options = ConnectOptions::new().local_address((Ipv4Addr::LOCALHOST, 0));
        let stream = options.connect(listener.local_addr()).unwrap();
        let local = stream.local_addr().unwrap().tcp().unwrap();
        assert_eq!(local.ip(), Ipv4Addr::LOCALHOST);
        assert_ne!(local.port(), 0);
        assert_eq!(accept_one(&listener).1, local);
        if let Some(option) = BIND_ADDRESS_NO_PORT {
            assert_eq!(option.value(&stream).unwrap(), 1);
        }
    }

    #[test]
    fn a_local_address_of_another_family_is_refused() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let options = ConnectOptions::new().local_address((Ipv6Addr::LOCALHOST, 0));
        let refused = options.connect(listener.local_addr()).unwrap_err();
        assert!(
            matches!(refused, Error::Connect { call: "bind", .. }),
            "{refused:?}"
        );
    }

    #[test]
    fn an_option_that_a_unix_socket_cannot_have_is_refused() {
        let options = ConnectOptions::new();
        for (options, option) in [
            (options.clone().fast_open(true), "fast_open"),
            (
                options.clone().keepalive(Duration::from_nanos(1)),
                "keepalive",
            ),
            (options.clone().local_address(LOCALHOST), "local_address"),
        ] {
            let refused = options.connect("unix:/no/such.sock").unwrap_err();
            assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
            let message = refused.to_string();
            assert!(message.contains(option), "{message}");
            assert!(message.contains("unix:/no/such.sock"), "{message}");
        }
    }

    #[test]
    fn an_address_that_cannot_be_used_is_invalid_input() {
        let long = Address::Unix("x".repeat(sys::UNIX_PATH_MAX + 1).into());
        for (address, reason) in [
            (long, "choose a shorter one"),
            (Address::Unix("a\0b".into()), "zero byte"),
            (Address::Unix("".into()), "write unix:PATH"),
            (Address::Unnamed, "write unix:PATH"),
        ] {
            let error = Stream::connect(address).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
            let kind = io::Error::from(error).kind();
            assert_eq!(kind, io::ErrorKind::InvalidInput);
        }
        let error = Stream::connect("localhost:80").unwrap_err();
        assert!(matches!(error, Error::InvalidAddress(_)), "{error}");
    }
}
