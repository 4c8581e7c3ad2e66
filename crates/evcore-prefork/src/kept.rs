//! The descriptors that a descriptor store keeps.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::exit::WorkerInfo;

/// The idle connections of a worker that has died, in its [descriptor
/// store](crate::Supervisor::descriptor_store).
#[derive(Debug)]
#[non_exhaustive]
pub struct Kept {
    /// The worker that has died.
    pub worker: WorkerInfo,
    /// The descriptors that it had marked as idle, in the order of their numbers. There may be none.
    pub descriptors: Vec<OwnedFd>,
    pub(crate) successor: OwnedFd,
}

impl Kept {
    /// The sending end of the mailbox of the worker's [successor](crate::Mailboxes::to_successor).
    #[must_use]
    pub fn to_successor(&self) -> BorrowedFd<'_> {
        self.successor.as_fd()
    }
}

/// The function that hands on what a store keeps.
pub(crate) type HandOn<'a> = Box<dyn FnOnce(Kept) + 'a>;
