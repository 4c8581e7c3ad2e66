//! The connections that a worker's descriptor store (a process) keeps open if the worker dies.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering::Acquire};

use crate::exit::WorkerInfo;
use crate::successor::Successor;

/// The idle connections of a worker that has died, in its [descriptor
/// store](crate::Supervisor::descriptor_store).
#[derive(Debug)]
#[non_exhaustive]
pub struct Kept {
    /// The worker that has died.
    pub worker: WorkerInfo,
    /// The stream connections that the worker had marked as idle, in the order of their numbers.
    /// The list may be empty.
    pub descriptors: Vec<OwnedFd>,
    /// The sending ends of the two mailboxes of successors. The first one is for workers of the
    /// same master, and the second one for workers of another binary.
    pub(crate) mailboxes: [OwnedFd; 2],
    /// The kind of successor. The master writes it.
    pub(crate) successor: &'static AtomicU8,
}

impl Kept {
    /// Returns the sending end of the mailbox of the worker's
    /// [successor](crate::Mailboxes::to_successor).
    ///
    /// If the master is stopped while another binary runs, a worker of that binary becomes the
    /// successor. So call this again before you open another channel to the successor.
    #[must_use]
    pub fn to_successor(&self) -> BorrowedFd<'_> {
        let [generation, binary] = &self.mailboxes;
        let is_binary = self.successor.load(Acquire) == Successor::Binary as u8;
        if is_binary { binary } else { generation }.as_fd()
    }
}

/// The function that hands on the connections that a store keeps.
pub(crate) type HandOn<'a> = Box<dyn Fn(Kept) -> usize + 'a>;

/// The connections of a worker that has died, as the hook [`on_kept`](crate::Supervisor::on_kept)
/// gets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptCounts {
    /// Connections that the successor has taken: the number that `hand_on` has returned.
    pub taken: usize,
    /// The other connections, which were closed because they were not idle, or because no successor
    /// took them.
    pub lost: usize,
}

/// Prints, for example, `98 connections go on, 2 are closed`, for a log.
impl fmt::Display for KeptCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { taken, lost } = self;
        write!(f, "{taken} connections go on, {lost} are closed")
    }
}
