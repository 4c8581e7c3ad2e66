//! Real connections over the loopback interface, for tests.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::sockopt;

use crate::{accept::Accept, address::Address, listener::Listener, stream::Stream};

pub(crate) const LOCALHOST: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

pub(crate) fn connected_pair() -> (Stream, TcpStream) {
    let listener = Listener::bind(LOCALHOST).unwrap();
    let client = TcpStream::connect(listener.local_addr()).unwrap();
    (accept_one(&listener).0, client)
}

/// Waits, because the connection may reach the backlog a moment after the client has connected.
pub(crate) fn accept_one(listener: &Listener) -> (Stream, Address) {
    wait_readable(listener);
    match listener.accept().unwrap() {
        Accept::Connection(stream, peer) => (stream, peer),
        other => panic!("a client has connected, but accept returned {other:?}"),
    }
}

pub(crate) fn wait_readable(fd: impl AsFd) {
    wait_for(PollFlags::IN, fd);
}

pub(crate) fn wait_writable(fd: impl AsFd) {
    wait_for(PollFlags::OUT, fd);
}

fn wait_for(flags: PollFlags, fd: impl AsFd) {
    let mut fds = [PollFd::new(&fd, flags)];
    let deadline = Timespec::try_from(Duration::from_secs(10)).unwrap();
    let ready = retry_on_intr(|| poll(&mut fds, Some(&deadline))).unwrap();
    assert_eq!(
        ready, 1,
        "the descriptor does not report {flags:?} within 10 s"
    );
}

/// Closes a connection so that the peer sees a reset.
pub(crate) fn reset(client: TcpStream) {
    sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
}

/// Some 16 MB, more than the buffers of a connection hold.
pub(crate) fn many_bytes() -> Vec<u8> {
    let piece: Vec<u8> = (0..65_521_u32).flat_map(u32::to_le_bytes).collect();
    piece.repeat(64)
}
