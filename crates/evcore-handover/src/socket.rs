//! The system calls of the handover protocol. None of them waits.
//!
//! The protocol relies on these properties of Linux's Unix sockets of type `SOCK_SEQPACKET`:
//!
//! - A message arrives whole, with all of its descriptors, or not at all.
//! - What was sent stays readable when the other end is closed, and a descriptor under way stays
//!   open when the process that sent it dies.
//! - After `shutdown(SHUT_RD)` the other side cannot send any more, and what it sent before stays
//!   readable. So the two sides agree on the last answer.
//! - If an end is closed with unread messages, the other end gets `ECONNRESET` once, then the
//!   messages that were sent to it, and then the end of the channel.
//!
//! A socket of another system may drop unread messages at a `shutdown`. So `pair` fails there.

use std::{io::IoSlice, mem::MaybeUninit, os::fd::OwnedFd};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, BorrowedFd},
    io::{Errno, IoSliceMut, retry_on_intr, write},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, Shutdown, recv, recvmsg, sendmsg, shutdown,
    },
};

use crate::{
    descriptor::{Cut, Descriptor, Packet, Received, Unsent},
    error::{Error, Result},
    wire::BATCH_CONNECTIONS_MAX,
};

#[cfg(not(target_vendor = "apple"))]
const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
#[cfg(target_vendor = "apple")]
const SEND: SendFlags = SendFlags::DONTWAIT;

#[cfg(any(target_os = "linux", target_os = "android"))]
const RECEIVE: RecvFlags = RecvFlags::DONTWAIT.union(RecvFlags::CMSG_CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const RECEIVE: RecvFlags = RecvFlags::DONTWAIT;

impl Descriptor for OwnedFd {
    type Borrowed<'a> = BorrowedFd<'a>;

    fn borrow(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn pair(_: BorrowedFd<'_>) -> Result<(Self, Self)> {
        pair()
    }

    fn counter(_: BorrowedFd<'_>) -> Result<Self> {
        revocation()
    }

    fn count_up(counter: BorrowedFd<'_>) {
        revoke(counter);
    }

    fn has_counted(counter: BorrowedFd<'_>) -> bool {
        is_revoked(counter)
    }

    fn send(
        socket: BorrowedFd<'_>,
        message: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Unsent> {
        send(socket, message, descriptors)
    }

    fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Received<Packet>> {
        receive(socket, buffer)
    }

    fn receive_bytes(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Received<usize>> {
        receive_bytes(socket, buffer)
    }

    fn is_hung_up(socket: BorrowedFd<'_>) -> bool {
        is_hung_up(socket)
    }

    fn stop_receiving(socket: BorrowedFd<'_>) {
        stop_receiving(socket);
    }

    fn end(socket: BorrowedFd<'_>) {
        end(socket);
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(Error::os("making a socket pair"))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd)> {
    Err(Error::Unsupported)
}

/// Creates the `eventfd` with which a sender revokes a channel (takes its connections back). The
/// receiver checks it. Revoking takes no memory, so it cannot fail.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn revocation() -> Result<OwnedFd> {
    use rustix::event::{EventfdFlags, eventfd};

    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    eventfd(0, flags).map_err(Error::os("making an event counter (eventfd)"))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn revocation() -> Result<OwnedFd> {
    Err(Error::Unsupported)
}

pub(crate) fn revoke(revocation: BorrowedFd<'_>) {
    // The write fails only if the counter is about to overflow. Then the channel is revoked
    // already.
    let _ = retry_on_intr(|| write(revocation, &1_u64.to_ne_bytes()));
}

/// Returns whether the sender has revoked the channel, even if it has died since.
pub(crate) fn is_revoked(revocation: BorrowedFd<'_>) -> bool {
    has_event(revocation, PollFlags::IN)
}

pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Unsent> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(fits, "a message has at most 253 descriptors");
    }
    let parts = [IoSlice::new(message)];
    match retry_on_intr(|| sendmsg(socket, &parts, &mut control, SEND)) {
        Ok(_) => Ok(()),
        Err(Errno::AGAIN) => Err(Unsent::Full),
        Err(Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS) => Err(Unsent::KernelFull),
        // The other end is closed, or one of the sides has shut the channel down.
        Err(Errno::PIPE | Errno::CONNRESET | Errno::CONNREFUSED | Errno::NOTCONN) => {
            Err(Unsent::Gone)
        }
        Err(error) => Err(Unsent::Failed(error.into())),
    }
}

const SPACE: usize = rustix::cmsg_space!(ScmRights(BATCH_CONNECTIONS_MAX));

pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Received<Packet>> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = some_or_end(|| {
        let mut parts = [IoSliceMut::new(buffer)];
        recvmsg(socket, &mut parts, &mut control, RECEIVE)
    });
    let message = match message? {
        Received::Message(message) => message,
        Received::Nothing => return Ok(Received::Nothing),
        Received::End => return Ok(Received::End),
    };
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    if message.bytes == 0 && descriptors.is_empty() && is_at_end(socket) {
        return Ok(Received::End);
    }
    let cut = match message.flags {
        flags if flags.contains(ReturnFlags::CTRUNC) => Some(Cut::Descriptors),
        flags if flags.contains(ReturnFlags::TRUNC) => Some(Cut::Bytes),
        _ => None,
    };
    Ok(Received::Message(Packet {
        length: message.bytes,
        descriptors,
        cut,
    }))
}

pub(crate) fn receive_bytes(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Received<usize>> {
    Ok(
        match some_or_end(|| recv(socket, &mut *buffer, RecvFlags::DONTWAIT))? {
            Received::Message((0, _)) if is_at_end(socket) => Received::End,
            Received::Message((length, _)) => Received::Message(length),
            Received::Nothing => Received::Nothing,
            Received::End => Received::End,
        },
    )
}

/// Returns whether a call received nothing because the other side has stopped sending. An empty
/// message looks the same to `recv`.
fn is_at_end(socket: BorrowedFd<'_>) -> bool {
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    let has_message = || {
        let peeked = some_or_end(|| recv(socket, &mut [0], flags));
        matches!(peeked, Ok(Received::Message((1.., _))))
    };
    has_event(socket, NOTHING_MORE) && !has_message()
}

/// The events that report that the other side has stopped sending. (On other systems no channel can
/// be made.)
#[cfg(any(target_os = "linux", target_os = "android"))]
const NOTHING_MORE: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const NOTHING_MORE: PollFlags = PollFlags::IN.union(PollFlags::HUP);

/// Makes a call, and repeats it after `ECONNRESET`, because messages may still be readable then.
fn some_or_end<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<Received<T>> {
    let mut result = retry_on_intr(&mut call);
    if matches!(result, Err(Errno::CONNRESET)) {
        result = retry_on_intr(&mut call);
    }
    match result {
        Ok(some) => Ok(Received::Message(some)),
        Err(Errno::AGAIN) => Ok(Received::Nothing),
        // The other end was closed with unread messages, or was never connected.
        Err(Errno::CONNRESET | Errno::NOTCONN) => Ok(Received::End),
        Err(error) => Err(Error::os("receiving a handover message (recvmsg)")(error)),
    }
}

/// Returns whether the other end is closed, or either side has [ended](end) the channel. A
/// `shutdown` of only the reading side is not reported.
pub(crate) fn is_hung_up(socket: BorrowedFd<'_>) -> bool {
    has_event(socket, PollFlags::HUP)
}

fn has_event(fd: BorrowedFd<'_>, events: PollFlags) -> bool {
    let mut entry = [PollFd::from_borrowed_fd(fd, events)];
    let now = Timespec::default();
    let polled = retry_on_intr(|| poll(&mut entry, Some(&now)));
    polled.is_ok() && entry[0].revents().intersects(events)
}

pub(crate) fn stop_receiving(socket: impl AsFd) {
    // An error means that the other side is gone.
    let _ = shutdown(socket, Shutdown::Read);
}

pub(crate) fn end(socket: impl AsFd) {
    let _ = shutdown(socket, Shutdown::Both);
}
