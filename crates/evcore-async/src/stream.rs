//! A connection that tasks read from and write to.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use evcore::net::{ConnectOptions, Error, Side};
use evcore::poller::Source;
use evcore::{Address, Connector, Transport};
use futures_io::{AsyncRead, AsyncWrite};

use crate::watched::Watched;

/// A TCP or Unix connection, or the connection of a simulator.
///
/// A shared reference to a stream is a reader and a writer, too, so one task may read while another
/// writes. Dropping the stream closes the connection.
///
/// ```
/// use evcore_async::{Runtime, TcpListener, TcpStream, timeout};
/// use std::time::Duration;
///
/// Runtime::new()?.block_on(async {
///     let mut listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr();
///     let client = timeout(Duration::from_secs(5), TcpStream::connect(address)).await??;
///     let (server, _peer) = listener.accept().await?;
///
///     client.write_all(b"hello").await?;
///     let mut buffer = [0; 16];
///     assert_eq!(server.read(&mut buffer).await?, 5);
///     drop(client);
///     assert_eq!(server.read(&mut buffer).await?, 0);
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stream<S: 'static = evcore::Stream> {
    watched: Watched<S>,
}

/// A TCP connection. A Unix connection has the same type.
pub type TcpStream = Stream;

/// A Unix connection. Its address is `unix:` and a path, and a TCP connection has the same type.
pub type UnixStream = Stream;

impl Stream {
    /// Connects to an address: `127.0.0.1:80`, `[::1]:80` or `unix:/run/socket`. A name is an
    /// error; a job of a [`BlockingPool`](crate::BlockingPool) can resolve it.
    ///
    /// If the peer does not answer, the call waits until the system gives up, which takes some
    /// minutes over TCP. To limit the time, drop the future, as [`timeout`](crate::timeout) does.
    ///
    /// # Errors
    ///
    /// The error of the address or of the connect, and the errors of [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub async fn connect(address: impl TryInto<Address, Error: Into<Error>>) -> io::Result<Self> {
        let address = address.try_into().map_err(Into::into)?;
        Self::connect_with(&ConnectOptions::new(), &address).await
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// The errors of [`evcore::Stream::local_addr`].
    pub fn local_addr(&self) -> io::Result<Address> {
        self.watched.with(evcore::Stream::local_addr)
    }
}

impl<S: Transport + Source> Stream<S> {
    /// Watches a connection until the result is dropped.
    ///
    /// # Errors
    ///
    /// [`QuotaExceeded`](ErrorKind::QuotaExceeded) if the loop has reached its limit of
    /// [connections](evcore::Builder::connections), and the errors of the poller.
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub fn new(stream: S) -> io::Result<Self> {
        let watched = Watched::new(stream)?;
        Ok(Self { watched })
    }

    /// Connects by [`ConnectOptions`], or by the connector of a simulator.
    ///
    /// # Errors
    ///
    /// The error of the connect, and the errors of [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub async fn connect_with<C>(connector: &C, address: &Address) -> io::Result<Self>
    where
        C: Connector<Stream = S>,
    {
        let stream = Self::new(connector.connect(address)?)?;
        let without_peer = connector.connects_by_sending();
        let result = |stream: &S| is_connected(stream, without_peer);
        stream.watched.write_with(result).await?;
        Ok(stream)
    }

    /// Waits until bytes have arrived, receives them, and returns their number. 0 means the end of
    /// the stream, unless `buffer` is empty.
    ///
    /// If the peer sends urgent data or passes descriptors, a read ends before these, and the next
    /// one may wait although more bytes have arrived. Receive from such a peer by
    /// [`read_with`](Watched::read_with) of [`watched`](Self::watched).
    ///
    /// # Errors
    ///
    /// The errors of [`evcore::Stream::recv`], and an error if the calling task belongs to another
    /// runtime.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buffer)).await
    }

    /// Receives as [`read`](Self::read) does. While the call waits, the connection is
    /// [idle](evcore::EventLoop::set_idle): the loop may evict it to make room for a client of the
    /// loop's own listeners, and evicts it in a graceful shutdown. Use this call between two
    /// requests.
    ///
    /// A task cannot move to another worker, so it has to end before its connection moves. As its
    /// output, let it return the result of [`into_inner`](Self::into_inner) and the state of the
    /// connection as bytes. The program adds both to its [`Connections`](evcore::Connections), from
    /// which `evcore-serve` hands the connection over with its state. The other worker makes a new
    /// stream of the connection.
    ///
    /// # Errors
    ///
    /// [`ConnectionAborted`](ErrorKind::ConnectionAborted) if the loop evicts the connection and
    /// nothing has arrived. Drop the stream then, so that the connection is closed. The errors of
    /// [`read`](Self::read).
    pub async fn read_idle(&self, buffer: &mut [u8]) -> io::Result<usize> {
        struct Busy<'a, S: 'static>(&'a Watched<S>);
        impl<S> Drop for Busy<'_, S> {
            fn drop(&mut self) {
                self.0.set_idle(false);
            }
        }
        self.watched.set_idle(true);
        let _busy = Busy(&self.watched);
        self.read(buffer).await
    }

    /// Sends all bytes.
    ///
    /// If the future is dropped before it is ready, some of the bytes may have been sent.
    ///
    /// # Errors
    ///
    /// The errors of [`evcore::Stream::send`], and an error if the calling task belongs to another
    /// runtime.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = poll_fn(|cx| self.poll_write(cx, bytes)).await?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Ends the sending side. The peer then reads the end of the stream.
    ///
    /// # Errors
    ///
    /// The errors of [`evcore::Stream::shutdown_write`].
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.watched.with(S::shutdown_write)
    }

    /// The address of the peer.
    ///
    /// # Errors
    ///
    /// The errors of [`evcore::Stream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<Address> {
        self.watched.with(S::peer_addr)
    }

    /// Returns the watched descriptor, for calls that this type does not offer.
    #[must_use]
    pub fn watched(&self) -> &Watched<S> {
        &self.watched
    }

    /// Stops watching the connection and returns it; it stays open.
    ///
    /// If the call is made outside the stream's runtime, the loop watches the connection until the
    /// loop's next step. Keep the connection open until then, because the loop refuses another
    /// descriptor with the same number.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.watched.into_inner()
    }

    /// Polls [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read).
    #[inline]
    pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let recv = Side::Read;
        self.watched
            .poll_side(cx, recv, |edge, ev| edge.recv(ev, buffer))
    }

    /// Sends as many bytes as fit, at least one unless `bytes` is empty, and returns their number.
    ///
    /// # Errors
    ///
    /// The errors of [`write_all`](Self::write_all).
    #[inline]
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let send = Side::Write;
        self.watched
            .poll_side(cx, send, |edge, ev| edge.send(ev, bytes))
    }

    /// Sends from several buffers, one after another, as [`poll_write`](Self::poll_write) does.
    ///
    /// # Errors
    ///
    /// The errors of [`write_all`](Self::write_all).
    pub fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let send = Side::Write;
        self.watched
            .poll_side(cx, send, |edge, ev| edge.send_vectored(ev, buffers))
    }

    /// Takes the executor's buffer, for a reader that cannot receive into a buffer of its own.
    #[cfg(feature = "hyper")]
    pub(crate) fn scratch(&self) -> Box<[u8]> {
        self.watched.shared().take_scratch()
    }

    #[cfg(feature = "hyper")]
    pub(crate) fn keep_scratch(&self, scratch: Box<[u8]>) {
        self.watched.shared().keep_scratch(scratch);
    }

    /// Ends the sending side. A connection that has ended is not an error.
    pub(crate) fn close(&self) -> io::Result<()> {
        match self.shutdown_write() {
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            result => result,
        }
    }
}

/// Returns the result of connecting, or `WouldBlock` as long as the result is not known. A report
/// of readiness may be false, so the stream must also have a peer's address, unless `without_peer`
/// is true.
fn is_connected(stream: &impl Transport, without_peer: bool) -> io::Result<()> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Err(error) if error.kind() == ErrorKind::NotConnected => match without_peer {
            true => Ok(()),
            false => Err(ErrorKind::WouldBlock.into()),
        },
        peer => peer.map(drop),
    }
}

impl<S: Transport + Source> AsyncRead for &Stream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Stream::poll_read(&self, cx, buffer)
    }
}

impl<S: Transport + Source> AsyncWrite for &Stream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Stream::poll_write(&self, cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Stream::poll_write_vectored(&self, cx, buffers)
    }

    /// Does nothing, because nothing is buffered.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the sending side.
    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.close())
    }
}

impl<S: Transport + Source> AsyncRead for Stream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Self::poll_read(&self, cx, buffer)
    }
}

impl<S: Transport + Source> AsyncWrite for Stream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write(&self, cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write_vectored(&self, cx, buffers)
    }

    /// Does nothing, because nothing is buffered.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the sending side.
    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.close())
    }
}

impl<S: fmt::Debug> fmt::Debug for Stream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.watched.fmt(f)
    }
}
