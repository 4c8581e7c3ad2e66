//! The sending side of a channel, the socket pair over which one receiver gets connections.

use std::{
    mem,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use crate::{
    connection::{Connection, descriptors},
    descriptor::{Descriptor, Received, Unsent},
    error::{Error, Result},
    ledger::{Ledger, OutOfOrder},
    refusal::Refusal,
    wire::{self, Entry, HEADER_BYTES, Message},
};

/// Sends connections to one receiver, and keeps each until its batch is acknowledged.
///
/// Watch it for readability: it is readable when [`next_answer`](Self::next_answer) has an answer,
/// the greeting of the receiver, or the error of a channel that has ended.
///
/// If it is dropped, the connections that were sent belong to the receiver, as if this process had
/// died. If you want them back, call [`take_back`](Self::take_back).
///
/// ```
/// use evcore_handover::{Answer, Connection, Mailbox, Sender};
///
/// let (address, mut mailbox) = Mailbox::pair(1)?;
/// let mut sender = Sender::open(&address, 1)?;
/// let (stream, _peer) = std::os::unix::net::UnixStream::pair()?;
/// sender.send(&mut vec![Connection::new(stream, b"state")])?;
///
/// let mut receiver = mailbox.next_receiver()?.expect("a sender");
/// receiver.receive()?.expect("a batch").refuse();
/// let Some(Answer::Refused { connections, .. }) = sender.next_answer()? else { panic!() };
/// assert_eq!(connections[0].state, b"state");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "after a drop, the sent connections belong to the receiver"]
pub struct Sender<D = OwnedFd> {
    channel: D,
    /// The `eventfd` by which the receiver finds out that the connections were taken back, even
    /// after this process has ended.
    revocation: D,
    /// The receiver's end, with which this side can empty the channel; `None` once the receiver's
    /// greeting was read.
    unclaimed: Option<D>,
    version: u32,
    ledger: Ledger<Vec<Connection<D>>>,
    message: Vec<u8>,
}

/// The answer of a receiver to a batch.
#[derive(Debug)]
#[non_exhaustive]
pub enum Answer<D = OwnedFd> {
    /// The receiver owns the connections. They are closed on this side.
    Acknowledged {
        /// The number of the batch, which is 1 for the first batch.
        batch: u64,
        /// The number of connections, partners included.
        connections: usize,
    },
    /// The receiver has dropped the connections without using them. They come back with this
    /// answer.
    Refused {
        /// The number of the batch.
        batch: u64,
        /// The reason.
        reason: Refusal,
        /// The connections, as they were sent.
        connections: Vec<Connection<D>>,
    },
}

const OPENING: &str = "putting a channel into a mailbox (sendmsg)";
const SENDING: &str = "sending a batch of connections (sendmsg)";

impl Sender {
    /// Maximum number of unacknowledged batches. Beyond that, [`send`](Self::send) sends nothing.
    pub const UNACKNOWLEDGED_BATCHES_MAX: usize = Ledger::<()>::MAX;

    /// Opens a channel to the process that reads a [`Mailbox`](crate::Mailbox). `mailbox` is its
    /// sending end, which any number of processes may use.
    ///
    /// `version` is the version of the states that this program writes. Connections may be sent
    /// before a process has taken the channel out of the mailbox. This call opens three
    /// descriptors, one of which is closed when [`next_answer`](Self::next_answer) reads that the
    /// channel was taken out.
    ///
    /// # Errors
    ///
    /// [`Error::MailboxFull`], [`Error::KernelFull`], [`Error::Ended`] if no process has the
    /// mailbox any more, [`Error::Unsupported`] on systems other than Linux, and [`Error::Os`] for
    /// any other error of the system.
    pub fn open(mailbox: impl AsFd, version: u32) -> Result<Self> {
        Self::open_to(mailbox.as_fd(), version)
    }
}

impl<D: Descriptor> Sender<D> {
    /// [Opens](Sender::open) a channel over any kind of descriptor.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Sender::open).
    pub fn open_to(mailbox: D::Borrowed<'_>, version: u32) -> Result<Self> {
        let (channel, theirs) = D::pair(mailbox)?;
        let revocation = D::counter(mailbox)?;
        let descriptors = [theirs.borrow(), revocation.borrow()];
        let sent = D::send(mailbox, &wire::introduction(version), &descriptors);
        sent.map_err(|unsent| unsent.into_error(Error::MailboxFull, OPENING))?;
        Ok(Self {
            channel,
            revocation,
            unclaimed: Some(theirs),
            version,
            ledger: Ledger::new(),
            message: Vec::new(),
        })
    }

    /// Sends connections, in batches, and removes them from the front of `connections`. Returns the
    /// number of those that were sent.
    ///
    /// Connections that did not fit stay in `connections`. Send them after the next
    /// [answer](Self::next_answer), which will come, because a batch is outstanding. The sender
    /// keeps the connections that were sent until the answer or [`take_back`](Self::take_back).
    /// They must not be registered with a poller.
    ///
    /// Each batch of up to 253 connections costs a system call.
    ///
    /// # Errors
    ///
    /// [`Error::StateTooLong`] if the state of a connection is too long: this connection is then
    /// the first one in `connections`. [`Error::KernelFull`] if the kernel has no room and no batch
    /// is outstanding: no answer will come, so try again later. [`Error::Ended`] and [`Error::Os`]
    /// if the channel has ended: take the connections back. In all cases, the connections that were
    /// not sent are still in `connections`.
    pub fn send(&mut self, connections: &mut Vec<Connection<D>>) -> Result<usize> {
        let count = connections.len();
        let mut rest = mem::take(connections).into_iter();
        let result = loop {
            let size = wire::batch_size(rest.as_slice().iter().map(entry));
            let Some(first) = rest.as_slice().first() else {
                break Ok(());
            };
            if size == 0 {
                let bytes = first.state.len();
                break Err(Error::StateTooLong { bytes });
            }
            match self.send_batch(&rest.as_slice()[..size]) {
                Ok(true) => self.ledger.enter(rest.by_ref().take(size).collect()),
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        *connections = rest.collect();
        result.map(|()| count - connections.len())
    }

    /// Sends a batch, and returns whether there was room. If the result is false, another batch is
    /// outstanding, so an answer will come.
    fn send_batch(&mut self, batch: &[Connection<D>]) -> Result<bool> {
        if self.ledger.is_full() {
            return Ok(false);
        }
        let number = self.ledger.next_number();
        let entries = batch.iter().map(entry);
        wire::batch(&mut self.message, self.version, number, entries);
        let descriptors = batch.iter().flat_map(Connection::descriptors);
        let descriptors: Vec<_> = descriptors.map(|one| one.borrow()).collect();
        match D::send(self.channel.borrow(), &self.message, &descriptors) {
            Ok(()) => Ok(true),
            Err(Unsent::Full | Unsent::KernelFull) if self.ledger.iter().next().is_some() => {
                Ok(false)
            }
            Err(unsent) => Err(unsent.into_error(Error::KernelFull, SENDING)),
        }
    }

    /// The next answer, or `None` if no further one has arrived. Call this until it returns `None`.
    ///
    /// # Errors
    ///
    /// Each error ends the channel, so no further answer comes: [take the connections
    /// back](Self::take_back). [`Error::Ended`] if the receiver was dropped or has died,
    /// [`Error::ForeignVersion`] if the receiver reads another version of the states,
    /// [`Error::Malformed`] and [`Error::Os`].
    pub fn next_answer(&mut self) -> Result<Option<Answer<D>>> {
        loop {
            let mut bytes = [0; HEADER_BYTES + 1];
            let length = match D::receive_bytes(self.channel.borrow(), &mut bytes)? {
                Received::Message(length) => length,
                Received::Nothing => return Ok(None),
                Received::End => return Err(Error::Ended),
            };
            if let Some(answer) = self.decode_answer(&bytes[..length])? {
                return Ok(Some(answer));
            }
        }
    }

    fn decode_answer(&mut self, bytes: &[u8]) -> Result<Option<Answer<D>>> {
        match wire::parse(bytes).map_err(|why| Error::Malformed { why })? {
            Message::Greeting { version } if version == self.version => {
                // The receiver has its end now, so the channel ends if it dies.
                self.unclaimed = None;
                Ok(None)
            }
            Message::Greeting { version } => Err(Error::ForeignVersion {
                ours: self.version,
                theirs: version,
            }),
            Message::Acknowledged { number } => {
                let connections = descriptors(&self.settle(number)?);
                let batch = number;
                Ok(Some(Answer::Acknowledged { batch, connections }))
            }
            Message::Refused { number, reason } => Ok(Some(Answer::Refused {
                batch: number,
                reason,
                connections: self.settle(number)?,
            })),
            Message::Introduction { .. } | Message::Batch { .. } => Err(Error::Malformed {
                why: "it is for a receiver",
            }),
        }
    }

    fn settle(&mut self, number: u64) -> Result<Vec<Connection<D>>> {
        let settled = self.ledger.settle(number);
        settled.map_err(|OutOfOrder| Error::Malformed {
            why: "it answers a batch that is not the next one",
        })
    }

    /// Returns whether a process has taken the channel out of the mailbox.
    /// [`next_answer`](Self::next_answer) updates this.
    ///
    /// If the mailbox may have no reader, give up after a time of your choice.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.unclaimed.is_none()
    }

    /// Returns the number of connections that are sent and not yet acknowledged, partners included.
    /// [`next_answer`](Self::next_answer) updates it.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        descriptors(self.ledger.iter().flatten())
    }

    /// Ends the channel, and returns every connection that the receiver has not acknowledged, as it
    /// was sent.
    ///
    /// Call this at any time: the receiver may be dead, stopped, or at work. Afterwards the
    /// receiver cannot acknowledge anything, so each connection has exactly one owner. A receiver
    /// that is stopped may still hold a duplicate of a descriptor. So if you close such a
    /// connection, shut it down first (`TcpStream::shutdown`). Otherwise its client sees the end
    /// only when the receiver closes the duplicate.
    #[must_use = "the connections are closed if they are dropped"]
    pub fn take_back(mut self) -> Vec<Connection<D>> {
        D::stop_receiving(self.channel.borrow());
        // Refused connections come back with the others.
        let mut back = Vec::new();
        loop {
            match self.next_answer() {
                Ok(Some(Answer::Refused { connections, .. })) => back.extend(connections),
                Ok(Some(Answer::Acknowledged { .. })) => {}
                Ok(None) | Err(Error::Ended | Error::Os { .. }) => break,
                // An acknowledgement may follow the malformed message.
                Err(_) => {}
            }
        }
        // Revokes before the channel is closed, because a receiver that finds it closed and not
        // revoked owns what it has received.
        D::count_up(self.revocation.borrow());
        back.extend(self.ledger.take_all().into_iter().flatten());
        self.empty_unclaimed();
        back
    }

    /// If no process has taken the channel, drops the messages in it, with their duplicates of
    /// descriptors.
    fn empty_unclaimed(&self) {
        if let Some(unclaimed) = &self.unclaimed {
            let more = || D::receive_bytes(unclaimed.borrow(), &mut [0]);
            while let Ok(Received::Message(_)) = more() {}
        }
    }
}

impl<D> Sender<D> {
    /// The descriptor to watch for readability.
    #[must_use]
    pub fn descriptor(&self) -> &D {
        &self.channel
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

fn entry<D>(connection: &Connection<D>) -> Entry<&[u8]> {
    Entry {
        state: &connection.state,
        has_partner: connection.partner.is_some(),
    }
}
