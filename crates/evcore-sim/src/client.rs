//! Clients: who comes to the server, speaks, keeps silent and goes.
//!
//! A client is called when something has happened to it, and says what it does next. It lives in
//! simulated time: to wait is to set the alarm. For a fixed course of events there is
//! [`Script`](crate::Script); this is what it is made of.

use std::{fmt, io, net::SocketAddr, time::Duration};

use evcore::Ready;

use crate::{Rng, rng::whole_ns, state::State, trace::What};

/// Somebody outside, with at most one connection at a time.
///
/// Its first call is [`News::Time`], as soon as the world goes on.
///
/// ```
/// use evcore_sim::{Client, News, Visit};
/// use std::{net::SocketAddr, time::Duration};
///
/// /// Asks once a minute, on one connection, for ever.
/// #[derive(Debug)]
/// struct Regular { server: SocketAddr, is_connected: bool }
///
/// impl Client for Regular {
///     fn call(&mut self, news: News, me: &mut Visit<'_>) {
///         match news {
///             News::Time if !self.is_connected => me.connect(self.server),
///             News::Connected | News::Time => {
///                 self.is_connected = true;
///                 let _ = me.send(b"anything new?\n");
///                 me.after(Duration::from_secs(60));
///             }
///             News::Ready(_) => while me.recv(&mut [0; 512]).is_ok_and(|n| n > 0) {},
///             _ => me.leave(),
///         }
///     }
/// }
/// ```
pub trait Client: fmt::Debug + Send {
    /// Something has happened.
    fn call(&mut self, news: News, me: &mut Visit<'_>);
}

/// What has happened to a client. For an example, see [`Client`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// The alarm that was set [`after`](Visit::after) some time; or the beginning.
    Time,
    /// The connection stands.
    Connected,
    /// It does not: nobody listens there, or too many wait there for too long.
    Refused,
    /// Something about the connection has changed, and this holds now. It comes with every change,
    /// so a client need not read all that there is.
    Ready(Ready),
}

/// The world, as a client has it in hand while it is called. For an example, see [`Client`].
///
/// Whatever would fail on a socket fails here, with the same kind of error.
pub struct Visit<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) id: u32,
}

impl Visit<'_> {
    /// How long the world has existed.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.state.now_ns())
    }

    /// The world's chance.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.state.rng
    }

    /// Sets the alarm, in place of one that is set already.
    pub fn after(&mut self, time: Duration) {
        self.state.set_alarm(self.id, whole_ns(time));
    }

    /// Sets out to a server: [`News::Connected`] or [`News::Refused`] follows. What the client was
    /// connected to before is closed.
    pub fn connect(&mut self, server: SocketAddr) {
        self.state.connect_client(self.id, server);
    }

    /// Whether there is a connection; it may have ended on the other side.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.state.client_end(self.id).is_ok()
    }

    /// Sends as much as there is room for, and says how much that was.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected), [`WouldBlock`](io::ErrorKind::WouldBlock),
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset) and
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe).
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.state.client_end(self.id)?;
        self.state.send(end, bytes)
    }

    /// Receives what has arrived; 0 bytes are the end of it.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), but for the broken pipe.
    pub fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.state.client_end(self.id)?;
        self.state.receive(end, buffer)
    }

    /// Says that no more will come from here.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected).
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        let end = self.state.client_end(self.id)?;
        self.state.finish(end)
    }

    /// Closes the connection. Where bytes were not read, this is a reset for the other side.
    pub fn close(&mut self) {
        self.state.close_client(self.id);
    }

    /// Resets the connection.
    pub fn reset(&mut self) {
        self.state.reset_client(self.id);
    }

    /// Closes the connection and goes for good: this is the last call.
    pub fn leave(&mut self) {
        self.state.leave_world(self.id);
    }

    /// Puts a word on the record: it counts for the [hash](crate::World::trace_hash) too.
    pub fn note(&mut self, text: &str) {
        let now_ns = self.state.now_ns();
        self.state.note(What::Client, u64::from(self.id), 1);
        self.state.trace.say(now_ns, text);
    }
}

/// Who, and when.
impl fmt::Debug for Visit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit")
            .field("client", &self.id)
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}
