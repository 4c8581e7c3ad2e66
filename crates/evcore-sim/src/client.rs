//! Simulated clients that are written as event handlers.

use std::{fmt, io, net::SocketAddr, time::Duration};

use crate::{
    client_event::ClientEvent,
    client_outcome::ClientOutcome,
    rng::{Rng, whole_ns},
    sim::Sim,
    state::{Callback, State},
    trace::{ClientWait, Detail},
};

/// A client of the simulated network, with at most one connection and one timer.
///
/// Its first event is [`ClientEvent::Started`], which comes as soon as simulated time passes.
///
/// ```
/// use evcore_sim::{Client, ClientCx, ClientEvent};
/// use std::{net::SocketAddr, time::Duration};
///
/// /// Sends a request once a minute, on one connection, for ever.
/// #[derive(Debug)]
/// struct Regular { server: SocketAddr }
///
/// impl Client for Regular {
///     fn on_event(&mut self, event: ClientEvent, cx: &mut ClientCx<'_>) {
///         match event {
///             ClientEvent::Started => cx.connect(self.server),
///             ClientEvent::Connected | ClientEvent::Expired => {
///                 let _ = cx.send(b"anything new?\n");
///                 cx.arm(Duration::from_secs(60));
///             }
///             ClientEvent::Ready(_) => while cx.recv(&mut [0; 512]).is_ok_and(|n| n > 0) {},
///             _ => cx.exit(),
///         }
///     }
/// }
/// ```
pub trait Client: fmt::Debug + Send {
    /// Handles an event.
    fn on_event(&mut self, event: ClientEvent, cx: &mut ClientCx<'_>);
}

/// The context with which a [`Client`] acts while it handles an event.
///
/// A call fails as it would on a socket, with the same kind of error. [`Client`] has an example.
pub struct ClientCx<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) id: u32,
}

impl ClientCx<'_> {
    /// The simulated time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.state.now_ns())
    }

    /// The random numbers of the simulation.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.state.rng
    }

    /// Arms the client's timer. If the timer is armed already, the new deadline replaces the old
    /// one.
    pub fn arm(&mut self, after: Duration) {
        self.state.arm_client_timer(self.id, whole_ns(after));
    }

    /// Closes the connection that the client has, and starts to connect to a server.
    /// [`ClientEvent::Connected`] or [`ClientEvent::Refused`] follows, unless the client closes or
    /// exits before.
    pub fn connect(&mut self, server: SocketAddr) {
        self.state.connect_client(self.id, server);
    }

    /// The address that the client connects from, which the server sees as its peer. `None` if the
    /// client neither has a connection nor is connecting.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.state.client_address(self.id)
    }

    /// Returns whether a fault has ended the client's last connection: a
    /// [`Reset`](crate::Fault::Reset), an [`Abort`](crate::Fault::Abort), or a kill, such as
    /// [`Kill`](crate::Fault::Kill), of the process that held it.
    #[must_use]
    pub fn is_lost_to_fault(&self) -> bool {
        self.state.is_lost_to_fault(self.id)
    }

    /// Returns whether the client has a connection. The other side may have ended it.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.state.client_endpoint(self.id).is_ok()
    }

    /// Sends as many of the `bytes` as fit, and returns their number.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the client has no connection,
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if the server's buffer is full,
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset) or
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if the connection has ended.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let id = self.state.client_endpoint(self.id)?;
        self.state.send(id, bytes)
    }

    /// Receives the bytes that have arrived, up to the length of `buffer`. Returns their number,
    /// which is 0 at the end of the stream.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the client has no connection,
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing has arrived,
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset) once after a reset.
    pub fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let id = self.state.client_endpoint(self.id)?;
        self.state.receive(id, buffer)
    }

    /// Shuts down the sending half: the server reads the end of the stream.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the client has no connection, or if the
    /// connection was reset or has ended in both directions.
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        let id = self.state.client_endpoint(self.id)?;
        self.state.shutdown_write(id)
    }

    /// Closes the connection. If received bytes are unread, the server sees a reset.
    pub fn close(&mut self) {
        self.state.close_client(self.id);
    }

    /// Resets the connection.
    pub fn reset(&mut self) {
        self.state.reset_client(self.id);
    }

    /// Closes the connection and removes the client. It gets no further event.
    pub fn exit(&mut self) {
        self.state.remove_client(self.id);
    }

    /// Adds to the trace the condition that the client waits for.
    pub(crate) fn waits(&mut self, wait: impl FnOnce() -> ClientWait) {
        let client = self.id;
        let wait = || Detail::Waits {
            client,
            wait: wait(),
        };
        self.state.detail(wait);
    }

    pub(crate) fn ends(&mut self, outcome: ClientOutcome) {
        let client = self.id;
        self.state.detail(|| Detail::Ended { client, outcome });
    }

    /// Adds a note to the trace. This changes the trace's [hash](crate::Sim::trace_hash).
    pub fn note(&mut self, text: &str) {
        let now_ns = self.state.now_ns();
        self.state.trace.text(now_ns, Some(self.id), text);
    }
}

impl fmt::Debug for ClientCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCx")
            .field("client", &self.id)
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

impl Sim {
    /// Starts a client of your own.
    pub fn add_client(&self, client: impl Client + 'static) {
        self.state().add_client(Box::new(client));
    }
}

impl<C: Client> Callback for C {
    fn call(&mut self, event: ClientEvent, state: &mut State, id: u32) {
        self.on_event(event, &mut ClientCx { state, id });
    }
}
