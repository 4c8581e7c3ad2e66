//! What a turn yields.

use evcore_accept::{Address, Stream};
use evcore_poller::Ready;
use evcore_token::Token;

use crate::Timer;

/// One thing for the application to do.
///
/// The list is closed on purpose: a step that is added later is one that every application must
/// decide about, so the compiler is to say so.
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
///         Step::Accepted(new) => println!("{} has come", new.peer),
///         Step::Woken => println!("somebody has news"),
///         Step::Evict(token) => println!("{token} has to make room"),
///     }
/// }
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Debug)]
pub enum Step<S = Stream> {
    /// A client has come. It is not yet watched: [`Connections::add`](crate::Connections::add)
    /// watches and keeps it.
    Accepted(Accepted<S>),
    /// A descriptor is ready, or something was posted, by [`post`](crate::EventLoop::post),
    /// [`post_next`](crate::EventLoop::post_next) or [from another thread](crate::Handle::post).
    Ready(Token, Ready),
    /// This timer has expired, and is no longer armed.
    Expired(Token, Timer),
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
    Evict(Token),
}

/// A client that has come. Dropping it closes the connection.
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
    /// The connection: non-blocking, closed on exec.
    pub stream: S,
    /// Who it is.
    pub peer: Address,
    /// Which listener it came by, in the order in which the builder was given them.
    pub listener: usize,
}
