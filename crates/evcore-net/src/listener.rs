//! A socket that clients connect to.
//!
//! A listener is bound by this process, or inherited from the process that bound it. When its
//! descriptor is readable, accept until the backlog is empty, or until this iteration of the loop
//! has no time for more connections.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio, retry_on_intr};
use rustix::net::{SocketAddrAny, SocketType, getsockname, sockopt};

use crate::{
    accept::Accept,
    address::Address,
    error::Error,
    socket_file::{AtPath, SocketFile},
    stream::Stream,
    sys,
};

/// A listening TCP or Unix socket, non-blocking and close-on-exec.
///
/// Dropping it closes the descriptor. The file of a Unix listener [stays](SocketFile).
///
/// # Examples
///
/// ```
/// use evcore_net::{Accept, Listener};
///
/// let listener = Listener::bind("127.0.0.1:0")?;
/// println!("listening on {}", listener.local_addr());
/// while let Accept::Connection(stream, peer) = listener.accept()? {
///     println!("{peer} has connected: {stream:?}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Listener {
    // Invariant: a TCP or Unix stream socket that listens, non-blocking.
    fd: OwnedFd,
    address: Address,
    /// True if the listener has `TCP_NODELAY`, so that its connections get it too.
    nodelay: bool,
    file: Option<SocketFile>,
}

impl Listener {
    /// Takes over a listener that another process, or other code, has bound.
    ///
    /// The descriptor becomes close-on-exec, and the listener becomes non-blocking for every
    /// process that shares it. Its options stay as they are, and connections get `TCP_NODELAY` if
    /// the listener has it.
    ///
    /// The [file](Self::file) of a Unix listener is the socket that is at its path now. If the path
    /// is relative, this process has to be in the directory in which the listener was bound.
    ///
    /// # Errors
    ///
    /// [`Error::NotListening`] if it is not a TCP or Unix socket that listens, and
    /// [`Error::Inherit`] for an error of the system. The descriptor is closed then. Apple's
    /// systems report a socket that does not listen only in [`accept`](Self::accept).
    ///
    /// # Examples
    ///
    /// ```
    /// use evcore_net::Listener;
    /// use std::net::TcpListener;
    ///
    /// let inherited = TcpListener::bind("127.0.0.1:0")?;
    /// let address = inherited.local_addr()?;
    /// let listener = Listener::from_fd(inherited.into())?;
    /// assert_eq!(*listener.local_addr(), address);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_fd(fd: OwnedFd) -> Result<Self, Error> {
        let number = fd.as_raw_fd();
        let failed = |call| {
            move |errno: Errno| Error::Inherit {
                fd: number,
                call,
                source: errno.into(),
            }
        };

        match sockopt::socket_type(&fd) {
            Ok(SocketType::STREAM) => {}
            // Datagrams, or a file that is not a socket.
            Ok(_) | Err(Errno::NOTSOCK) => return Err(Error::NotListening { fd: number }),
            Err(errno) => return Err(failed("getsockopt(SO_TYPE)")(errno)),
        }
        if !sys::is_listening(&fd).map_err(failed("getsockopt(SO_ACCEPTCONN)"))? {
            return Err(Error::NotListening { fd: number });
        }
        fcntl_setfd(&fd, FdFlags::CLOEXEC).map_err(failed("fcntl(F_SETFD)"))?;
        ioctl_fionbio(&fd, true).map_err(failed("ioctl(FIONBIO)"))?;
        Self::inherited(fd).map_err(|errno| match errno {
            // A family other than those of IP and Unix.
            Errno::AFNOSUPPORT => Error::NotListening { fd: number },
            errno => failed("getsockname")(errno),
        })
    }

    /// Expects a TCP socket that listens and has all its options.
    pub(crate) fn from_tcp(fd: OwnedFd) -> rustix::io::Result<Self> {
        let nodelay = sockopt::tcp_nodelay(&fd)?;
        Ok(Self {
            address: sys::address(getsockname(&fd)?)?,
            fd,
            nodelay,
            file: None,
        })
    }

    pub(crate) const fn from_unix(fd: OwnedFd, address: Address, file: SocketFile) -> Self {
        Self {
            fd,
            address,
            nodelay: false,
            file: Some(file),
        }
    }

    /// Fails with `AFNOSUPPORT` if the socket is neither TCP nor Unix.
    fn inherited(fd: OwnedFd) -> rustix::io::Result<Self> {
        let address = sys::address(getsockname(&fd)?)?;
        let file = match address.path().map(SocketFile::at) {
            Some(Ok(AtPath::Socket(file))) => Some(file),
            _ => None,
        };
        Ok(Self {
            nodelay: !address.is_unix() && sockopt::tcp_nodelay(&fd)?,
            fd,
            address,
            file,
        })
    }

    /// Accepts one connection if one is waiting. Makes one system call, repeated only if a signal
    /// interrupts it. Does not block.
    ///
    /// On systems other than Linux, a listener with `TCP_NODELAY` takes one more call; on Apple's
    /// systems, every accept takes three more.
    ///
    /// # Errors
    ///
    /// [`Error::Accept`] if the listener is broken, or if a policy of the system forbids accepting.
    /// A failure that concerns only one client, or that is temporary, is an outcome ([`Accept`])
    /// and not an error.
    #[inline]
    pub fn accept(&self) -> Result<Accept, Error> {
        match retry_on_intr(|| sys::accept(&self.fd)) {
            Ok((fd, peer)) => Ok(self.outcome(fd, peer)),
            Err(errno) => Accept::from_errno(errno).ok_or_else(|| Error::Accept {
                address: self.address.clone(),
                source: errno.into(),
            }),
        }
    }

    /// The address of the listener, with the actual port if port 0 was given. Makes no system call.
    #[inline]
    #[must_use]
    pub const fn local_addr(&self) -> &Address {
        &self.address
    }

    /// The file of a Unix listener. Remove it when the last process that serves the listener ends.
    ///
    /// `None` for TCP, for an abstract name, and for an inherited listener without a socket at its
    /// path.
    #[must_use]
    pub const fn file(&self) -> Option<&SocketFile> {
        self.file.as_ref()
    }

    /// Sets whether the descriptor stays open in a program that this process executes (the absence
    /// of `FD_CLOEXEC`): off by default.
    ///
    /// It is for a server that replaces its binary. Pass the numbers of the descriptors to the new
    /// program, and call [`from_fd`](Self::from_fd) there, which makes the descriptor close-on-exec
    /// again. While this setting is on, programs that other threads start inherit the descriptor
    /// too.
    ///
    /// # Errors
    ///
    /// The error of fcntl(2), which does not fail for an open descriptor.
    ///
    /// # Examples
    ///
    /// ```
    /// use evcore_net::Listener;
    /// use std::{os::fd::{AsFd, AsRawFd}, process::Command};
    ///
    /// let listener = Listener::bind("127.0.0.1:0")?;
    /// listener.set_inheritable(true)?;
    /// let number = listener.as_fd().as_raw_fd();
    /// let mut new_binary = Command::new("true");
    /// new_binary.env("LISTENERS", number.to_string());
    /// assert!(new_binary.status()?.success());
    /// listener.set_inheritable(false)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_inheritable(&self, on: bool) -> io::Result<()> {
        let flags = if on {
            FdFlags::empty()
        } else {
            FdFlags::CLOEXEC
        };
        Ok(fcntl_setfd(&self.fd, flags)?)
    }

    #[inline]
    fn outcome(&self, fd: OwnedFd, peer: Option<SocketAddrAny>) -> Accept {
        let peer = match peer.map(sys::address) {
            Some(Ok(peer)) => peer,
            // Some systems report no address for a peer without a path.
            _ if self.address.is_unix() => Address::Unnamed,
            // The BSDs report no address if the peer has left meanwhile.
            _ => return Accept::Aborted,
        };
        if self.nodelay && !sys::NODELAY_IS_INHERITED {
            // The call fails only if the connection was reset, which the next read reports.
            let _ = sockopt::set_tcp_nodelay(&fd, true);
        }
        Accept::Connection(Stream::from_socket(fd), peer)
    }
}

impl AsFd for Listener {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Listener> for OwnedFd {
    /// Returns the descriptor, non-blocking, and close-on-exec unless
    /// [`set_inheritable`](Listener::set_inheritable) is on.
    fn from(listener: Listener) -> Self {
        listener.fd
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use crate::SocketOptions;
    use crate::loopback::{LOCALHOST, accept_one};

    fn from_fd_error(fd: impl Into<OwnedFd>) -> Error {
        Listener::from_fd(fd.into()).expect_err("it is not a listener")
    }

    #[test]
    fn accept_would_block_without_a_client() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        assert!(matches!(listener.accept().unwrap(), Accept::WouldBlock));
    }

    #[test]
    fn a_connection_comes_with_the_address_of_its_peer() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let client = TcpStream::connect(listener.local_addr()).unwrap();
        let (_stream, peer) = accept_one(&listener);
        assert_eq!(peer, client.local_addr().unwrap());
    }

    #[test]
    fn accept_would_block_after_the_last_client() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let _clients = [(); 3].map(|()| TcpStream::connect(listener.local_addr()).unwrap());
        let _streams = [(); 3].map(|()| accept_one(&listener));
        assert!(matches!(listener.accept().unwrap(), Accept::WouldBlock));
    }

    #[test]
    fn listener_and_connection_are_close_on_exec() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let _client = TcpStream::connect(listener.local_addr()).unwrap();
        let (stream, _) = accept_one(&listener);
        for fd in [listener.as_fd(), stream.as_fd()] {
            assert_eq!(rustix::io::fcntl_getfd(fd).unwrap(), FdFlags::CLOEXEC);
        }
    }

    #[test]
    fn connections_have_the_nodelay_of_the_listener() {
        for on in [true, false] {
            let options = Listener::builder().socket(SocketOptions::new().nodelay(on));
            let listener = options.bind(LOCALHOST).unwrap();
            let _client = TcpStream::connect(listener.local_addr()).unwrap();
            let (stream, _) = accept_one(&listener);
            assert_eq!(sockopt::tcp_nodelay(&stream).unwrap(), on);
        }
    }

    #[test]
    fn an_inherited_listener_accepts_and_does_not_block() {
        let inherited = OwnedFd::from(TcpListener::bind(LOCALHOST).unwrap());
        fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
        let listener = Listener::from_fd(inherited).unwrap();
        assert_eq!(
            rustix::io::fcntl_getfd(&listener).unwrap(),
            FdFlags::CLOEXEC
        );
        assert!(matches!(listener.accept().unwrap(), Accept::WouldBlock));

        let _client = TcpStream::connect(listener.local_addr()).unwrap();
        let (stream, _) = accept_one(&listener);
        assert!(
            !sockopt::tcp_nodelay(&stream).unwrap(),
            "the inherited listener does not have it"
        );
    }

    #[test]
    fn a_listener_becomes_a_descriptor_and_a_listener_again() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let address = listener.local_addr().clone();
        let again = Listener::from_fd(listener.into()).unwrap();
        assert_eq!(*again.local_addr(), address);
    }

    #[test]
    fn a_file_is_not_a_listener() {
        let error = from_fd_error(File::open("/dev/null").unwrap());
        assert!(matches!(error, Error::NotListening { .. }), "{error}");
    }

    #[test]
    fn a_datagram_socket_is_not_a_listener() {
        let error = from_fd_error(UdpSocket::bind(LOCALHOST).unwrap());
        assert!(matches!(error, Error::NotListening { .. }), "{error}");
    }

    #[cfg(not(target_vendor = "apple"))]
    #[test]
    fn a_connection_is_not_a_listener() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let error = from_fd_error(TcpStream::connect(listener.local_addr()).unwrap());
        assert!(matches!(error, Error::NotListening { .. }), "{error}");
    }

    #[test]
    fn a_socket_pair_is_not_a_listener() {
        let error = from_fd_error(std::os::unix::net::UnixStream::pair().unwrap().0);
        assert!(matches!(error, Error::NotListening { .. }), "{error}");
    }

    #[test]
    fn set_inheritable_clears_and_sets_close_on_exec() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        for (on, flags) in [(true, FdFlags::empty()), (false, FdFlags::CLOEXEC)] {
            listener.set_inheritable(on).unwrap();
            assert_eq!(rustix::io::fcntl_getfd(&listener).unwrap(), flags);
        }
    }
}
