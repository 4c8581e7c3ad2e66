//! What a turn yields.

use evcore_accept::{Address, Stream};
use evcore_poller::Ready;
use evcore_token::Token;

/// One thing for the application to do.
///
/// The list is closed on purpose: a step that is added later is one that every application must
/// decide about, so the compiler is to say so.
///
/// ```
/// use evcore::{EventLoop, Ready, Step, Token};
/// use std::num::NonZeroU32;
///
/// let mut ev = EventLoop::builder().build()?;
/// let token = Token::new(0, NonZeroU32::MIN);
/// ev.begin(token)?;
/// ev.post(token, Ready::READABLE);
/// ev.wait()?;
/// while let Some(step) = ev.next_step() {
///     match step {
///         Step::Ready(token, ready) => println!("{token} is {ready:?}"),
///         Step::Expired(token, side) => println!("{token} took too long to {side:?}"),
///         Step::Accepted(new) => println!("{} has come", new.peer),
///         Step::Woken => println!("somebody has news"),
///         Step::Closing(token) => println!("{token} has to make room"),
///     }
/// }
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Debug)]
pub enum Step<S = Stream> {
    /// A client has come. It is not yet watched: put it into a table, and
    /// [`add`](crate::EventLoop::add) it.
    Accepted(Accepted<S>),
    /// A descriptor is ready, or something was posted, by [`post`](crate::EventLoop::post),
    /// [`post_next`](crate::EventLoop::post_next) or [from another thread](crate::Handle::post).
    Ready(Token, Ready),
    /// The timer of this side has expired, and is no longer armed.
    Expired(Token, Side),
    /// Somebody [woke](crate::Handle::wake) the loop, once or many times.
    Woken,
    /// One that was [idle](crate::EventLoop::set_idle) the longest is to be closed: a client waits
    /// and places are short, or the loop [shuts down](crate::EventLoop::shutdown). It counts as
    /// idle no longer.
    ///
    /// All that is known of it has been delivered; what may just have reached its socket is yours
    /// to look for. If you do not close it, no harm is done but that its place is not free: it
    /// stays, and is named again only after you have called it idle again. Whoever still waits then
    /// is given the place of another, in the next turn.
    Closing(Token),
}

/// A client that has come. Dropping it closes the connection.
///
/// ```
/// use evcore::{EventLoop, Listener, Step};
///
/// let listener = Listener::bind("127.0.0.1:0".parse()?)?;
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
    /// The connection: non-blocking, closed on exec.
    pub stream: S,
    /// Who it is.
    pub peer: Address,
    /// Which listener it came by, in the order in which the builder was given them.
    pub listener: usize,
}

/// The two halves of a connection, each with a timer of its own (nginx: `rev`, `wev`).
///
/// ```
/// use evcore::{EventLoop, Side, Token};
/// use std::{num::NonZeroU32, time::Duration};
///
/// let mut ev = EventLoop::builder().build()?;
/// let token = Token::new(0, NonZeroU32::MIN);
/// ev.begin(token)?;
/// ev.arm(token, Side::Read, Duration::from_secs(60)); // it must speak
/// ev.arm(token, Side::Write, Duration::from_secs(5)); // and listen
/// assert!(ev.disarm(token, Side::Write));
/// assert!(ev.disarm(token, Side::Read));
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// What comes from the peer.
    Read,
    /// What goes to the peer.
    Write,
}
