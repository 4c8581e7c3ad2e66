//! The calls in which the systems differ.
//!
//! Most make and accept sockets that are non-blocking and close-on-exec in one call, and send
//! without SIGPIPE by a flag. Apple's have none of that: there, a descriptor is prepared after it
//! was made, and a child that another thread forks in between inherits it.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io;
use rustix::net::{AddressFamily, SocketAddrAny, sockopt};

pub(crate) use imp::{SEND_FLAGS, accept, is_listening, tcp_socket};

/// Whether an accepted connection has `TCP_NODELAY` because its listener has.
///
/// Linux makes a connection as a copy of its listener, options included. Others may do the same;
/// there it is not relied upon.
pub(crate) const NODELAY_IS_INHERITED: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// The address family of `address`.
fn family(address: &SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
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
    use rustix::net::{SendFlags, SocketFlags, SocketType, acceptfrom_with, socket_with};

    const SOCKET_FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

    pub(crate) const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;

    pub(crate) fn tcp_socket(address: &SocketAddr) -> io::Result<OwnedFd> {
        socket_with(family(address), SocketType::STREAM, SOCKET_FLAGS, None)
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
    use rustix::net::{SendFlags, SocketType, acceptfrom, socket};

    /// `SO_NOSIGPIPE` stands in for the flag that is missing.
    pub(crate) const SEND_FLAGS: SendFlags = SendFlags::empty();

    pub(crate) fn tcp_socket(address: &SocketAddr) -> io::Result<OwnedFd> {
        let fd = socket(family(address), SocketType::STREAM, None)?;
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
