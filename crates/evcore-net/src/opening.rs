//! Makes the socket of a listener, with the calls in the order that the kernel requires.
//!
//! Options that are not available are refused before a socket is made.

use std::fs;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, bind, listen};

use crate::{
    address::Address,
    error::{Error, PathError},
    listener::Listener,
    listener_options::ListenerOptions,
    retry,
    setting::{self, Setting, as_c_int, if_on, number, whole},
    socket_file::{AtPath, SocketFile, errno_of, is_stale},
    socket_option::{DEFER_ACCEPT, FAST_OPEN, MODE, REUSE_ADDRESS, REUSE_PORT, V6_ONLY, Value},
    sys,
};

impl Listener {
    /// Listens at `address` with the default options. With port 0, the kernel chooses a free port.
    ///
    /// `address` is a text such as `"127.0.0.1:80"` or `"unix:/run/server.sock"`, or one of the
    /// other forms that [`ListenerOptions::bind`] takes.
    ///
    /// # Errors
    ///
    /// The errors of [`ListenerOptions::bind`].
    pub fn bind(address: impl TryInto<Address, Error: Into<Error>>) -> Result<Self, Error> {
        Self::builder().bind(address)
    }

    /// Returns the default options of a listener, to change them before it is bound.
    pub const fn builder() -> ListenerOptions {
        ListenerOptions::new()
    }
}

impl ListenerOptions {
    /// Makes a listener at `address`, which is anything that converts into an [`Address`]: a text
    /// such as `"127.0.0.1:80"`, `"[::1]:80"` or `"unix:/run/server.sock"`, a
    /// [`SocketAddr`](std::net::SocketAddr), or an IP address with a port such as
    /// `([127, 0, 0, 1], 80)`. With port 0, the kernel chooses a free port. Host names are not
    /// looked up.
    ///
    /// A Unix socket at the path is replaced if no server listens on it any more. To find that out,
    /// this function connects to it. Two servers that start at the same path at the same instant
    /// may each mistake the socket of the other for a stale one. The process that starts them has
    /// to prevent that.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidAddress`], [`Error::AddressInUse`], [`Error::AddressNotAvailable`],
    /// [`Error::PermissionDenied`], [`Error::UnusablePath`], [`Error::Unsupported`],
    /// [`Error::Option`], or [`Error::Listen`] for any other error of the system. After an error
    /// there is neither a socket nor a new file.
    ///
    /// # Examples
    ///
    /// ```
    /// use evcore_net::{Error, Listener, ListenerOptions};
    /// use std::net::{Ipv6Addr, SocketAddr};
    ///
    /// let options = ListenerOptions::new();
    /// let listener = options.bind("127.0.0.1:0")?;
    /// let listener = options.bind(([127, 0, 0, 1], 0))?;
    /// let listener = options.bind(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)));
    ///
    /// let refused = options.bind("localhost:80").unwrap_err();
    /// assert!(matches!(refused, Error::InvalidAddress(_)));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn bind(
        &self,
        address: impl TryInto<Address, Error: Into<Error>>,
    ) -> Result<Listener, Error> {
        self.bind_with(address, |pause| {
            #[expect(
                clippy::disallowed_methods,
                reason = "an address in use is tried again after a documented pause"
            )]
            thread::sleep(pause);
            ControlFlow::Continue(())
        })
    }

    /// Makes a listener like [`bind`](Self::bind), and calls `pause` instead of sleeping before a
    /// retry.
    ///
    /// `pause` is called with the length of the pause, if [`retry_in_use`](Self::retry_in_use) is
    /// on and the address is in use. If it returns [`ControlFlow::Break`], the error is returned at
    /// once.
    ///
    /// # Errors
    ///
    /// The errors of [`bind`](Self::bind).
    ///
    /// # Examples
    ///
    /// ```
    /// use evcore_net::{Error, Listener};
    /// use std::ops::ControlFlow;
    ///
    /// let other = Listener::bind("127.0.0.1:0")?;
    /// let mut pauses = 0;
    /// let refused = Listener::builder()
    ///     .retry_in_use(true)
    ///     .bind_with(other.local_addr(), |_pause| {
    ///         pauses += 1;
    ///         // Wait for the length of the pause, or until a signal stops the server.
    ///         if pauses == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    ///     });
    /// assert!(matches!(refused, Err(Error::AddressInUse { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bind_with(
        &self,
        address: impl TryInto<Address, Error: Into<Error>>,
        pause: impl FnMut(Duration) -> ControlFlow<()>,
    ) -> Result<Listener, Error> {
        let address = address.try_into().map_err(Into::into)?;
        if self.retry_in_use {
            retry::while_in_use(|| open(self, &address), pause)
        } else {
            open(self, &address)
        }
    }
}

/// Makes one attempt to open the listener.
fn open(options: &ListenerOptions, address: &Address) -> Result<Listener, Error> {
    let of_listener = settings(options, address);
    let of_socket = options.socket.settings(address);
    let settings = [&of_listener[..], &of_socket];
    setting::refuse_unsupported(settings, address)?;
    match address {
        Address::Tcp(tcp) => open_tcp(options, address, tcp, settings),
        Address::Unix(path) => open_unix(options, address, path),
        Address::Abstract(_) => Err(unusable(address, PathError::Abstract)),
        Address::Unnamed => Err(unusable(address, PathError::Empty)),
    }
}

fn settings(options: &ListenerOptions, address: &Address) -> [Setting<'static>; 6] {
    // All fields are named, so that the compiler reports a forgotten one.
    let ListenerOptions {
        backlog: _, // listen(2) takes it, for each kind of address
        reuse_address,
        reuse_port,
        v6_only,
        defer_accept,
        fast_open,
        mode,
        retry_in_use: _, // `bind` uses it
        socket: _,       // has settings of its own
    } = options;
    let is_v6 = address.tcp().is_some_and(|address| address.is_ipv6());
    let flag = |is_on: &bool| Value::Number((*is_on).into());
    [
        (
            &REUSE_ADDRESS,
            (!address.is_unix()).then(|| flag(reuse_address)),
        ),
        (&REUSE_PORT, if_on(*reuse_port)),
        // For an address other than IPv6, only `false` is passed on, so that it is refused.
        (&V6_ONLY, (is_v6 || !v6_only).then(|| flag(v6_only))),
        (&DEFER_ACCEPT, whole(*defer_accept, Duration::from_secs(1))),
        (&FAST_OPEN, (*fast_open > 0).then(|| number(*fast_open))),
        (&MODE, mode.map(|_| Value::OtherCall)),
    ]
}

fn open_tcp(
    options: &ListenerOptions,
    address: &Address,
    tcp: &SocketAddr,
    settings: [&[Setting<'_>]; 2],
) -> Result<Listener, Error> {
    let failed = |call| move |errno: Errno| Error::listen(address, call, errno);

    let fd = setting::tcp_socket(settings, address, tcp, failed("socket"))?;
    bind(&fd, tcp).map_err(failed("bind"))?;
    listen(&fd, as_c_int(options.backlog)).map_err(failed("listen"))?;
    Listener::from_tcp(fd).map_err(failed("getsockname"))
}

fn open_unix(options: &ListenerOptions, address: &Address, path: &Path) -> Result<Listener, Error> {
    let failed = |call| move |errno: Errno| Error::listen(address, call, errno);

    PathError::check(path).map_err(|error| unusable(address, error))?;
    let fd = sys::unix_socket().map_err(failed("socket"))?;
    let file = bind_to_path(&fd, address, path)?;
    let listening = finish_unix(options, &fd, path);
    if let Err((call, errno)) = listening {
        // No client can have connected yet.
        let _ = file.remove();
        return Err(Error::listen(address, call, errno));
    }
    Ok(Listener::from_unix(fd, address.clone(), file))
}

/// Binds the socket to a path. A stale socket there is replaced.
fn bind_to_path(fd: &OwnedFd, address: &Address, path: &Path) -> Result<SocketFile, Error> {
    let failed = |call| move |errno: Errno| Error::listen(address, call, errno);

    let name = SocketAddrUnix::new(path).map_err(failed("bind"))?;
    match bind(fd, &name) {
        // Perhaps a server that has ended left its socket there.
        Err(Errno::ADDRINUSE) => {
            remove_stale(address, path, &name)?;
            bind(fd, &name).map_err(failed("bind"))?;
        }
        bound => bound.map_err(failed("bind"))?,
    }
    match SocketFile::at(path) {
        Ok(AtPath::Socket(file)) => Ok(file),
        // Another server took the socket for stale, because it does not listen yet, and removed it.
        Ok(AtPath::Other(_)) | Err(Errno::NOENT) => {
            Err(Error::listen(address, "bind", Errno::ADDRINUSE))
        }
        Err(errno) => Err(failed("lstat")(errno)),
    }
}

/// Removes the file at `path` if it is a socket that no server listens on.
fn remove_stale(address: &Address, path: &Path, name: &SocketAddrUnix) -> Result<(), Error> {
    let failed = |call| move |errno: Errno| Error::listen(address, call, errno);

    let file = match SocketFile::at(path) {
        Ok(AtPath::Socket(file)) => file,
        Ok(AtPath::Other(by)) => return Err(unusable(address, PathError::Taken { by })),
        // The file was removed meanwhile.
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(failed("lstat")(errno)),
    };
    match is_stale(name) {
        Ok(true) => file
            .remove()
            .map(drop)
            .map_err(|error| failed("unlink")(errno_of(&error))),
        Ok(false) => Err(Error::listen(address, "bind", Errno::ADDRINUSE)),
        // The file was removed meanwhile.
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed("connect")(errno)),
    }
}

/// Sets the mode of the file and listens. No client can connect before that.
fn finish_unix(
    options: &ListenerOptions,
    fd: &OwnedFd,
    path: &Path,
) -> Result<(), (&'static str, Errno)> {
    if let Some(mode) = options.mode {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| {
            match errno_of(&error) {
                // Another server has removed the socket, as in `bind_to_path`.
                Errno::NOENT => ("bind", Errno::ADDRINUSE),
                errno => ("chmod", errno),
            }
        })?;
    }
    listen(fd, as_c_int(options.backlog)).map_err(|errno| ("listen", errno))
}

fn unusable(address: &Address, source: PathError) -> Error {
    Error::UnusablePath {
        address: address.clone(),
        source,
    }
}
