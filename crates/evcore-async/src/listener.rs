//! A listener, which accepts one client at a time when a task awaits one.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use evcore::net::{Accept, Backoff, Error};
use evcore::{Acceptor, Address, Interest, Transport};

use crate::context;
use crate::sleep::sleep;
use crate::stream::Stream;
use crate::timeout::timeout;
use crate::wait_queue::Place;
use crate::watched::Watched;

/// After this many lost clients (`Accept::Aborted`) in a row, the listener counts as failed. The
/// loop has the same limit.
const ABORTED_MAX: u32 = 8_192;

/// A TCP or Unix listener, or a listener of a simulator, which accepts a client when a task awaits
/// one.
///
/// Clients that no task awaits stay in the backlog. So a server that limits its clients acquires a
/// permit before it accepts.
///
/// If several workers share such a listener, their load is not balanced. To balance it, give the
/// listener to the loop, as the workers of `evcore-serve` do, and make a [`Stream`] of each
/// [`evcore::Step::Accepted`].
///
/// ```no_run
/// use evcore_async::{Runtime, TcpListener, spawn_local};
///
/// Runtime::new()?.block_on(async {
///     let listener = TcpListener::bind("127.0.0.1:7007")?;
///     loop {
///         let (stream, peer) = listener.accept().await?;
///         drop(spawn_local(async move { stream.write_all(b"good-bye").await }));
///     }
///     # #[expect(unreachable_code, reason = "for its type")]
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Listener<L: 'static = evcore::Listener> {
    watched: Watched<L>,
}

/// A TCP listener. A Unix listener has the same type.
pub type TcpListener = Listener;

/// A Unix listener. Its address is `unix:` and a path, and a TCP listener has the same type.
pub type UnixListener = Listener;

impl Listener {
    /// Listens at an address: `127.0.0.1:80`, `[::1]:80`, `unix:/run/socket`. Port 0 chooses any
    /// free port.
    ///
    /// # Errors
    ///
    /// The errors of [`evcore::Listener::bind`] and of [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub fn bind(address: impl TryInto<Address, Error: Into<Error>>) -> io::Result<Self> {
        Self::new(evcore::Listener::bind(address)?)
    }

    /// The address of this listener, with the port that was chosen.
    #[must_use]
    pub fn local_addr(&self) -> Address {
        self.watched.with(|listener| listener.local_addr().clone())
    }
}

impl<L: Acceptor<Stream: Transport>> Listener<L> {
    /// Watches a listener, which counts as a connection of the loop, until the result is dropped.
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::new`].
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub fn new(listener: L) -> io::Result<Self> {
        let watched = Watched::with_interest(listener, Interest::READ)?;
        Ok(Self { watched })
    }

    /// Waits for a client. One task at a time may wait: if two tasks wait, only the later one is
    /// woken.
    ///
    /// If the loop is at its limit of [connections](evcore::Builder::connections), the call waits
    /// until one of them ends. If descriptors or memory run out, the call tries again after half a
    /// second. A client whose stream cannot be watched is closed.
    ///
    /// # Errors
    ///
    /// If the listener itself fails, or if the calling task belongs to another runtime.
    /// [`ConnectionAborted`](io::ErrorKind::ConnectionAborted) after half a second if 8,192 clients
    /// in a row were lost. The cause may be a sandbox that forbids accepting.
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub async fn accept(&self) -> io::Result<(Stream<L::Stream>, Address)> {
        let place = self.watched.shared().awaiting_room.place();
        let aborted = Cell::new(0);
        loop {
            // The timeout limits each wait, because the end of a connection wakes no task if the
            // connection does not belong to this executor.
            while timeout(Backoff::PAUSE, poll_fn(|cx| poll_room(&place, cx)))
                .await
                .is_err()
            {}
            let accepted = poll_fn(|cx| {
                // Other tasks may have taken the room while this one waited for a client.
                if context::with(|lent| lent.is_full()) {
                    return Poll::Ready(Ok(Accept::WouldBlock));
                }
                let accept = |listener: &L| accept(listener, &aborted);
                self.watched.poll_read_with(cx, accept)
            });
            match accepted.await? {
                Accept::Connection(stream, peer) => match Stream::new(stream) {
                    Ok(stream) => return Ok((stream, peer)),
                    Err(_) => sleep(Backoff::PAUSE).await,
                },
                Accept::Exhausted(_) => sleep(Backoff::PAUSE).await,
                Accept::Aborted | Accept::WouldBlock => {}
            }
            let connections = aborted.get();
            if connections == ABORTED_MAX {
                sleep(Backoff::PAUSE).await;
                return Err(evcore::Error::Aborted { connections }.into());
            }
        }
    }

    /// Returns the watched descriptor, for calls that this type does not offer.
    #[must_use]
    pub fn watched(&self) -> &Watched<L> {
        &self.watched
    }
}

fn poll_room(place: &Place<'_>, cx: &mut Context<'_>) -> Poll<()> {
    if context::with(|lent| lent.is_full()) {
        place.wait(cx.waker());
        return Poll::Pending;
    }
    Poll::Ready(())
}

/// Accepts a client, with `WouldBlock` as an error, because [`Watched`] waits on that error. Counts
/// in `aborted` the clients that were lost in a row.
fn accept<L: Acceptor>(listener: &L, aborted: &Cell<u32>) -> io::Result<Accept<L::Stream>> {
    let accepted = listener.accept()?;
    let before = aborted.replace(0);
    match accepted {
        Accept::WouldBlock => return Err(io::ErrorKind::WouldBlock.into()),
        Accept::Aborted => aborted.set(before + 1),
        Accept::Connection(..) | Accept::Exhausted(_) => {}
    }
    Ok(accepted)
}

impl<L: fmt::Debug> fmt::Debug for Listener<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.watched.fmt(f)
    }
}
