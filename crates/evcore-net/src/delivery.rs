//! Checks whether the peer of a connection has received all bytes that were sent.
//!
//! When `send` returns, only the kernel has the bytes. A slow peer may get them much later.

#![allow(unsafe_code, reason = "the ioctl is made through libc")]

use std::io;
use std::os::fd::AsFd;

/// Returns whether the send queue of a socket is empty.
///
/// Linux's TCP keeps bytes in the queue until the peer has acknowledged them, and a Unix socket
/// until the peer has read them. The ioctl returns the length of the queue. For a Unix socket it
/// counts memory and not bytes, so only zero has a meaning.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn is_delivered(fd: impl AsFd) -> io::Result<bool> {
    use std::ffi::c_int;
    use std::os::fd::AsRawFd;

    let mut queued: c_int = 0;
    let number = fd.as_fd().as_raw_fd();
    // SAFETY: for a socket, this request (`SIOCOUTQ`) writes one `int` to the pointer, which is
    // valid, and keeps no pointer. The descriptor is borrowed, so it is open.
    let result = unsafe { libc::ioctl(number, libc::TIOCOUTQ, &raw mut queued) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(queued == 0)
}

/// Returns true, because this crate implements the check only for Linux. (FreeBSD has `FIONWRITE`
/// for it, and macOS `SO_NWRITE`.)
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn is_delivered(_fd: impl AsFd) -> io::Result<bool> {
    Ok(true)
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use evcore_testing::eventually;
    use rustix::net::sockopt::set_socket_recv_buffer_size;

    use crate::Transport;
    use crate::loopback::connected_pair;

    #[test]
    fn a_tcp_stream_is_delivered_when_the_peer_has_acknowledged_all() {
        let (stream, mut client) = connected_pair();
        assert!(stream.is_delivered().unwrap(), "nothing was sent");
        set_socket_recv_buffer_size(&client, 4096).unwrap();
        let sent = stream.send(&[0; 150_000]).unwrap();
        assert!(!stream.is_delivered().unwrap());
        // With a larger receive buffer, the client takes the rest.
        set_socket_recv_buffer_size(&client, 1 << 20).unwrap();
        client.read_exact(&mut vec![0; sent]).unwrap();
        eventually("the peer acknowledges all bytes", || {
            stream.is_delivered().unwrap()
        });
    }

    #[test]
    fn a_unix_stream_is_delivered_when_the_peer_has_read_all() {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        assert!(stream.is_delivered().unwrap());
        Transport::send(&stream, b"hello").unwrap();
        assert!(!stream.is_delivered().unwrap());
        peer.read_exact(&mut [0; 4]).unwrap();
        assert!(!stream.is_delivered().unwrap());
        peer.read_exact(&mut [0]).unwrap();
        assert!(stream.is_delivered().unwrap());
    }

    #[test]
    fn is_delivered_does_not_fail_after_the_peer_has_left() {
        let (stream, client) = connected_pair();
        drop(client);
        stream.is_delivered().unwrap();
    }
}
