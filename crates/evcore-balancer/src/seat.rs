//! A worker's place among the others, as its event loop sees it.
//!
//! What is behind it is somebody else's: shared memory in `peers.rs`, or a simulator's.

use std::{fmt, os::fd::RawFd};

use crate::{Load, View};

/// What an event loop needs of the other workers: to see them, to be seen, and to wake one.
///
/// [`PeerSeat`](crate::PeerSeat) is the real one; a test or a simulator brings its own.
///
/// ```
/// use evcore_balancer::{Load, Seat, View};
///
/// /// A worker that has no peers.
/// #[derive(Debug)]
/// struct Alone;
///
/// impl Seat for Alone {
///     fn is_called(&self) -> bool {
///         false
///     }
///     fn look(&mut self, _load: Load) -> View {
///         View::alone()
///     }
///     fn take(&mut self) {}
///     fn resign(&mut self) {}
///     fn call(&mut self, _peer: u32) {}
///     fn bell(&self) -> Option<std::os::fd::RawFd> {
///         None
///     }
///     fn silence(&mut self) {}
/// }
///
/// assert_eq!(Alone.look(Load::default()), View::alone());
/// ```
pub trait Seat: fmt::Debug + Send {
    /// Whether another has called this worker since its last look. Cheap: asked every turn.
    #[must_use]
    fn is_called(&self) -> bool;

    /// Shows this worker's load, answers a call, and tells whether there was one and what is seen
    /// of the others.
    #[must_use]
    fn look(&mut self, load: Load) -> View;

    /// Makes this worker the keeper. Its listeners are registered now.
    fn take(&mut self);

    /// Makes this worker the keeper no longer, if it was. Its listeners are still registered.
    fn resign(&mut self);

    /// Wakes the worker on another seat, to come and listen.
    fn call(&mut self, peer: u32);

    /// What the poller is to watch for calls, level-triggered; `None`: a call ends a wait by other
    /// means.
    #[must_use]
    fn bell(&self) -> Option<RawFd>;

    /// Makes the bell silent, before the next look.
    fn silence(&mut self);
}
