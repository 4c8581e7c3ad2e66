//! A UDP socket by which tasks send and receive datagrams.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::watched::Watched;

/// A UDP socket.
///
/// ```
/// use evcore_async::{Runtime, UdpSocket};
///
/// Runtime::new()?.block_on(async {
///     let [near, far] = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
///     near.send_to(b"hello", far.local_addr()?).await?;
///     let mut buffer = [0; 16];
///     let (length, peer) = far.recv_from(&mut buffer).await?;
///     assert_eq!((&buffer[..length], peer), (&b"hello"[..], near.local_addr()?));
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UdpSocket {
    watched: Watched<std::net::UdpSocket>,
}

impl UdpSocket {
    /// Binds a socket. Port 0 chooses any free port. A name is resolved, which blocks.
    ///
    /// # Errors
    ///
    /// The errors of [`std::net::UdpSocket::bind`] and of [`Watched::new`].
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::new(std::net::UdpSocket::bind(address)?)
    }

    /// Makes a socket non-blocking, and watches it.
    ///
    /// # Errors
    ///
    /// The errors of [`Watched::new`].
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let watched = Watched::new(socket)?;
        Ok(Self { watched })
    }

    /// Receives a datagram, and returns its length and its sender. Bytes that do not fit are lost.
    /// One task at a time may wait for a datagram: if two tasks wait, only the later one is woken.
    ///
    /// # Errors
    ///
    /// The errors of [`std::net::UdpSocket::recv_from`], and an error if the calling task belongs
    /// to another runtime.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.watched
            .read_with(|socket| socket.recv_from(buffer))
            .await
    }

    /// Sends a datagram, and returns its length.
    ///
    /// # Errors
    ///
    /// The errors of [`std::net::UdpSocket::send_to`], and an error if the calling task belongs to
    /// another runtime.
    pub async fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.watched
            .write_with(|socket| socket.send_to(bytes, to))
            .await
    }

    /// Sets the peer: [`send`](Self::send) sends to it, and datagrams that later arrive from other
    /// addresses are dropped. A name is resolved, which blocks.
    ///
    /// # Errors
    ///
    /// The errors of [`std::net::UdpSocket::connect`].
    pub fn connect(&self, peer: impl ToSocketAddrs) -> io::Result<()> {
        self.watched.with(|socket| socket.connect(peer))
    }

    /// Receives a datagram from the [peer](Self::connect), and returns its length. Bytes that do
    /// not fit are lost.
    ///
    /// # Errors
    ///
    /// The errors of [`std::net::UdpSocket::recv`], and an error if the calling task belongs to
    /// another runtime.
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.watched.read_with(|socket| socket.recv(buffer)).await
    }

    /// Sends a datagram to the [peer](Self::connect), and returns its length.
    ///
    /// # Errors
    ///
    /// The errors of [`std::net::UdpSocket::send`], and an error if the calling task belongs to
    /// another runtime.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.watched.write_with(|socket| socket.send(bytes)).await
    }

    /// The address to which the socket is bound.
    ///
    /// # Errors
    ///
    /// The errors of [`std::net::UdpSocket::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.watched.with(std::net::UdpSocket::local_addr)
    }

    /// Returns the watched socket, for calls that this type does not offer.
    #[must_use]
    pub fn watched(&self) -> &Watched<std::net::UdpSocket> {
        &self.watched
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.watched.fmt(f)
    }
}
