//! The outcome of a client with a script.

/// The outcome of a client with a [`Script`](crate::Script). [`ScriptHandle`](crate::ScriptHandle)
/// has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientOutcome {
    /// All operations are done.
    Completed,
    /// The client could not connect.
    Refused,
    /// The server or the network reset the connection.
    Reset,
    /// The server closed the connection before it had sent all bytes that the client waits for, or
    /// before it had received all bytes that the client sends.
    ClosedEarly,
}
