//! Mailboxes: sockets by which workers reach each other, and which exist before any worker.
//!
//! A mailbox is a pair of sockets: the master keeps both ends, each worker has all sending ends, and one
//! worker at a time reads. So a message to a slot without a worker waits for the next one. The
//! application chooses what to send; `evcore-handover` sends connections.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::Arc,
};

use crate::{
    error::{Error, Result},
    slot::Slot,
};

/// The mailboxes of the [slots](crate::Worker::slot) and of successors.
///
/// A worker sends to any other one of its master by [`to_slot`](Self::to_slot). A worker that stops
/// cannot know the slot of its successor, which may be a process of a new binary. So there is one more
/// mailbox for each [index](crate::Worker::index), which a new binary inherits. A worker that stops
/// sends there ([`to_successor`](Self::to_successor)), and one that serves reads it
/// ([`of_predecessors`](Self::of_predecessors)).
///
/// Each is one end of a pair of Unix sockets of type `SOCK_SEQPACKET`, non-blocking and
/// close-on-exec. `Sender::open` and `Mailbox::from_fd` of `evcore-handover` take them.
///
/// ```
/// # #[cfg(target_os = "linux")]
/// # fn main() -> Result<(), evcore_prefork::Error> {
/// use evcore_prefork::{DO_NOT_RESTART, Supervisor};
///
/// Supervisor::new(2).mailboxes().run(|worker| {
///     let mailboxes = worker.mailboxes().unwrap();
///     assert!(mailboxes.to_slot(7).is_some() && mailboxes.to_slot(8).is_none());
///     DO_NOT_RESTART
/// })?;
/// # Ok(())
/// # }
/// # #[cfg(not(target_os = "linux"))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct Mailboxes {
    table: Arc<Table>,
    slot: usize,
    index: usize,
}

impl Mailboxes {
    pub(crate) fn new(table: Arc<Table>, slot: Slot) -> Self {
        Self {
            slot: slot.number(table.workers),
            index: slot.index,
            table,
        }
    }

    /// The sending end of a slot's mailbox; `None` if there is no such slot.
    ///
    /// If the slot has no worker, messages wait for the next one.
    #[must_use]
    pub fn to_slot(&self, slot: usize) -> Option<BorrowedFd<'_>> {
        Some(self.table.slots.get(slot)?.sending.as_fd())
    }

    /// The sending end for the worker that serves in place of this one: its successor after a reload or
    /// an upgrade, or its replacement.
    ///
    /// Stop reading [`of_predecessors`](Self::of_predecessors) before you send.
    #[must_use]
    pub fn to_successor(&self) -> BorrowedFd<'_> {
        self.table.successors[self.index].sending.as_fd()
    }

    /// The mailbox of this worker's slot, which this worker reads.
    #[must_use]
    pub fn of_slot(&self) -> BorrowedFd<'_> {
        self.table.slots[self.slot].receiving()
    }

    /// The mailboxes in which workers that stop reach this one. Read them until this worker gets a
    /// stop.
    ///
    /// There is one mailbox, or several if the old binary had more workers.
    pub fn of_predecessors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (workers, index) = (self.table.workers, self.index);
        let mine = self.table.successors.iter().skip(index).step_by(workers);
        mine.map(Pair::receiving)
    }
}

/// All mailboxes of a supervisor.
#[derive(Debug)]
pub(crate) struct Table {
    /// Number of workers in a generation.
    workers: usize,
    slots: Vec<Pair>,
    /// The mailboxes for successors, by index. There are more of them than workers if an older
    /// binary had more workers.
    successors: Vec<Pair>,
}

impl Table {
    /// Creates the mailboxes. `inherited` are those of an older binary, in the order of its list.
    pub(crate) fn new(workers: usize, slots: usize, inherited: Vec<OwnedFd>) -> Result<Self> {
        let mut inherited = inherited.into_iter();
        let mut successors = Vec::new();
        while let (Some(sending), receiving @ Some(_)) = (inherited.next(), inherited.next()) {
            successors.push(Pair { sending, receiving });
        }
        while successors.len() < workers {
            successors.push(Pair::new()?);
        }
        let slots = (0..slots).map(|_| Pair::new()).collect::<Result<_>>()?;
        Ok(Self {
            workers,
            slots,
            successors,
        })
    }

    /// The descriptors that a new binary inherits: both ends of each mailbox for successors.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = RawFd> {
        let ends = |pair: &Pair| [pair.sending.as_raw_fd(), pair.receiving().as_raw_fd()];
        self.successors.iter().flat_map(ends)
    }

    /// Closes the ends that only other workers read, in a worker that is a process.
    pub(crate) fn keep_those_of(&mut self, slot: Slot) {
        let number = slot.number(self.workers);
        for (n, pair) in self.slots.iter_mut().enumerate() {
            pair.receiving.take_if(|_| n != number);
        }
        for (n, pair) in self.successors.iter_mut().enumerate() {
            pair.receiving.take_if(|_| n % self.workers != slot.index);
        }
    }
}

#[derive(Debug)]
struct Pair {
    sending: OwnedFd,
    /// The receiving end. None in a worker process that does not read it.
    receiving: Option<OwnedFd>,
}

impl Pair {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn new() -> Result<Self> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (sending, receiving) = pair.map_err(Error::os("making a mailbox (socketpair)"))?;
        Ok(Self {
            sending,
            receiving: Some(receiving),
        })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn new() -> Result<Self> {
        Err(Error::NoMailboxes)
    }

    fn receiving(&self) -> BorrowedFd<'_> {
        let receiving = self.receiving.as_ref();
        receiving.expect("the reader keeps this end").as_fd()
    }
}
