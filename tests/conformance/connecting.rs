//! Sockets that are registered before they connect: `rearm` answers `EINPROGRESS`.

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

use crate::stage::{PATIENCE, READABLE, Stage, WRITABLE};

crate::scenarios! {
    of kernels alone:
    a_connection_is_reported_to_a_socket_that_was_registered_before,
    a_refused_connection_is_reported_to_a_socket_that_was_registered_before,
}

/// A socket that does not block and has no peer, registered for both sides; what a wait reports of
/// such a one (Linux: a hang-up) was reported.
fn unconnected(stage: &mut Stage) -> OwnedFd {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    ioctl_fionbio(&socket, true).expect("non-blocking");
    stage.add(&socket, 1, Interest::BOTH, Mode::Edge);
    stage.now();
    stage.expect_nothing();
    socket
}

/// Begins to connect, and rearms as the documentation says. Returns what `connect` has answered: not
/// every system says of its own addresses that it is in progress.
fn begin(stage: &mut Stage, socket: &OwnedFd, address: SocketAddr) -> Result<(), Errno> {
    let begun = connect(socket, &address);
    stage.rearm(1, Interest::BOTH);
    match begun {
        Err(Errno::INPROGRESS) => Ok(()),
        at_once => at_once,
    }
}

fn a_connection_is_reported_to_a_socket_that_was_registered_before(stage: &mut Stage) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
    let socket = unconnected(stage);
    let begun = begin(stage, &socket, listener.local_addr().expect("an address"));
    begun.expect("connected, or about to be");
    let trace = stage.wait(Some(PATIENCE));
    assert_eq!(trace, [(1, WRITABLE)], "{}", stage.name);

    // Both sides are open.
    let (mut peer, _) = listener.accept().expect("accept");
    peer.write_all(b"a").expect("write");
    let trace = stage.wait(Some(PATIENCE));
    assert!(
        matches!(trace[..], [(1, ready)] if !(ready & READABLE).is_empty()),
        "{}: {trace:?}",
        stage.name
    );
}

fn a_refused_connection_is_reported_to_a_socket_that_was_registered_before(stage: &mut Stage) {
    // Bound and not listening: nobody else is given the port.
    let taken = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&taken, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("bind");
    let address = TcpStream::from(taken.try_clone().expect("a duplicate")).local_addr();
    let socket = unconnected(stage);
    if begin(stage, &socket, address.expect("an address")) == Err(Errno::CONNREFUSED) {
        return;
    }
    let trace = stage.wait(Some(PATIENCE));
    assert!(
        matches!(trace[..], [(1, ready)] if !(ready & WRITABLE).is_empty()),
        "{}: {trace:?}",
        stage.name
    );
    let error = TcpStream::from(socket).take_error().expect("SO_ERROR");
    let error = error.and_then(|error| error.raw_os_error());
    assert_eq!(error, Some(libc::ECONNREFUSED), "{}", stage.name);
}
