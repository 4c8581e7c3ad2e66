//! The calls in which the systems differ.
//!
//! Most make and accept sockets that are non-blocking and close-on-exec in one call, and send
//! without SIGPIPE by a flag. Apple's have none of that: there, a descriptor is prepared after it
//! was made, and a child that another thread forks in between inherits it.

use std::ffi::OsStr;
use std::mem::offset_of;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::io;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketType, sockopt};

use crate::Address;

pub(crate) use imp::{SEND_FLAGS, accept, is_listening};

/// The longest path of a Unix socket, in bytes: behind it there is to be room for a zero.
pub(crate) const UNIX_PATH_MAX: usize =
    size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

/// Whether [`set_reuse_port`] is there.
pub(crate) const HAS_REUSE_PORT: bool = !cfg!(any(target_os = "illumos", target_os = "solaris"));

/// Whether an accepted connection has `TCP_NODELAY` because its listener has.
///
/// Linux makes a connection as a copy of its listener, options included. Others may do the same;
/// there it is not relied upon.
pub(crate) const NODELAY_IS_INHERITED: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// A socket to listen at `address`, non-blocking and close-on-exec.
pub(crate) fn tcp_socket(address: &SocketAddr) -> io::Result<OwnedFd> {
    imp::stream_socket(match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    })
}

/// A socket to listen at a path, or to ask who does, non-blocking and close-on-exec.
pub(crate) fn unix_socket() -> io::Result<OwnedFd> {
    imp::stream_socket(AddressFamily::UNIX)
}

/// What an address means; `AFNOSUPPORT` if it is neither TCP's nor a Unix socket's.
#[inline]
pub(crate) fn address(any: SocketAddrAny) -> io::Result<Address> {
    if any.address_family() == AddressFamily::UNIX {
        return unix_address(any);
    }
    Ok(Address::Tcp(any.try_into()?))
}

fn unix_address(any: SocketAddrAny) -> io::Result<Address> {
    // A peer may bind to a path that leaves no room for the zero behind it. Linux then tells a
    // length beyond that of the structure, and rustix, which trusts it, would panic.
    if any.addr_len() as usize > size_of::<libc::sockaddr_un>() {
        return Ok(Address::Unnamed);
    }
    let name = SocketAddrUnix::try_from(any)?;
    let Some(path) = name.path_bytes() else {
        return Ok(Address::Unnamed);
    };
    // Of the longest path rustix leaves the zero at its end.
    let end = path.iter().position(|&byte| byte == 0);
    Ok(match &path[..end.unwrap_or(path.len())] {
        [] => Address::Unnamed,
        path => Address::Unix(OsStr::from_bytes(path).into()),
    })
}

/// Lets several sockets listen on one address, each with a queue of its own.
#[cfg(not(any(target_os = "freebsd", target_os = "illumos", target_os = "solaris")))]
pub(crate) fn set_reuse_port(fd: impl AsFd) -> io::Result<()> {
    sockopt::set_socket_reuseport(fd, true)
}

/// Its plain `SO_REUSEPORT` lets several listen as well, but does not share connections out.
#[cfg(target_os = "freebsd")]
pub(crate) fn set_reuse_port(fd: impl AsFd) -> io::Result<()> {
    sockopt::set_socket_reuseport_lb(fd, true)
}

/// rustix offers none here.
#[cfg(any(target_os = "illumos", target_os = "solaris"))]
pub(crate) fn set_reuse_port(_fd: impl AsFd) -> io::Result<()> {
    Err(io::Errno::NOPROTOOPT)
}

#[cfg(not(target_vendor = "apple"))]
mod imp {
    use super::*;
    use rustix::net::{SendFlags, SocketFlags, acceptfrom_with, socket_with};

    const SOCKET_FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

    pub(crate) const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;

    pub(super) fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
        socket_with(family, SocketType::STREAM, SOCKET_FLAGS, None)
    }

    #[inline]
    pub(crate) fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, Option<SocketAddrAny>)> {
        acceptfrom_with(listener, SOCKET_FLAGS)
    }

    pub(crate) fn is_listening(fd: impl AsFd) -> io::Result<bool> {
        sockopt::socket_acceptconn(fd)
    }
}

#[cfg(target_vendor = "apple")]
mod imp {
    use super::*;
    use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
    use rustix::net::{SendFlags, acceptfrom, socket};

    /// `SO_NOSIGPIPE` stands in for the flag that is missing.
    pub(crate) const SEND_FLAGS: SendFlags = SendFlags::empty();

    pub(super) fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
        let fd = socket(family, SocketType::STREAM, None)?;
        set_nonblocking_cloexec(&fd)?;
        Ok(fd)
    }

    pub(crate) fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, Option<SocketAddrAny>)> {
        let (fd, peer) = acceptfrom(listener)?;
        set_nonblocking_cloexec(&fd)?;
        // Options of a socket that was reset are refused: the peer has left.
        sockopt::set_socket_nosigpipe(&fd, true).map_err(|_| io::Errno::CONNABORTED)?;
        Ok((fd, peer))
    }

    /// `SO_ACCEPTCONN` is declared and does not work, so everything passes for a listener.
    pub(crate) fn is_listening(_fd: impl AsFd) -> io::Result<bool> {
        Ok(true)
    }

    fn set_nonblocking_cloexec(fd: &OwnedFd) -> io::Result<()> {
        fcntl_setfd(fd, FdFlags::CLOEXEC)?;
        ioctl_fionbio(fd, true)
    }
}
