//! The tasks that a connection returns to the caller that has its stream.

use std::{io, sync::Arc};

use crate::{files::OpenFile, timers::Change};

/// A task for the stream.
#[derive(Debug)]
pub enum Task<'a> {
    /// Send these bytes. `handle_sent` or `handle_blocked` follows.
    Send(&'a [u8]),
    /// Send these bytes in such a way that a file follows in the same packet. Then as for `Send`.
    SendMore(&'a [u8]),
    /// Send these bytes of a file. Then as for `Send`; or `handle_disk_read` if a thread reads them
    /// first.
    SendFile {
        file: &'a Arc<OpenFile>,
        offset: u64,
        count: u64,
        /// A thread has just read them. A second look could repeat that for ever if memory is short.
        was_read: bool,
    },
    /// Receive, and then `handle_input`. At the client's end, close.
    Receive,
    /// The client has everything. Shut the write side down, and then `handle_shut_down`. If it does not
    /// linger and the stream is drained, close instead.
    Finish { lingers: bool },
    /// Do nothing: a timer, body memory or the disk comes next.
    Wait,
}

/// The changes for the loop.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Of the timer [`RECEIVE`].
    pub receive: Change,
    /// Of the timer [`SEND`](crate::timers::SEND).
    pub send: Change,
    /// True if the loop may evict the connection; `None` if that has not changed.
    pub is_idle: Option<bool>,
}

/// The consequence of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Expiry {
    /// A response was made.
    Respond,
    /// An idle connection of a stopping worker: continue as if the loop had evicted it.
    Evict,
    Close,
}

/// The connection has to be closed at once: it needs memory that there is not, or the client does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort;

impl From<Abort> for io::Error {
    fn from(_: Abort) -> Self {
        io::ErrorKind::ConnectionAborted.into()
    }
}
