//! The receiving side of a channel, the socket pair over which one sender gives connections away.

use std::{
    fmt, mem,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use crate::{
    connection::Connection,
    descriptor::{Cut, Descriptor, Packet, Received, Unsent},
    error::{Error, Result},
    refusal::Refusal,
    wire::{self, Entry, MESSAGE_BYTES_MAX, Message},
};

/// Receives the connections of one sender.
///
/// It comes from a [`Mailbox`](crate::Mailbox). Watch it for readability. If it is dropped, the
/// connections that were not acknowledged stay with their sender, or are closed if the sender has
/// died.
#[derive(Debug)]
pub struct Receiver<D = OwnedFd> {
    channel: D,
    /// Readable if the sender has taken its connections back.
    revocation: D,
    /// Set when this side ends the channel. After that, the kernel reports a closed channel even if
    /// the sender lives.
    has_ended: bool,
    version: u32,
    last: u64,
    buffer: Vec<u8>,
}

impl<D: Descriptor> Receiver<D> {
    pub(crate) fn new(channel: D, revocation: D, version: u32) -> Self {
        Self {
            channel,
            revocation,
            has_ended: false,
            version,
            last: 0,
            buffer: vec![0; MESSAGE_BYTES_MAX],
        }
    }

    /// The next batch, or `None` if no further one has arrived. Call this until it returns `None`.
    ///
    /// [Accept](Batch::accept) or [refuse](Batch::refuse) each batch before you receive the next.
    /// Receiving a batch costs a system call, and accepting it another one.
    ///
    /// # Errors
    ///
    /// Each error ends the channel: drop the receiver. The sender keeps the connections that were
    /// not acknowledged. [`Error::Ended`] means that no more batches come: the sender was dropped,
    /// has died, or has taken its connections back, or an earlier error has ended the channel. With
    /// [`Error::NoDescriptors`], [`Error::Malformed`], [`Error::ForeignVersion`] and [`Error::Os`],
    /// the whole message was dropped.
    pub fn receive(&mut self) -> Result<Option<Batch<'_, D>>> {
        if self.has_ended {
            return Err(Error::Ended);
        }
        match D::receive(self.channel.borrow(), &mut self.buffer) {
            Ok(Received::Nothing) => Ok(None),
            Ok(Received::End) => Err(Error::Ended),
            Err(error) => {
                self.end();
                Err(error)
            }
            Ok(Received::Message(packet)) => {
                let length = packet.length.min(self.buffer.len());
                match self.decode_batch(&self.buffer[..length], &packet) {
                    Ok((number, entries)) => Ok(Some(self.batch(number, entries, packet))),
                    Err(error) => {
                        self.refuse_message(length, &error);
                        Err(error)
                    }
                }
            }
        }
    }

    fn decode_batch(
        &self,
        bytes: &[u8],
        packet: &Packet<D>,
    ) -> Result<(u64, Vec<Entry<Range<usize>>>)> {
        let malformed = |why| Error::Malformed { why };
        match packet.cut {
            Some(Cut::Descriptors) => return Err(Error::NoDescriptors),
            Some(Cut::Bytes) => return Err(malformed("it is longer than the limit")),
            None => {}
        }
        let message = wire::parse(bytes).map_err(malformed)?;
        let Message::Batch {
            version,
            number,
            entries,
        } = message
        else {
            return Err(malformed("it is not a batch"));
        };
        if version != self.version {
            let (ours, theirs) = (self.version, version);
            return Err(Error::ForeignVersion { ours, theirs });
        }
        if number != self.last + 1 {
            return Err(malformed("it does not have the next number"));
        }
        let expected: usize = entries.iter().map(Entry::descriptors).sum();
        if expected != packet.descriptors.len() {
            return Err(malformed(
                "it does not have one descriptor for each connection",
            ));
        }
        Ok((number, entries))
    }

    /// Refuses a message with the reason, if its number is readable, and ends the channel.
    fn refuse_message(&mut self, length: usize, error: &Error) {
        let reason = match error {
            Error::NoDescriptors => Refusal::NoDescriptors,
            _ => Refusal::Malformed,
        };
        if let Some(number) = wire::batch_number(&self.buffer[..length]) {
            let refusal = wire::refused(number, reason);
            let _ = D::send(self.channel.borrow(), &refusal, &[]);
        }
        self.end();
    }

    /// Ends the channel. The sender keeps the connections that are still in it.
    fn end(&mut self) {
        self.has_ended = true;
        D::end(self.channel.borrow());
    }

    fn batch(
        &mut self,
        number: u64,
        entries: Vec<Entry<Range<usize>>>,
        packet: Packet<D>,
    ) -> Batch<'_, D> {
        self.last = number;
        let mut descriptors = packet.descriptors.into_iter();
        let mut next = || descriptors.next().expect("each connection has one");
        let connections = entries.into_iter().map(|entry| Connection {
            descriptor: next(),
            partner: entry.has_partner.then(&mut next),
            state: self.buffer[entry.state].to_vec(),
        });
        Batch {
            connections: connections.collect(),
            receiver: self,
            number,
            is_answered: false,
        }
    }

    /// Returns whether a batch belongs to this side although its sender can get no answer: the
    /// sender was dropped or has died, and has not taken its connections back.
    fn inherits(&self) -> bool {
        // The revocation is read last, because a sender that takes connections back counts it up
        // before it closes its end of the channel.
        !self.has_ended
            && D::is_hung_up(self.channel.borrow())
            && !D::has_counted(self.revocation.borrow())
    }
}

impl<D> Receiver<D> {
    /// The descriptor to watch for readability.
    #[must_use]
    pub fn descriptor(&self) -> &D {
        &self.channel
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Connections that have arrived, and still belong to their sender.
///
/// Register them with your poller, [accept](Self::accept) the batch, and only then read. Dropping a
/// batch refuses it.
#[derive(Debug)]
#[must_use = "a batch that is dropped is refused"]
pub struct Batch<'a, D: Descriptor = OwnedFd> {
    receiver: &'a mut Receiver<D>,
    number: u64,
    connections: Vec<Connection<D>>,
    is_answered: bool,
}

impl<D: Descriptor> Batch<'_, D> {
    /// The number of the batch, which is 1 for the first batch of a sender.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the connections. Register all of their [descriptors](Connection::descriptors). Do
    /// not read from them yet: they may go back.
    #[must_use]
    pub fn connections(&self) -> &[Connection<D>] {
        &self.connections
    }

    /// Acknowledges the batch. The connections then belong to this process alone.
    ///
    /// This also holds if the sender has died.
    ///
    /// The sender's process closes its descriptors when it reads the acknowledgement. If you close
    /// a connection earlier, its client sees the end only when the sender has closed its descriptor
    /// too, unless you shut the connection down first.
    ///
    /// # Errors
    ///
    /// [`TakenBack`] if the sender has taken the batch back, or if the acknowledgement cannot be
    /// sent, for example because the kernel has no room for it. In the second case this call ends
    /// the channel: the sender keeps this batch and all that follow, and [`Receiver::receive`]
    /// returns [`Error::Ended`].
    ///
    /// The error returns the connections, because you must remove them from your poller before you
    /// drop them. The sender keeps the files open, so a registration would go on reporting.
    pub fn accept(mut self) -> Result<Vec<Connection<D>>, TakenBack<D>> {
        let message = wire::acknowledged(self.number);
        self.is_answered = true;
        let connections = mem::take(&mut self.connections);
        match D::send(self.receiver.channel.borrow(), &message, &[]) {
            Ok(()) => Ok(connections),
            Err(Unsent::Gone) if self.receiver.inherits() => Ok(connections),
            Err(Unsent::Gone) => Err(TakenBack { connections }),
            // A sender that reads its answers leaves room for them.
            Err(Unsent::Full | Unsent::KernelFull | Unsent::Failed(_)) => {
                self.receiver.end();
                Err(TakenBack { connections })
            }
        }
    }

    /// Sends the whole batch back. Remove its connections from your poller first.
    ///
    /// If the sender has died, they are closed. If the kernel has no room for the refusal, this
    /// call ends the channel, as [`accept`](Self::accept) does.
    pub fn refuse(self) {}
}

impl<D: Descriptor> Drop for Batch<'_, D> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let message = wire::refused(self.number, Refusal::Declined);
        match D::send(self.receiver.channel.borrow(), &message, &[]) {
            Ok(()) | Err(Unsent::Gone) => {}
            Err(Unsent::Full | Unsent::KernelFull | Unsent::Failed(_)) => self.receiver.end(),
        }
    }
}

/// The error of a batch that stays with its sender, because the sender has taken it back or cannot
/// be answered. Remove its connections from your poller, and drop them.
#[derive(Debug)]
pub struct TakenBack<D = OwnedFd> {
    /// Duplicates of the sender's connections.
    pub connections: Vec<Connection<D>>,
}

impl<D> fmt::Display for TakenBack<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.connections.len();
        write!(f, "{count} connections stay with their sender")
    }
}

impl<D: fmt::Debug> std::error::Error for TakenBack<D> {}
