//! Mailboxes: sockets by which workers reach each other, and which exist before any worker.
//!
//! A mailbox is a pair of sockets: the master keeps both ends, each worker has all sending ends,
//! and usually one worker at a time reads the receiving end. So a message to a slot without a
//! worker waits for the slot's next worker. The application chooses the messages; `evcore-handover`
//! sends connections.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::Arc,
};

use crate::{
    error::{Error, Result},
    slot::Slot,
    stored::{Keep, StoredMailboxes, keep_mailbox},
    successor::Successor,
};

/// The mailboxes of the [slots](crate::Worker::slot) and of successors.
///
/// A worker sends to any slot of its master by [`to_slot`](Self::to_slot). A worker that stops has
/// no means to find the slot of its [successor](Successor). So there are two more mailboxes for
/// each [index](crate::Worker::index). One is for the next generation of the same master. The other
/// one is for another binary, or for the next start of the service. A new binary inherits it, and
/// until the old binary has ended, workers of both binaries read it.
///
/// A worker that stops sends to one of the two ([`to_successor`](Self::to_successor)), and a worker
/// that serves reads both ([`of_predecessors`](Self::of_predecessors)).
///
/// The methods return ends of pairs of Unix sockets of type `SOCK_SEQPACKET`, which are
/// non-blocking and close-on-exec. `Sender::open` and `Mailbox::from_fd` of `evcore-handover` take
/// such ends.
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
#[derive(Clone, Debug)]
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

    /// Returns the sending end for the worker that serves in place of this one.
    /// [`Worker::successor`] returns the kind of that worker. If that worker dies, its replacement
    /// reads the mailbox.
    ///
    /// With [`Successor::Restart`], no process reads the mailbox before the next start of the
    /// service.
    ///
    /// Stop reading [`of_predecessors`](Self::of_predecessors) before you send. Otherwise this
    /// worker may read its own messages.
    ///
    /// [`Worker::successor`]: crate::Worker::successor
    #[must_use]
    pub fn to_successor(&self, successor: Successor) -> BorrowedFd<'_> {
        let pair = match successor {
            Successor::Generation => &self.table.generations[self.index],
            Successor::Binary => self.table.of_binaries(self.index),
            Successor::Restart => &self.table.binaries[self.index],
        };
        pair.sending.as_fd()
    }

    /// The mailbox of this worker's slot, which this worker reads.
    #[must_use]
    pub fn of_slot(&self) -> BorrowedFd<'_> {
        self.table.slots[self.slot].receiving()
    }

    /// Returns the mailboxes through which workers that stop reach this one. Read them until this
    /// worker gets a stop.
    ///
    /// There are two mailboxes, or more if the old binary, or the last run of the service, had more
    /// workers.
    pub fn of_predecessors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (workers, index) = (self.table.workers, self.index);
        let of_binaries = self.table.binaries.iter().skip(index).step_by(workers);
        let mine = [&self.table.generations[index]].into_iter();
        mine.chain(of_binaries).map(Pair::receiving)
    }
}

#[derive(Debug)]
pub(crate) struct Table {
    /// Number of workers in a generation.
    workers: usize,
    slots: Vec<Pair>,
    /// The mailboxes for successors of the same master, by index.
    generations: Vec<Pair>,
    /// The mailboxes for another binary or the next start of the service. The mailbox at `n`
    /// belongs to index `n % workers`, because an older binary or the last run may have had more
    /// workers.
    binaries: Vec<Pair>,
    /// Number of mailboxes that the older binary reads.
    inherited: usize,
}

impl Table {
    /// Creates the mailboxes. `inherited` has both ends of each mailbox of an older binary, in the
    /// order of its list. If there are none, the mailboxes in `stored` are used. A service manager
    /// has kept them since the last run.
    pub(crate) fn new(
        workers: usize,
        slots: usize,
        inherited: Vec<OwnedFd>,
        stored: StoredMailboxes,
    ) -> Result<Self> {
        let mut ends = inherited.into_iter();
        let mut binaries = Vec::new();
        while let (Some(sending), receiving @ Some(_)) = (ends.next(), ends.next()) {
            binaries.push(Pair { sending, receiving });
        }
        let inherited = binaries.len();
        if inherited == 0 {
            for ends in stored.into_pairs() {
                binaries.push(match ends {
                    Some([sending, receiving]) => Pair {
                        sending,
                        receiving: Some(receiving),
                    },
                    None => Pair::new()?,
                });
            }
        }
        while binaries.len() < workers {
            binaries.push(Pair::new()?);
        }
        let pairs = |count| (0..count).map(|_| Pair::new()).collect::<Result<_>>();
        Ok(Self {
            workers,
            slots: pairs(slots)?,
            generations: pairs(workers)?,
            binaries,
            inherited,
        })
    }

    /// The mailbox by which a worker of this index reaches a worker of another binary.
    fn of_binaries(&self, index: usize) -> &Pair {
        match self.inherited {
            0 => &self.binaries[index],
            // A newer binary reads all mailboxes. An older binary reads those that it has passed
            // on.
            inherited => &self.binaries[index % inherited],
        }
    }

    /// The descriptors that a new binary inherits: both ends of each mailbox for another binary.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = RawFd> {
        let ends = |pair: &Pair| [pair.sending.as_raw_fd(), pair.receiving().as_raw_fd()];
        self.binaries.iter().flat_map(ends)
    }

    pub(crate) fn keep(&self, keep: &mut Keep<'_>) {
        for (index, Pair { sending, receiving }) in self.binaries.iter().enumerate() {
            let receiving = receiving.as_ref().expect("the master keeps this end");
            keep_mailbox(keep, index, [sending, receiving]);
        }
    }

    /// In a worker process: closes the ends that only other workers read.
    pub(crate) fn close_receiving_ends_except(&mut self, slot: Slot) {
        let number = slot.number(self.workers);
        for (n, pair) in self.slots.iter_mut().enumerate() {
            pair.receiving.take_if(|_| n != number);
        }
        for pairs in [&mut self.generations, &mut self.binaries] {
            for (n, pair) in pairs.iter_mut().enumerate() {
                pair.receiving.take_if(|_| n % self.workers != slot.index);
            }
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
