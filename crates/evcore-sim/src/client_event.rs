//! The events of a simulated client.

use evcore::Ready;

/// An event of a client. [`Client`](crate::Client) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientEvent {
    /// The client begins. This is always the first event.
    Started,
    /// The timer that was [armed](crate::ClientCx::arm) has expired.
    Expired,
    /// The connection is established.
    Connected,
    /// The connection is refused, because no process listens at the address, or because the backlog
    /// was full for 31 s.
    Refused,
    /// The state of the connection has changed, and this readiness holds now. It is reported after
    /// every change, so a client need not read all bytes that have arrived.
    Ready(Ready),
}
