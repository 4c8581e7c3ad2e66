//! Makes the socket of a listener, in the order that the kernel requires.
//!
//! Options that are not available are refused before a socket is made. A failure in between leaves
//! neither a socket nor a file behind.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, bind, listen, sockopt};

use crate::socket_file::{AtPath, SocketFile, errno_of, is_stale};
use crate::tcp_option::{DEFER_ACCEPT, FAST_OPEN, TcpOption};
use crate::{Address, Error, Listener, ListenerOptions, PathError, sys};

/// Tries once to make a listener.
pub(crate) fn open(options: &ListenerOptions, address: &Address) -> Result<Listener, Error> {
    refuse_unsupported(options, address)?;
    match address {
        Address::Tcp(_) => open_tcp(options, address),
        Address::Unix(path) => open_unix(options, address, path),
        Address::Abstract(_) => Err(unusable(address, PathError::Abstract)),
        Address::Unnamed => Err(unusable(address, PathError::Empty)),
    }
}

fn refuse_unsupported(options: &ListenerOptions, address: &Address) -> Result<(), Error> {
    const HERE: &str = "on this system";
    const FOR_UNIX: &str = "for Unix sockets";
    const FOR_TCP: &str = "for TCP";

    // All fields, so that the compiler asks for a decision about a new one.
    let ListenerOptions {
        backlog: _,
        reuse_address: _,
        reuse_port,
        v6_only,
        nodelay: _,
        keepalive,
        receive_buffer,
        send_buffer,
        defer_accept,
        fast_open,
        mode,
        retry_in_use: _,
    } = options;
    let is_unix = address.is_unix();
    let is_v4 = address.tcp().is_some_and(|address| address.is_ipv4());
    let is_deferred = !defer_accept.is_zero();
    let is_fast = *fast_open > 0;
    let keeps_alive = !keepalive.is_zero();
    let has_receive_buffer = receive_buffer.is_some();
    let has_send_buffer = send_buffer.is_some();
    let refusals = [
        (keeps_alive && is_unix, "keepalive", FOR_UNIX),
        (keeps_alive && !sys::HAS_KEEPALIVE_IDLE, "keepalive", HERE),
        (has_receive_buffer && is_unix, "receive_buffer", FOR_UNIX),
        (has_send_buffer && is_unix, "send_buffer", FOR_UNIX),
        (is_deferred && is_unix, "defer_accept", FOR_UNIX),
        (is_deferred && DEFER_ACCEPT.is_none(), "defer_accept", HERE),
        (is_fast && is_unix, "fast_open", FOR_UNIX),
        (is_fast && FAST_OPEN.is_none(), "fast_open", HERE),
        (*reuse_port && is_unix, "reuse_port", FOR_UNIX),
        (*reuse_port && !sys::HAS_REUSE_PORT, "reuse_port", HERE),
        (!v6_only && is_v4, "v6_only(false)", "for IPv4"),
        (!v6_only && is_unix, "v6_only(false)", FOR_UNIX),
        (mode.is_some() && !is_unix, "mode", FOR_TCP),
    ];
    Error::of_first_refusal(&refusals, address)
}

fn open_tcp(options: &ListenerOptions, address: &Address) -> Result<Listener, Error> {
    let failed = |call| move |errno: Errno| Error::listen(address, call, errno);
    let tcp = address.tcp().expect("the caller passes an address of TCP");

    let fd = sys::tcp_socket(&tcp).map_err(failed("socket"))?;
    sockopt::set_socket_reuseaddr(&fd, options.reuse_address)
        .map_err(failed("setsockopt(SO_REUSEADDR)"))?;
    if options.reuse_port {
        sys::set_reuse_port(&fd).map_err(failed("setsockopt(SO_REUSEPORT)"))?;
    }
    if tcp.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, options.v6_only)
            .map_err(failed("setsockopt(IPV6_V6ONLY)"))?;
    }
    sockopt::set_tcp_nodelay(&fd, options.nodelay).map_err(failed("setsockopt(TCP_NODELAY)"))?;
    if !options.keepalive.is_zero() {
        sys::set_keepalive(&fd, options.keepalive).map_err(failed("setsockopt(SO_KEEPALIVE)"))?;
    }
    set_buffers(options, &fd).map_err(|(call, errno)| failed(call)(errno))?;
    let deferral = sys::whole_seconds(options.defer_accept);
    set_unless_zero(&fd, DEFER_ACCEPT, deferral).map_err(failed("setsockopt(TCP_DEFER_ACCEPT)"))?;
    set_unless_zero(&fd, FAST_OPEN, as_c_int(options.fast_open))
        .map_err(failed("setsockopt(TCP_FASTOPEN)"))?;
    bind(&fd, &tcp).map_err(failed("bind"))?;
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
        Err(Errno::ADDRINUSE) => {
            remove_stale(address, path, &name)?;
            bind(fd, &name).map_err(failed("bind"))?;
        }
        bound => bound.map_err(failed("bind"))?,
    }
    match SocketFile::at(path) {
        Ok(AtPath::Socket(file)) => Ok(file),
        // This socket does not listen yet, so another server has replaced it as stale.
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
        // It has been removed meanwhile.
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(failed("lstat")(errno)),
    };
    match is_stale(name) {
        Ok(true) => file
            .remove()
            .map(drop)
            .map_err(|error| failed("unlink")(errno_of(&error))),
        Ok(false) => Err(Error::listen(address, "bind", Errno::ADDRINUSE)),
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed("connect")(errno)),
    }
}

/// Sets the mode of the file and listens. Until then no client can connect.
fn finish_unix(
    options: &ListenerOptions,
    fd: &OwnedFd,
    path: &Path,
) -> Result<(), (&'static str, Errno)> {
    if let Some(mode) = options.mode {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| {
            match errno_of(&error) {
                // Another server has replaced it as stale, as above.
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

/// Sets the sizes of both buffers. A client's window depends on them, so no client may have connected.
fn set_buffers(options: &ListenerOptions, fd: &OwnedFd) -> Result<(), (&'static str, Errno)> {
    // As many as the kernel takes: beyond that it would see a negative number.
    let size = |bytes| as_c_int(bytes).unsigned_abs() as usize;
    if let Some(bytes) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(fd, size(bytes))
            .map_err(|errno| ("setsockopt(SO_RCVBUF)", errno))?;
    }
    if let Some(bytes) = options.send_buffer {
        sockopt::set_socket_send_buffer_size(fd, size(bytes))
            .map_err(|errno| ("setsockopt(SO_SNDBUF)", errno))?;
    }
    Ok(())
}

fn set_unless_zero(fd: &OwnedFd, option: Option<TcpOption>, value: i32) -> rustix::io::Result<()> {
    match option {
        Some(option) if value != 0 => option.set(fd, value),
        // `refuse_unsupported` has checked that the system has the option.
        _ => Ok(()),
    }
}

fn as_c_int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
