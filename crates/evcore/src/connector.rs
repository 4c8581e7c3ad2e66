//! The trait by which a program makes outgoing connections, on sockets or in a simulator.

use std::fmt;

use evcore_net::{Address, ConnectOptions, Error, Stream, Transport};
use evcore_poller::Source;

/// Connects to servers: [`ConnectOptions`], or a simulator's own type.
///
/// A program that is generic over it and over [`Acceptor`](crate::Acceptor), such as a proxy, runs
/// on sockets and in a simulator.
///
/// ```
/// use evcore::{Acceptor, Address, Connector, EdgeStream, EventLoop, Listener};
/// use evcore::net::ConnectOptions;
///
/// /// Begins to connect. The first step of the stream is the result.
/// fn connect<L: Acceptor, C: Connector>(
///     ev: &mut EventLoop<L>,
///     connector: &C,
///     to: &Address,
/// ) -> Result<EdgeStream<C::Stream>, Box<dyn std::error::Error>> {
///     Ok(EdgeStream::add(ev, connector.connect(to)?)?)
/// }
///
/// let listener = Listener::bind("127.0.0.1:0")?;
/// let mut ev = EventLoop::builder().build()?;
/// let stream = connect(&mut ev, &ConnectOptions::new(), listener.local_addr())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Connector: fmt::Debug {
    /// A connection, which the loop can watch.
    type Stream: Transport + Source;

    /// Begins to connect to `address`, and does not wait for the result.
    ///
    /// The result is known when the stream is first reported as writable, unless the connector
    /// [connects by sending](Self::connects_by_sending). Once the result is known,
    /// [`take_error`](Transport::take_error) returns the reason for a failure, or `None` if the
    /// stream is connected.
    ///
    /// # Errors
    ///
    /// The errors of [`ConnectOptions::connect`]: connecting has already failed.
    fn connect(&self, address: &Address) -> Result<Self::Stream, Error>;

    /// Returns whether a stream may be writable before it is connected, because the kernel connects
    /// it with the first bytes that are sent. Until it is connected, it has no peer address. The
    /// default is false.
    fn connects_by_sending(&self) -> bool {
        false
    }
}

impl Connector for ConnectOptions {
    type Stream = Stream;

    fn connect(&self, address: &Address) -> Result<Stream, Error> {
        Self::connect(self, address)
    }

    fn connects_by_sending(&self) -> bool {
        self.is_fast_open()
    }
}
