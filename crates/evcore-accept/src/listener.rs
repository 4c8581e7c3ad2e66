//! A socket that others connect to.
//!
//! A listener is made by binding, or taken over from a process that bound it; after that the two
//! are the same. It neither waits nor watches: when its descriptor is readable, accept until it
//! is drained, or as often as others can bear to wait.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio, retry_on_intr};
use rustix::net::{SocketAddrAny, SocketType, getsockname, sockopt};

use crate::socket_file::{AtPath, SocketFile};
use crate::{Accept, Address, Error, ListenerOptions, Stream, sys};

/// A listening TCP or Unix socket, non-blocking and close-on-exec.
///
/// Dropping it closes this descriptor; the file of a Unix listener [stays](SocketFile).
///
/// # Examples
///
/// ```
/// use evcore_accept::{Accept, Listener};
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
    /// Whether connections are to have `TCP_NODELAY`, as the listener has.
    nodelay: bool,
    /// Of a Unix socket with a path.
    file: Option<SocketFile>,
}

impl Listener {
    /// Listens at `address` with the default options. Port 0 asks for any free port.
    ///
    /// `address` is a text such as `"127.0.0.1:80"` or `"unix:/run/server.sock"`, or one of the
    /// other forms that [`ListenerOptions::bind`] takes.
    ///
    /// # Errors
    ///
    /// Those of [`ListenerOptions::bind`].
    pub fn bind(address: impl TryInto<Address, Error: Into<Error>>) -> Result<Self, Error> {
        Self::builder().bind(address)
    }

    /// Options for a listener, to be changed before it is bound.
    pub const fn builder() -> ListenerOptions {
        ListenerOptions::new()
    }

    /// Takes over a listener that another process, or other code, has bound.
    ///
    /// Makes it non-blocking, for all who share it, and close-on-exec, for this descriptor.
    /// Everything else stays as it is: its address is asked of the system, and connections get
    /// `TCP_NODELAY` if the listener has it. The [file](Self::file) of a Unix listener is the
    /// socket that stands at its path now: a relative path is taken from the directory that this
    /// process is in, which should be the one in which it was bound.
    ///
    /// # Errors
    ///
    /// [`Error::NotListening`] if it is not a TCP or Unix socket that listens, [`Error::Inherit`]
    /// if the system refuses. The descriptor is closed then.
    /// On Apple's systems a socket that does not listen is only found out by
    /// [`accept`](Self::accept).
    ///
    /// # Examples
    ///
    /// ```
    /// use evcore_accept::Listener;
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
            Ok(_) | Err(Errno::NOTSOCK) => return Err(Error::NotListening { fd: number }),
            Err(errno) => return Err(failed("getsockopt(SO_TYPE)")(errno)),
        }
        if !sys::is_listening(&fd).map_err(failed("getsockopt(SO_ACCEPTCONN)"))? {
            return Err(Error::NotListening { fd: number });
        }
        fcntl_setfd(&fd, FdFlags::CLOEXEC).map_err(failed("fcntl(F_SETFD)"))?;
        ioctl_fionbio(&fd, true).map_err(failed("ioctl(FIONBIO)"))?;
        Self::inherited(fd).map_err(|errno| match errno {
            Errno::AFNOSUPPORT => Error::NotListening { fd: number },
            errno => failed("getsockname")(errno),
        })
    }

    /// A listener around a TCP socket that is prepared already.
    pub(crate) fn ready(fd: OwnedFd) -> rustix::io::Result<Self> {
        let nodelay = sockopt::tcp_nodelay(&fd)?;
        Ok(Self {
            address: sys::address(getsockname(&fd)?)?,
            fd,
            nodelay,
            file: None,
        })
    }

    /// A listener around a Unix socket that is prepared already, and its file.
    pub(crate) const fn at_file(fd: OwnedFd, address: Address, file: SocketFile) -> Self {
        Self {
            fd,
            address,
            nodelay: false,
            file: Some(file),
        }
    }

    /// A listener around a socket that another has prepared; `AFNOSUPPORT` if it is of a family
    /// that is not ours.
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

    /// Accepts one connection, if one is waiting. One system call; never blocks.
    ///
    /// Where connections do not inherit `TCP_NODELAY` it takes one more, and on Apple's systems
    /// three more.
    ///
    /// # Errors
    ///
    /// [`Error::Accept`] if the listener itself is broken. Whatever concerns one peer, or will
    /// pass, is an [`Accept`].
    #[inline]
    pub fn accept(&self) -> Result<Accept, Error> {
        match retry_on_intr(|| sys::accept(&self.fd)) {
            Ok((fd, peer)) => Ok(self.admit(fd, peer)),
            Err(errno) => Accept::from_errno(errno).ok_or_else(|| Error::Accept {
                address: self.address.clone(),
                source: errno.into(),
            }),
        }
    }

    /// Where it listens, with the real port if 0 was asked for. No system call.
    #[inline]
    #[must_use]
    pub const fn local_addr(&self) -> &Address {
        &self.address
    }

    /// The file of a Unix listener, to be removed when the last who serves it has ended.
    ///
    /// `None` for TCP, for a name that is no path, and if what was taken over has no file any more.
    #[must_use]
    pub const fn file(&self) -> Option<&SocketFile> {
        self.file.as_ref()
    }

    /// Whether a program that this process becomes, by exec, still has the descriptor: it does not,
    /// unless this says so.
    ///
    /// For a server that replaces its binary: keep the listeners, tell the new program their
    /// numbers, and take them over there by [`from_fd`](Self::from_fd), which turns it off again.
    /// A program that another thread starts meanwhile inherits the descriptor too.
    ///
    /// # Errors
    ///
    /// The system's, which has no reason to refuse.
    ///
    /// # Examples
    ///
    /// ```
    /// use evcore_accept::Listener;
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
    pub fn set_inheritable(&self, keep: bool) -> io::Result<()> {
        let flags = if keep {
            FdFlags::empty()
        } else {
            FdFlags::CLOEXEC
        };
        Ok(fcntl_setfd(&self.fd, flags)?)
    }

    /// Makes what the kernel accepted what the caller expects.
    #[inline]
    fn admit(&self, fd: OwnedFd, peer: Option<SocketAddrAny>) -> Accept {
        let peer = match peer.map(sys::address) {
            Some(Ok(peer)) => peer,
            // Some systems have nothing to say of a peer without a name.
            _ if self.address.is_unix() => Address::Unnamed,
            // The systems descended from BSD have none to report if the peer has left meanwhile.
            _ => return Accept::Aborted,
        };
        if self.nodelay && !sys::NODELAY_IS_INHERITED {
            // Refused only if the connection was reset, which reading from it will tell.
            let _ = sockopt::set_tcp_nodelay(&fd, true);
        }
        Accept::Connection(Stream::accepted(fd), peer)
    }
}

impl AsFd for Listener {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Listener> for OwnedFd {
    /// The descriptor, to be passed on; it stays non-blocking and close-on-exec.
    fn from(listener: Listener) -> Self {
        listener.fd
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use crate::loopback::{LOCALHOST, accept_one};

    fn refusal(fd: impl Into<OwnedFd>) -> Error {
        Listener::from_fd(fd.into()).expect_err("it is not a listener")
    }

    #[test]
    fn nobody_waiting_is_drained() {
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
    fn accepting_goes_on_until_drained() {
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
    fn connections_have_the_nodelay_that_was_asked_for() {
        for on in [true, false] {
            let listener = Listener::builder().nodelay(on).bind(LOCALHOST).unwrap();
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
            "as the listener that was inherited"
        );
    }

    #[test]
    fn a_listener_survives_the_way_through_a_descriptor() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let address = listener.local_addr().clone();
        let again = Listener::from_fd(listener.into()).unwrap();
        assert_eq!(*again.local_addr(), address);
    }

    #[test]
    fn what_is_not_a_socket_is_not_a_listener() {
        let error = refusal(File::open("/dev/null").unwrap());
        assert!(matches!(error, Error::NotListening { .. }), "{error}");
    }

    #[test]
    fn a_datagram_socket_is_not_a_listener() {
        let error = refusal(UdpSocket::bind(LOCALHOST).unwrap());
        assert!(matches!(error, Error::NotListening { .. }), "{error}");
    }

    #[cfg(not(target_vendor = "apple"))]
    #[test]
    fn a_connection_is_not_a_listener() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        let error = refusal(TcpStream::connect(listener.local_addr()).unwrap());
        assert!(matches!(error, Error::NotListening { .. }), "{error}");
    }

    #[test]
    fn a_pair_of_sockets_is_not_a_listener() {
        let error = refusal(std::os::unix::net::UnixStream::pair().unwrap().0);
        assert!(matches!(error, Error::NotListening { .. }), "{error}");
    }

    #[test]
    fn a_descriptor_is_kept_across_exec_while_it_is_to_be() {
        let listener = Listener::bind(LOCALHOST).unwrap();
        for (keep, flags) in [(true, FdFlags::empty()), (false, FdFlags::CLOEXEC)] {
            listener.set_inheritable(keep).unwrap();
            assert_eq!(rustix::io::fcntl_getfd(&listener).unwrap(), flags);
        }
    }
}
