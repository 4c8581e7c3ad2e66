//! The mailbox, through which senders find a receiver.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::{
    descriptor::{Cut, Descriptor, Packet, Received, Unsent},
    error::{Error, Result},
    receiver::Receiver,
    socket,
    wire::{self, HEADER_BYTES, Message},
};

/// Hands out a [`Receiver`] for each [`Sender`](crate::Sender) that was opened.
///
/// A mailbox is the receiving end of a socket pair. The pair outlives the processes at both sides
/// if their parent process keeps it. Only one living process should read the mailbox. A channel
/// that no process has taken out waits for the next reader. Watch the mailbox for readability.
///
/// ```
/// use evcore_handover::{Mailbox, Sender};
///
/// let (address, mut mailbox) = Mailbox::pair(1)?;
/// assert!(mailbox.next_receiver()?.is_none());
/// let _sender = Sender::open(&address, 1)?;
/// assert!(mailbox.next_receiver()?.is_some());
/// # Ok::<(), evcore_handover::Error>(())
/// ```
#[derive(Debug)]
pub struct Mailbox<D = OwnedFd> {
    socket: D,
    version: u32,
}

impl Mailbox {
    /// A mailbox, and the sending end for [`Sender::open`](crate::Sender::open). Make it before the
    /// fork.
    ///
    /// `version` is the version of the states that this program understands.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] on systems other than Linux, [`Error::Os`] if the sockets could not
    /// be made.
    pub fn pair(version: u32) -> Result<(OwnedFd, Self)> {
        let (address, socket) = socket::pair()?;
        Ok((address, Self::from_fd(socket, version)))
    }
}

impl<D: Descriptor> Mailbox<D> {
    /// The mailbox of a descriptor that this process has inherited: one end of a pair of Unix
    /// sockets of type `SOCK_SEQPACKET`.
    #[must_use]
    pub fn from_fd(socket: D, version: u32) -> Self {
        Self { socket, version }
    }

    /// The receiver of the next sender, or `None` if no sender waits. Call this until it returns
    /// `None`.
    ///
    /// Each receiver costs two system calls, and 61 KiB of memory.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignVersion`], [`Error::NoDescriptors`], [`Error::Malformed`],
    /// [`Error::KernelFull`] and [`Error::Os`] are about one sender, which keeps its connections or
    /// gets them back. You can go on reading the mailbox. Only [`Error::Ended`] means that the
    /// mailbox has ended: no process has its sending end any more.
    pub fn next_receiver(&mut self) -> Result<Option<Receiver<D>>> {
        let mut bytes = [0; HEADER_BYTES];
        match D::receive(self.socket.borrow(), &mut bytes)? {
            Received::Nothing => Ok(None),
            Received::End => Err(Error::Ended),
            Received::Message(packet) => self.introduce(&bytes, packet).map(Some),
        }
    }

    /// Greets the sender. If the versions differ, the greeting shows the sender why it is refused.
    /// The channel of a sender that gets no greeting is ended.
    fn introduce(&self, bytes: &[u8; HEADER_BYTES], packet: Packet<D>) -> Result<Receiver<D>> {
        let version = match Self::parse(bytes, &packet) {
            Ok(version) => version,
            Err(error) => {
                packet.descriptors.iter().for_each(end_channel);
                return Err(error);
            }
        };
        let Ok([channel, revocation]) = <[D; 2]>::try_from(packet.descriptors) else {
            unreachable!("an introduction has two descriptors");
        };
        let (ours, theirs) = (self.version, version);
        match D::send(channel.borrow(), &wire::greeting(ours), &[]) {
            // If the sender is gone, its messages can be received all the same.
            Ok(()) | Err(Unsent::Gone) => {}
            Err(unsent) => {
                end_channel(&channel);
                return Err(match unsent {
                    Unsent::Failed(source) => Error::Os {
                        doing: "greeting a sender (sendmsg)",
                        source,
                    },
                    _ => Error::KernelFull,
                });
            }
        }
        if ours != theirs {
            return Err(Error::ForeignVersion { ours, theirs });
        }
        Ok(Receiver::new(channel, revocation, ours))
    }

    /// The sender's version, if this is an introduction.
    fn parse(bytes: &[u8; HEADER_BYTES], packet: &Packet<D>) -> Result<u32> {
        let malformed = |why| Error::Malformed { why };
        match packet.cut {
            Some(Cut::Descriptors) => return Err(Error::NoDescriptors),
            Some(Cut::Bytes) => return Err(malformed("it is longer than an introduction")),
            None => {}
        }
        let message = wire::parse(&bytes[..packet.length]).map_err(malformed)?;
        let Message::Introduction { version } = message else {
            return Err(malformed("it is not an introduction"));
        };
        match packet.descriptors.len() {
            2 => Ok(version),
            _ => Err(malformed("an introduction has two descriptors")),
        }
    }
}

/// Ends a channel without a greeting. Its sender keeps a duplicate of this end, so dropping this
/// descriptor would not end the channel. (The call has no effect on a descriptor that is not a
/// socket.)
fn end_channel<D: Descriptor>(channel: &D) {
    D::end(channel.borrow());
}

impl<D> Mailbox<D> {
    /// The descriptor to watch for readability.
    #[must_use]
    pub fn descriptor(&self) -> &D {
        &self.socket
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
