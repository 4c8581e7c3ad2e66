//! The system calls on a connected socket, for any type that owns the socket.
//!
//! Each function that sends or receives makes one system call, repeated only if a signal interrupts
//! it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, readv, retry_on_intr};
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, getpeername, getsockname, sockopt};

use crate::{address::Address, socket_option, sys};

/// Maximum number of buffers that one system call takes on all systems.
const BUFFERS_MAX: usize = 1024;

#[inline]
pub(crate) fn recv(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (received, _) = retry_on_intr(|| net::recv(&fd, &mut *buffer, RecvFlags::empty()))?;
    Ok(received)
}

#[inline]
pub(crate) fn recv_uninit(fd: impl AsFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let received = retry_on_intr(|| {
        let ((received, _), _) = net::recv(&fd, &mut *buffer, RecvFlags::empty())?;
        Ok(received.len())
    })?;
    Ok(received)
}

#[inline]
pub(crate) fn recv_buf(fd: impl AsFd, buffer: &mut Vec<u8>) -> io::Result<usize> {
    assert_has_room(buffer);
    let (received, _) =
        retry_on_intr(|| net::recv(&fd, spare_capacity(buffer), RecvFlags::empty()))?;
    Ok(received)
}

/// Panics if `buffer` has no room, because receiving 0 bytes would mean the end.
#[inline]
pub(crate) fn assert_has_room(buffer: &Vec<u8>) {
    assert!(
        buffer.len() < buffer.capacity(),
        "the buffer has no spare capacity; reserve some"
    );
}

pub(crate) fn recv_vectored(fd: impl AsFd, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let used = buffers.len().min(BUFFERS_MAX);
    Ok(retry_on_intr(|| readv(&fd, &mut buffers[..used]))?)
}

#[inline]
pub(crate) fn send(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| net::send(&fd, bytes, sys::SEND_FLAGS)).map_err(not_connected_yet)?)
}

pub(crate) fn send_more(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let sent = retry_on_intr(|| net::send(&fd, bytes, sys::SEND_MORE_FLAGS));
    Ok(sent.map_err(not_connected_yet)?)
}

/// Sends by `sendmsg`, because `writev` would raise SIGPIPE.
pub(crate) fn send_vectored(fd: impl AsFd, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    let used = &buffers[..buffers.len().min(BUFFERS_MAX)];
    let nothing = &mut SendAncillaryBuffer::default();
    let sent = retry_on_intr(|| net::sendmsg(&fd, used, nothing, sys::SEND_FLAGS));
    Ok(sent.map_err(not_connected_yet)?)
}

/// Replaces `INPROGRESS` by `AGAIN`. With Fast Open, the first call connects. If the kernel has
/// lost the server's cookie meanwhile, the call fails with `INPROGRESS` and takes no bytes. The
/// bytes can be sent when the stream is connected.
#[cold]
fn not_connected_yet(errno: Errno) -> Errno {
    match errno {
        Errno::INPROGRESS => Errno::AGAIN,
        other => other,
    }
}

pub(crate) fn shutdown(fd: impl AsFd, how: net::Shutdown) -> io::Result<()> {
    Ok(net::shutdown(fd, how)?)
}

pub(crate) fn local_addr(fd: impl AsFd) -> io::Result<Address> {
    Ok(sys::address(getsockname(fd)?)?)
}

pub(crate) fn peer_addr(fd: impl AsFd) -> io::Result<Address> {
    match getpeername(fd)? {
        Some(peer) => Ok(sys::address(peer)?),
        // Some systems report no address for a peer without a path, as in `accept`.
        None => Ok(Address::Unnamed),
    }
}

pub(crate) fn take_error(fd: impl AsFd) -> io::Result<Option<io::Error>> {
    Ok(sockopt::socket_error(fd)?.err().map(io::Error::from))
}

pub(crate) fn since_last_packet(fd: impl AsFd) -> io::Result<Duration> {
    Ok(Duration::from_millis(
        socket_option::last_packet_ms(fd)?.into(),
    ))
}

/// Returns whether the error means that the kernel lacks the call or does not support it for this
/// kind of file, or that a sandbox denies it. Then the process moves the bytes itself.
pub(crate) fn is_refusal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM
    )
}
