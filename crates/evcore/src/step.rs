//! The steps that a loop yields to the application.

use evcore_net::{Address, Stream};
use evcore_poller::Ready;
use evcore_timer::Timer;
use evcore_token::Token;

/// One thing for the application to do.
///
/// The enum is exhaustive on purpose: if a step is added later, every application must handle it,
/// so the compiler should report its absence.
///
/// ```
/// use evcore::{EventLoop, Ready, Step};
///
/// let mut ev = EventLoop::builder().build()?;
/// let token = ev.add_unwatched()?;
/// ev.post(token, Ready::READABLE);
/// ev.wait()?;
/// while let Some(step) = ev.next_step() {
///     match step {
///         Step::Ready(token, ready) => println!("{token} is {ready:?}"),
///         Step::Expired(token, timer) => println!("{token}: its timer {timer:?} has expired"),
///         Step::Accepted(new) => println!("{} has connected", new.peer),
///         Step::Woken => println!("another thread woke the loop"),
///         Step::ShuttingDown => println!("no client is accepted any more"),
///         Step::Evict(token) => println!("{token} is evicted"),
///     }
/// }
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Debug)]
pub enum Step<S = Stream> {
    /// A client has connected. The loop does not watch it yet:
    /// [`Connections::add`](crate::Connections::add) watches and keeps it.
    Accepted(Accepted<S>),
    /// A descriptor is ready, or something was posted, by [`post`](crate::EventLoop::post),
    /// [`post_next`](crate::EventLoop::post_next) or [from another thread](crate::Handle::post).
    Ready(Token, Ready),
    /// This timer has expired, and is no longer armed.
    Expired(Token, Timer),
    /// A [handle](crate::Handle::wake) woke the loop, once or several times.
    Woken,
    /// The loop [shuts down](crate::EventLoop::shutdown) from now on, whichever call began the
    /// shutdown. This step comes once, so that the program can say good-bye to its peers. A
    /// shutdown that is begun between two turns and is complete at once makes no step.
    ShuttingDown,
    /// Close this [idle](crate::EventLoop::set_idle) connection: a client waits and slots or
    /// descriptors are short, or the loop [shuts down](crate::EventLoop::shutdown). The connection
    /// no longer counts as idle.
    ///
    /// This step comes only for connections that the program has marked by
    /// [`set_idle`](crate::EventLoop::set_idle). Each event that the kernel has reported for the
    /// connection has been delivered. If a request may be on the way, read once more
    /// before closing: closing a socket with unread data resets the connection.
    ///
    /// If a connection became idle just before a shutdown, this step comes only after a
    /// [grace](crate::Builder::idle_grace), because the next request may be on the way. A slow peer
    /// may still not have received its last answer by then. If
    /// [`Stream::is_delivered`](crate::Stream::is_delivered) returns false, arm a timer and look
    /// again, as `httpd` does.
    ///
    /// If you keep the connection open, its slot stays taken, and the connection is not evicted
    /// again until you mark it idle. The waiting client then gets the slot of another connection in
    /// the next turn.
    Evict(Token),
}

/// A client that has connected. Dropping it closes the connection.
///
/// ```
/// use evcore::{EventLoop, Listener, Step};
///
/// let listener = Listener::bind("127.0.0.1:0")?;
/// let client = std::net::TcpStream::connect(listener.local_addr())?;
/// let mut ev = EventLoop::builder().listener(listener).build()?;
/// ev.wait()?;
/// let Some(Step::Accepted(new)) = ev.next_step() else { unreachable!() };
/// assert_eq!((new.peer, new.listener), (client.local_addr()?.into(), 0));
/// new.stream.send(b"welcome")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Accepted<S = Stream> {
    /// The connection, non-blocking and close-on-exec.
    pub stream: S,
    /// The address of the client.
    pub peer: Address,
    /// The number of the listener, from 0 in the order of
    /// [`Builder::listener`](crate::Builder::listener).
    pub listener: usize,
}

impl<S> Step<S> {
    pub(crate) fn token(&self) -> Option<Token> {
        match *self {
            Self::Ready(token, _) | Self::Expired(token, _) | Self::Evict(token) => Some(token),
            Self::Accepted(_) | Self::Woken | Self::ShuttingDown => None,
        }
    }
}

impl<S> Accepted<S> {
    /// Creates the value from its parts. A layer between the loop and the program calls this, for
    /// example if it reads the client's address from the connection.
    #[must_use]
    pub fn new(stream: S, peer: Address, listener: usize) -> Self {
        Self {
            stream,
            peer,
            listener,
        }
    }
}
