//! What a turn yields.

use std::net::SocketAddr;

use evcore_accept::Stream;
use evcore_poller::Ready;
use evcore_token::Token;

/// One thing for the application to do.
///
/// The list is closed on purpose: a step that is added later is one that every application must
/// decide about, so the compiler is to say so.
#[derive(Debug)]
pub enum Step {
    /// A client has come. It is not yet watched: put it into a table, and
    /// [`add`](crate::EventLoop::add) it.
    Accepted(Accepted),
    /// A descriptor is ready, or something was [posted](crate::EventLoop::post).
    Ready(Token, Ready),
    /// The timer of this side has expired, and is no longer armed.
    Expired(Token, Side),
    /// A [`Handle`](crate::Handle) woke the loop, once or many times.
    Woken,
}

/// A client that has come.
#[derive(Debug)]
pub struct Accepted {
    /// The connection: non-blocking, closed on exec.
    pub stream: Stream,
    /// Who it is.
    pub peer: SocketAddr,
    /// Which listener it came by, in the order in which the builder was given them.
    pub listener: usize,
}

/// The two halves of a connection, each with a timer of its own (nginx: `rev`, `wev`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// What comes from the peer.
    Read,
    /// What goes to the peer.
    Write,
}
