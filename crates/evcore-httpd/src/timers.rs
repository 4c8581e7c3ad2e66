//! The timers of the server. Each token has two.

use evcore::Timer;

/// Of a connection: how long it may take to receive what it waits for. `ReadTimer` has what that is.
pub(crate) const RECEIVE: Timer = Timer::new(0);

/// Of a connection: how long the client may take nothing of a response.
pub(crate) const SEND: Timer = Timer::new(1);

/// Of a connection: the end of `/sleep`. It is the timer of [`SEND`], because a connection that sleeps
/// has nothing to send.
pub(crate) const SLEEP: Timer = SEND;

/// Of the access log's token: buffered lines are written.
pub(crate) const FLUSH: Timer = Timer::new(0);

/// Of the open files' token: those that no connection has used for a while are closed.
pub(crate) const SWEEP: Timer = Timer::new(0);
