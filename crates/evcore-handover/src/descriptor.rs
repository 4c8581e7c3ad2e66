//! The calls that a channel (the socket pair of a sender and a receiver) makes to a descriptor.
//! Module `socket` implements them by system calls, and a simulator by its own code.

use std::{io, os::fd::OwnedFd};

use crate::error::{Error, Result};

/// A descriptor with the calls of a channel: an [`OwnedFd`], or a simulator's own type.
///
/// A channel is generic over its descriptors, so connections move in a simulator by the same code
/// as between processes. An implementation must have these properties of Linux's Unix sockets of
/// type `SOCK_SEQPACKET`:
///
/// - A message arrives whole, with all of its descriptors, or not at all. None of the calls waits.
/// - What was sent stays readable when the other end is closed, and a descriptor under way stays
///   open when the process that sent it dies.
/// - After [`stop_receiving`](Self::stop_receiving) the other end cannot send any more, and what it
///   sent before stays readable.
pub trait Descriptor: Sized {
    /// A borrowed descriptor, which stays open as long as the borrow lasts.
    type Borrowed<'a>: Copy
    where
        Self: 'a;

    /// Borrows the descriptor.
    fn borrow(&self) -> Self::Borrowed<'_>;

    /// Makes two connected sockets in the process that holds the descriptor `mailbox`.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] on systems other than Linux, [`Error::Os`] if the sockets could not
    /// be made.
    fn pair(mailbox: Self::Borrowed<'_>) -> Result<(Self, Self)>;

    /// Makes a counter (`eventfd`) in the process that holds the descriptor `mailbox`. It begins at
    /// 0.
    ///
    /// # Errors
    ///
    /// The errors of [`pair`](Self::pair).
    fn counter(mailbox: Self::Borrowed<'_>) -> Result<Self>;

    /// Adds to a counter. This takes no memory, so it cannot fail.
    fn count_up(counter: Self::Borrowed<'_>);

    /// Returns whether a process has added to a counter, even if it has died since.
    fn has_counted(counter: Self::Borrowed<'_>) -> bool;

    /// Sends a message with descriptors, at most
    /// [`BATCH_CONNECTIONS_MAX`](crate::BATCH_CONNECTIONS_MAX) of them.
    ///
    /// # Errors
    ///
    /// An [`Unsent`] with the reason.
    fn send(
        socket: Self::Borrowed<'_>,
        message: &[u8],
        descriptors: &[Self::Borrowed<'_>],
    ) -> Result<(), Unsent>;

    /// Receives a message and its descriptors.
    ///
    /// # Errors
    ///
    /// [`Error::Os`] if the system refuses the call.
    fn receive(socket: Self::Borrowed<'_>, buffer: &mut [u8]) -> Result<Received<Packet<Self>>>;

    /// Receives the bytes of a message, up to the length of `buffer`, and returns their number. Its
    /// descriptors are closed.
    ///
    /// # Errors
    ///
    /// The errors of [`receive`](Self::receive).
    fn receive_bytes(socket: Self::Borrowed<'_>, buffer: &mut [u8]) -> Result<Received<usize>> {
        Ok(match Self::receive(socket, buffer)? {
            Received::Message(packet) => Received::Message(packet.length),
            Received::Nothing => Received::Nothing,
            Received::End => Received::End,
        })
    }

    /// Returns whether the other end is closed, or either side has [ended](Self::end) the channel.
    fn is_hung_up(socket: Self::Borrowed<'_>) -> bool;

    /// Makes the other side unable to send (`SHUT_RD`). The bytes that it has sent stay readable.
    fn stop_receiving(socket: Self::Borrowed<'_>);

    /// Ends the channel for the other side, although this descriptor stays open (`SHUT_RDWR`).
    fn end(socket: Self::Borrowed<'_>);
}

/// The reason for which a message could not be sent.
#[derive(Debug)]
pub enum Unsent {
    /// The socket's buffer is full until the other side reads.
    Full,
    /// The kernel has no memory, or this user has too many descriptors under way (`RLIMIT_NOFILE`).
    KernelFull,
    /// The other side reads no more, or is closed.
    Gone,
    /// Any other error.
    Failed(io::Error),
}

impl Unsent {
    /// Converts the reason into an error. `full` is the error of a full socket.
    pub(crate) fn into_error(self, full: Error, doing: &'static str) -> Error {
        match self {
            Self::Full => full,
            Self::KernelFull => Error::KernelFull,
            Self::Gone => Error::Ended,
            Self::Failed(source) => Error::Os { doing, source },
        }
    }
}

/// The result of reading a socket.
#[derive(Debug)]
pub enum Received<T> {
    /// A message.
    Message(T),
    /// No message has arrived.
    Nothing,
    /// The other side sends no more, and all its messages are read.
    End,
}

/// A message with descriptors.
#[derive(Debug)]
pub struct Packet<D = OwnedFd> {
    /// Number of bytes of the message.
    pub length: usize,
    /// The descriptors. They are closed on `exec`, and when this value is dropped.
    pub descriptors: Vec<D>,
    /// The part that was dropped because there was no room for it. `None` if the message is whole.
    pub cut: Option<Cut>,
}

/// The part of a message that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Bytes, because the buffer was too short.
    Bytes,
    /// Descriptors, because the process had no room for them.
    Descriptors,
}
