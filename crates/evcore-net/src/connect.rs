//! Connecting to a listener, without waiting for the result.
//!
//! The caller gets a [`Stream`] that is connected, or still connecting. The first event that
//! reports the stream as writable means that the result is known. For a timeout, the caller sets a
//! timer.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, bind, connect};

use crate::{
    address::Address,
    error::{Error, PathError},
    setting::{self, Setting, if_on},
    socket_option::{BIND_ADDRESS_NO_PORT, FAST_OPEN_CONNECT, LOCAL_ADDRESS, Value},
    socket_options::SocketOptions,
    stream::Stream,
    sys,
};

/// Options of a connection, set before it is made.
///
/// | option | default |
/// |---|---|
/// | [`local_address`](Self::local_address) | the kernel's choice |
/// | [`fast_open`](Self::fast_open) | off |
/// | [`socket`](Self::socket) | those of [`SocketOptions`] |
///
/// An option that this system or this kind of address does not have is an error. (Only
/// [`nodelay`](SocketOptions::nodelay) is ignored for Unix sockets.)
///
/// # Examples
///
/// ```
/// use evcore_net::{ConnectOptions, Listener, SocketOptions};
/// use std::{net::Ipv4Addr, time::Duration};
///
/// let listener = Listener::bind("127.0.0.1:0")?;
/// let stream = ConnectOptions::new()
///     .local_address((Ipv4Addr::LOCALHOST, 0))
///     .socket(SocketOptions::new().keepalive(Duration::from_secs(60)))
///     .connect(listener.local_addr())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options have no effect until `connect`"]
pub struct ConnectOptions {
    local_address: Option<SocketAddr>,
    fast_open: bool,
    socket: SocketOptions,
}

impl ConnectOptions {
    /// The default options, as in the table above.
    pub const fn new() -> Self {
        Self {
            local_address: None,
            fast_open: false,
            socket: SocketOptions::new(),
        }
    }

    /// Sets the address to connect from, for a machine that has several. By default the kernel
    /// chooses it. Not for Unix sockets.
    ///
    /// With port 0 the kernel chooses a free port. On Linux it chooses the port only when it
    /// connects, so several connections may share a local port if they lead to different addresses
    /// (`IP_BIND_ADDRESS_NO_PORT`, as in nginx). On other systems each connection takes a port of
    /// its own.
    pub fn local_address(mut self, address: impl Into<SocketAddr>) -> Self {
        self.local_address = Some(address.into());
        self
    }

    /// Sets whether the first bytes may go out with the first segment (TCP Fast Open, RFC 7413):
    /// off by default.
    ///
    /// If this machine has a cookie of the server, the stream counts as connected at once, and the
    /// kernel connects with the first [`send`](Stream::send), not with a
    /// [`send_file`](Stream::send_file). Until then the stream has no peer address.
    /// [`is_delivered`](Stream::is_delivered) returns true before the first bytes are acknowledged.
    /// A request may arrive twice, so use this only if requests may be repeated.
    ///
    /// Linux only. If the flag 0x1 of `net.ipv4.tcp_fastopen`, which is set by default, is not set,
    /// the kernel refuses the option: [`Error::Unsupported`].
    pub const fn fast_open(mut self, on: bool) -> Self {
        self.fast_open = on;
        self
    }

    /// Returns whether [`fast_open`](Self::fast_open) is set.
    #[must_use]
    pub const fn is_fast_open(&self) -> bool {
        self.fast_open
    }

    /// Sets the options of the connection, such as keepalive and the sizes of its buffers.
    pub fn socket(mut self, options: SocketOptions) -> Self {
        self.socket = options;
        self
    }

    /// Begins to connect to `address`, and does not wait for the result.
    ///
    /// `address` is anything that converts into an [`Address`]: a text such as `"127.0.0.1:80"`,
    /// `"[::1]:80"` or `"unix:/run/server.sock"`, a [`SocketAddr`], or an IP address with a port
    /// such as `([127, 0, 0, 1], 80)`. Host names are not looked up.
    ///
    /// # The result
    ///
    /// Let the poller watch the stream for writing. The first event comes when the connection is
    /// made, or has failed. If that has already happened, as for a Unix socket, the event comes in
    /// the next wait. Then [`take_error`](Stream::take_error) returns the reason for a failure, or
    /// `None` if the stream is connected.
    ///
    /// While the stream is connecting, calls fail with `WouldBlock` or
    /// [`NotConnected`](io::ErrorKind::NotConnected). If an address does not answer, the kernel
    /// gives up only after minutes (by default some two on Linux). To give up earlier, close the
    /// stream when a timer of your loop expires.
    ///
    /// # Errors
    ///
    /// - [`Error::BacklogFull`] for a Unix socket whose listener has no room. No event reports
    ///   room, so try again after a pause. (Only Linux has this error; other systems refuse such a
    ///   client. Over TCP the connection stays in progress.)
    /// - [`Error::Connect`] if connecting has already failed: refused, unreachable, out of
    ///   descriptors or of local ports, or because a path cannot be the address of a socket. The
    ///   reason is its `source`.
    /// - [`Error::InvalidAddress`].
    /// - [`Error::Unsupported`] and [`Error::Option`] if an option is not available or is refused.
    ///
    /// If an address cannot be reached, either this call fails, or the stream reports the error
    /// later. The error is of the same kind in both cases. If this call fails, there is no socket.
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
        let (of_connect, of_socket) = (self.settings(), self.socket.settings(&address));
        let settings = [&of_connect[..], &of_socket];
        setting::refuse_unsupported(settings, &address)?;
        let connected = match &address {
            Address::Tcp(tcp) => self.connect_tcp(&address, tcp, settings),
            Address::Unix(path) => connect_unix(&address, path),
            Address::Abstract(_) => Err(unusable(&address, PathError::Abstract)),
            Address::Unnamed => Err(unusable(&address, PathError::Empty)),
        };
        connected.map(Stream::from_socket)
    }

    fn settings(&self) -> [Setting<'static>; 2] {
        // All fields are named, so that the compiler reports a forgotten one.
        let Self {
            local_address,
            fast_open,
            socket: _, // has settings of its own
        } = self;
        [
            (&LOCAL_ADDRESS, local_address.map(|_| Value::OtherCall)),
            (&FAST_OPEN_CONNECT, if_on(*fast_open)),
        ]
    }

    fn connect_tcp(
        &self,
        address: &Address,
        tcp: &SocketAddr,
        settings: [&[Setting<'_>]; 2],
    ) -> Result<OwnedFd, Error> {
        let failed = |call| move |errno| Error::connect(address, call, errno);

        let fd = setting::tcp_socket(settings, address, tcp, failed("socket"))?;
        if let Some(local) = self.local_address {
            if local.port() == 0 {
                // The option only saves local ports, so its error is ignored.
                let _ = BIND_ADDRESS_NO_PORT.set(&fd, Value::Number(1));
            }
            bind(&fd, &local).map_err(failed("bind"))?;
        }
        begin(connect(&fd, tcp)).map_err(failed("connect"))?;
        Ok(fd)
    }
}

impl Stream {
    /// Begins to connect to `address` with the default options, and does not wait for the result.
    ///
    /// `address` is a text such as `"127.0.0.1:80"` or `"unix:/run/server.sock"`, or one of the
    /// other forms that [`ConnectOptions::connect`] takes. That method has the details.
    ///
    /// # Errors
    ///
    /// The errors of [`ConnectOptions::connect`].
    pub fn connect(address: impl TryInto<Address, Error: Into<Error>>) -> Result<Self, Error> {
        ConnectOptions::new().connect(address)
    }
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self::new()
    }
}

fn connect_unix(address: &Address, path: &Path) -> Result<OwnedFd, Error> {
    let failed = |call| move |errno| Error::connect(address, call, errno);

    PathError::check(path).map_err(|error| unusable(address, error))?;
    let name = SocketAddrUnix::new(path).map_err(failed("connect"))?;
    let fd = sys::unix_socket().map_err(failed("socket"))?;
    begin(connect(&fd, &name)).map_err(failed("connect"))?;
    Ok(fd)
}

/// Treats a connect as begun if it is in progress or was interrupted by a signal, because the
/// kernel goes on to connect in both cases.
fn begin(connected: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match connected {
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(()),
        connected => connected,
    }
}

fn unusable(address: &Address, error: PathError) -> Error {
    Error::Connect {
        address: address.clone(),
        call: "connect",
        source: io::Error::new(io::ErrorKind::InvalidInput, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use crate::Listener;
    use crate::loopback::{LOCALHOST, accept_one};

    #[test]
    fn fast_open_reaches_the_socket() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let options = ConnectOptions::new().fast_open(true);
        match options.connect(listener.local_addr()) {
            Ok(stream) => assert_eq!(FAST_OPEN_CONNECT.read(&stream), Some(1)),
            Err(refused) => {
                assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
                assert!(
                    FAST_OPEN_CONNECT.missing_place(&LOCALHOST.into()).is_some(),
                    "{refused}"
                );
            }
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
        assert!(matches!(BIND_ADDRESS_NO_PORT.read(&stream), Some(1) | None));
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
