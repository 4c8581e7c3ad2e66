//! Sockets that are registered before they connect. The program calls `rearm` after `connect`
//! returned `EINPROGRESS`.

use std::{
    io::Write,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
};

use evcore_poller::{Interest, Mode};
use rustix::{
    io::{Errno, ioctl_fionbio},
    net::{AddressFamily, SocketType, bind, connect, socket},
};

use crate::fixture::{DEADLINE, Fixture, READABLE, WRITABLE};

crate::scenarios! {
    of kernels alone:
    a_socket_registered_before_connect_reports_it,
    a_socket_registered_before_a_refused_connect_reports_it,
}

/// Registers a non-blocking socket, which is not connected yet, for reading and writing. Takes the
/// report that such a socket may get (on Linux, a hang-up).
fn unconnected(fixture: &mut Fixture) -> OwnedFd {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    ioctl_fionbio(&socket, true).expect("non-blocking");
    fixture.add(&socket, 1, Interest::BOTH, Mode::Edge);
    fixture.now();
    fixture.expect_nothing();
    socket
}

/// Begins to connect, and rearms reading and writing. Some systems finish or refuse a local
/// connection at once.
fn begin(fixture: &mut Fixture, socket: &OwnedFd, address: SocketAddr) -> Result<(), Errno> {
    let begun = connect(socket, &address);
    fixture.rearm(1, Interest::BOTH);
    match begun {
        Err(Errno::INPROGRESS) => Ok(()),
        at_once => at_once,
    }
}

fn a_socket_registered_before_connect_reports_it(fixture: &mut Fixture) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
    let socket = unconnected(fixture);
    let begun = begin(fixture, &socket, listener.local_addr().expect("an address"));
    begun.expect("connected, or about to be");
    let trace = fixture.wait(Some(DEADLINE));
    assert_eq!(trace, [(1, WRITABLE)], "{}", fixture.name);

    let (mut peer, _) = listener.accept().expect("accept");
    peer.write_all(b"a").expect("write");
    let trace = fixture.wait(Some(DEADLINE));
    assert!(
        matches!(trace[..], [(1, ready)] if !(ready & READABLE).is_empty()),
        "{}: {trace:?}",
        fixture.name
    );
}

fn a_socket_registered_before_a_refused_connect_reports_it(fixture: &mut Fixture) {
    // This socket is bound and does not listen, so no other socket gets the port.
    let taken = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&taken, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("bind");
    let address = TcpStream::from(taken.try_clone().expect("a duplicate")).local_addr();
    let socket = unconnected(fixture);
    if begin(fixture, &socket, address.expect("an address")) == Err(Errno::CONNREFUSED) {
        return;
    }
    let trace = fixture.wait(Some(DEADLINE));
    assert!(
        matches!(trace[..], [(1, ready)] if !(ready & WRITABLE).is_empty()),
        "{}: {trace:?}",
        fixture.name
    );
    let error = TcpStream::from(socket).take_error().expect("SO_ERROR");
    let error = error.and_then(|error| error.raw_os_error());
    assert_eq!(error, Some(libc::ECONNREFUSED), "{}", fixture.name);
}
