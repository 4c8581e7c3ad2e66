//! The ends of mailboxes that a worker has, from its supervisor or from a simulation. A mailbox is
//! a socket pair by which workers reach each other.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use evcore_handover::Descriptor;
use evcore_prefork::{Mailboxes, Successor};

/// The ends of mailboxes that a worker has.
pub(crate) trait MailboxEnds {
    type Descriptor: Descriptor;

    /// Duplicates the ends that the worker reads.
    ///
    /// # Errors
    ///
    /// If the process has no free descriptor.
    fn own(&self) -> io::Result<Vec<Self::Descriptor>>;

    /// The sending end of the mailbox of a successor.
    fn to_successor(&self, successor: Successor) -> <Self::Descriptor as Descriptor>::Borrowed<'_>;

    /// The sending end of the mailbox of a slot. `None` if there is no such slot.
    fn to_slot(&self, slot: usize) -> Option<<Self::Descriptor as Descriptor>::Borrowed<'_>>;
}

impl MailboxEnds for Mailboxes {
    type Descriptor = OwnedFd;

    fn own(&self) -> io::Result<Vec<OwnedFd>> {
        let ends = [self.of_slot()].into_iter().chain(self.of_predecessors());
        ends.map(|end| end.try_clone_to_owned()).collect()
    }

    fn to_successor(&self, successor: Successor) -> BorrowedFd<'_> {
        self.to_successor(successor)
    }

    fn to_slot(&self, slot: usize) -> Option<BorrowedFd<'_>> {
        self.to_slot(slot)
    }
}
