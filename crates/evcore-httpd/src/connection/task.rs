//! The tasks that a connection returns to its caller, which has the stream.

use std::{io, sync::Arc};

use crate::{files::OpenFile, timers::Change};

#[derive(Debug)]
pub enum Task<'a> {
    /// Send these bytes. `handle_sent` or `handle_blocked` follows.
    Send(&'a [u8]),
    /// Send these bytes in such a way that a file follows in the same packet. The same calls follow
    /// as for `Send`.
    SendMore(&'a [u8]),
    /// Send these bytes of a file. The same calls follow as for `Send`, or `handle_disk_read` if a
    /// thread reads the bytes first.
    SendFile {
        file: &'a Arc<OpenFile>,
        offset: u64,
        count: u64,
        /// True if a thread has just read the bytes. They are then sent without a check whether
        /// they are in memory. If memory is short, the kernel may drop the bytes again at once, and
        /// checks and reads would alternate for ever.
        was_read: bool,
    },
    /// Receive, and then call `handle_input`. If the client has ended the stream, close it.
    Receive,
    /// All responses are sent. Shut the write side down, and then call `handle_shut_down`. If
    /// `lingers` is false and the stream is drained, close the stream instead.
    Finish { lingers: bool },
    /// Do nothing until a timer expires, body memory is free, or the disk has read a piece.
    Wait,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub receive: Change,
    pub send: Change,
    /// True if the loop may evict the connection; `None` if that has not changed.
    pub is_idle: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Expiry {
    /// A response was made.
    Respond,
    /// An idle connection of a stopping worker: continue as if the loop had evicted it.
    Evict,
    Close,
}

/// A reason to close the connection at once, for example that the memory it needs is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort;

impl From<Abort> for io::Error {
    fn from(_: Abort) -> Self {
        io::ErrorKind::ConnectionAborted.into()
    }
}
