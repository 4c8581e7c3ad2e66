//! The system calls that differ between systems.
//!
//! On most systems, one call makes or accepts a socket that is non-blocking and close-on-exec, and
//! a flag of send(2) prevents SIGPIPE. Apple's systems have neither. There the flags are set by
//! further calls, and a child that another thread forks in between inherits the descriptor.

use std::ffi::OsStr;
use std::mem::offset_of;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::io;
use rustix::net::{AddressFamily, Protocol, SocketAddrAny, SocketAddrUnix, SocketType, sockopt};

use crate::address::Address;

pub(crate) use imp::{SEND_FLAGS, SEND_MORE_FLAGS, accept, is_listening};

/// The longest path of a Unix socket, in bytes. A zero byte follows it.
pub(crate) const UNIX_PATH_MAX: usize =
    size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

/// True if an accepted connection inherits `TCP_NODELAY` from its listener.
///
/// On Linux a connection is a copy of its listener. Other systems may do the same, but do not
/// document it.
pub(crate) const NODELAY_IS_INHERITED: bool = cfg!(any(target_os = "linux", target_os = "android"));

#[cfg(any(target_os = "linux", target_os = "android"))]
const MULTIPATH: Option<Protocol> = Some(rustix::net::ipproto::MPTCP);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const MULTIPATH: Option<Protocol> = None;

pub(crate) fn tcp_socket(address: &SocketAddr, is_multipath: bool) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    imp::stream_socket(family, MULTIPATH.filter(|_| is_multipath))
}

pub(crate) fn unix_socket() -> io::Result<OwnedFd> {
    imp::stream_socket(AddressFamily::UNIX, None)
}

/// Makes a socket of other code non-blocking and close-on-exec. Returns no error, because these
/// calls do not fail for an open socket, and for any other file each later call fails.
pub(crate) fn make_nonblocking_cloexec(fd: &OwnedFd) {
    let _ = io::fcntl_setfd(fd, io::FdFlags::CLOEXEC);
    let _ = io::ioctl_fionbio(fd, true);
    #[cfg(target_vendor = "apple")]
    let _ = sockopt::set_socket_nosigpipe(fd, true);
}

/// Converts an address of rustix; `AFNOSUPPORT` if it is neither of TCP nor of a Unix socket.
#[inline]
pub(crate) fn address(any: SocketAddrAny) -> io::Result<Address> {
    if any.address_family() == AddressFamily::UNIX {
        return unix_address(any);
    }
    Ok(Address::Tcp(any.try_into()?))
}

fn unix_address(any: SocketAddrAny) -> io::Result<Address> {
    // A peer may bind to a path that leaves no room for the zero byte. Linux then returns a length
    // beyond that of the structure, and rustix would panic.
    if any.addr_len() as usize > size_of::<libc::sockaddr_un>() {
        return Ok(Address::Unnamed);
    }
    let name = SocketAddrUnix::try_from(any)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(name) = name.abstract_name().filter(|name| !name.is_empty()) {
        return Ok(Address::Abstract(name.into()));
    }
    let Some(path) = name.path_bytes() else {
        return Ok(Address::Unnamed);
    };
    // rustix keeps the zero byte at the end of the longest path.
    let end = path.iter().position(|&byte| byte == 0);
    Ok(match &path[..end.unwrap_or(path.len())] {
        [] => Address::Unnamed,
        path => Address::Unix(OsStr::from_bytes(path).into()),
    })
}

#[cfg(not(target_vendor = "apple"))]
mod imp {
    use super::*;
    use rustix::net::{SendFlags, SocketFlags, acceptfrom_with, socket_with};

    const SOCKET_FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

    pub(crate) const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;

    /// The flags of a send that announces more bytes; only Linux has a flag for that.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) const SEND_MORE_FLAGS: SendFlags = SEND_FLAGS.union(SendFlags::MORE);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) const SEND_MORE_FLAGS: SendFlags = SEND_FLAGS;

    pub(super) fn stream_socket(
        family: AddressFamily,
        protocol: Option<Protocol>,
    ) -> io::Result<OwnedFd> {
        socket_with(family, SocketType::STREAM, SOCKET_FLAGS, protocol)
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

    /// The flags of a send; these systems have no flag against SIGPIPE, so the option
    /// `SO_NOSIGPIPE` is set instead.
    pub(crate) const SEND_FLAGS: SendFlags = SendFlags::empty();

    pub(crate) const SEND_MORE_FLAGS: SendFlags = SEND_FLAGS;

    pub(super) fn stream_socket(
        family: AddressFamily,
        protocol: Option<Protocol>,
    ) -> io::Result<OwnedFd> {
        let fd = socket(family, SocketType::STREAM, protocol)?;
        set_nonblocking_cloexec(&fd)?;
        sockopt::set_socket_nosigpipe(&fd, true)?;
        Ok(fd)
    }

    pub(crate) fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, Option<SocketAddrAny>)> {
        let (fd, peer) = acceptfrom(listener)?;
        set_nonblocking_cloexec(&fd)?;
        // Setting the option fails only if the peer has reset the connection.
        sockopt::set_socket_nosigpipe(&fd, true).map_err(|_| io::Errno::CONNABORTED)?;
        Ok((fd, peer))
    }

    /// `SO_ACCEPTCONN` is declared but does not work, so every socket counts as a listener.
    pub(crate) fn is_listening(_fd: impl AsFd) -> io::Result<bool> {
        Ok(true)
    }

    fn set_nonblocking_cloexec(fd: &OwnedFd) -> io::Result<()> {
        fcntl_setfd(fd, FdFlags::CLOEXEC)?;
        ioctl_fionbio(fd, true)
    }
}
