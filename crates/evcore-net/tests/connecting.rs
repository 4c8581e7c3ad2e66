//! Tests how connecting begins and ends, over real sockets.

use std::io::{self, ErrorKind, Read, Write};
#[cfg(target_os = "linux")]
use std::net::TcpStream;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use evcore_net::{Accept, Address, ConnectOptions, Error, Listener, Stream};
use evcore_testing::{PATIENCE, Scratch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};

const LOCALHOST: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

fn has_event(fd: impl AsFd, flags: PollFlags, within: Duration) -> bool {
    let mut fds = [PollFd::new(&fd, flags)];
    let deadline = Timespec::try_from(within).unwrap();
    retry_on_intr(|| poll(&mut fds, Some(&deadline))).unwrap() == 1
}

/// Waits for the result, as the documentation of `connect` describes.
fn result_of(stream: Stream) -> io::Result<Stream> {
    assert!(has_event(&stream, PollFlags::OUT, PATIENCE));
    match stream.take_error()? {
        None => Ok(stream),
        Some(error) => Err(error),
    }
}

fn connect(address: impl Into<Address>) -> io::Result<Stream> {
    result_of(Stream::connect(address.into())?)
}

fn accept(listener: &Listener) -> Stream {
    assert!(has_event(listener, PollFlags::IN, PATIENCE));
    match listener.accept().unwrap() {
        Accept::Connection(stream, _) => stream,
        other => panic!("a client has connected, but accept returned {other:?}"),
    }
}

/// A TCP listener whose backlog is full, and the client that fills it.
#[cfg(target_os = "linux")]
fn full_tcp_listener() -> (Listener, TcpStream) {
    let listener = Listener::builder().backlog(0).bind(LOCALHOST).unwrap();
    let client = TcpStream::connect(listener.local_addr()).unwrap();
    assert!(has_event(&listener, PollFlags::IN, PATIENCE));
    (listener, client)
}

/// A bound socket that does not listen, and its address, which no other socket can get.
fn closed_port() -> (OwnedFd, Address) {
    let taken = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&taken, &SocketAddr::from(LOCALHOST)).unwrap();
    let copy = Stream::from(taken.try_clone().unwrap());
    (taken, copy.local_addr().unwrap())
}

#[test]
fn a_unix_client_is_connected_at_once() {
    let scratch = Scratch::new("connect");
    let address = Address::Unix(scratch.file("a.sock"));
    let listener = Listener::bind(&address).unwrap();
    let stream = Stream::connect(&address).unwrap();
    assert_eq!(stream.peer_addr().unwrap(), address);
    assert_eq!(stream.send(b"hello").unwrap(), 5);
    let stream = result_of(stream).unwrap();
    let server = accept(&listener);
    assert!(has_event(&server, PollFlags::IN, PATIENCE));
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 5);
    drop(stream);
}

#[test]
fn tcp_of_both_families_connects_and_carries_bytes() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = Listener::bind(address) else {
            assert_ne!(address, "127.0.0.1:0");
            continue; // this machine has no IPv6
        };
        let mut stream = connect(listener.local_addr()).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), *listener.local_addr());
        let server = accept(&listener);
        assert_eq!(server.peer_addr().unwrap(), stream.local_addr().unwrap());
        stream.write_all(b"ping").unwrap();
        assert!(has_event(&server, PollFlags::IN, PATIENCE));
        assert_eq!(server.recv(&mut [0; 8]).unwrap(), 4);
        server.send(b"pong").unwrap();
        assert!(has_event(&stream, PollFlags::IN, PATIENCE));
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 4);
    }
}

/// Linux drops the first segment of a client for which the backlog has no room, and the client
/// sends it again a second later.
#[cfg(target_os = "linux")]
#[test]
fn a_connection_in_progress_is_reported_once_it_is_made() {
    let (listener, _client) = full_tcp_listener();
    let stream = Stream::connect(listener.local_addr()).unwrap();
    assert!(!has_event(&stream, PollFlags::OUT, Duration::ZERO));
    assert!(stream.peer_addr().is_err());
    assert!(stream.take_error().unwrap().is_none());
    let refused = stream.send(b"early").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    drop(accept(&listener));
    assert!(result_of(stream).unwrap().peer_addr().is_ok());
}

#[cfg(target_os = "linux")]
#[test]
fn a_shutdown_ends_a_connection_in_progress() {
    let (listener, _client) = full_tcp_listener();
    let stream = Stream::connect(listener.local_addr()).unwrap();
    assert!(!has_event(&stream, PollFlags::OUT, Duration::ZERO));
    stream.shutdown_write().unwrap();
    let error = result_of(stream).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_closed_port_refuses() {
    let (_taken, address) = closed_port();
    let refused = connect(address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_unix_path_without_a_listener_refuses_at_once() {
    let scratch = Scratch::new("connect");
    let path = scratch.file("a.sock");
    let missing = Stream::connect(Address::Unix(path.clone())).unwrap_err();
    assert_eq!(io::Error::from(missing).kind(), ErrorKind::NotFound);

    drop(UnixListener::bind(&path).unwrap()); // the file of the listener stays
    let refused = Stream::connect(Address::Unix(path.clone())).unwrap_err();
    let message = refused.to_string();
    assert!(
        message.starts_with(&format!(
            "cannot connect to unix:{}: connect",
            path.display()
        )),
        "{message}"
    );
    let kind = io::Error::from(refused).kind();
    assert_eq!(kind, ErrorKind::ConnectionRefused);
}

/// TCP has no route to a multicast address.
#[cfg(target_os = "linux")]
#[test]
fn an_unreachable_network_is_an_error_at_once() {
    let error = Stream::connect(([224, 0, 0, 1], 80)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Connect {
                call: "connect",
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(io::Error::from(error).kind(), ErrorKind::NetworkUnreachable);
}

#[test]
fn a_local_port_in_use_is_an_error_of_bind() {
    let listener = Listener::bind(LOCALHOST).unwrap();
    let taken = TcpListener::bind(LOCALHOST).unwrap();
    let error = ConnectOptions::new()
        .local_address(taken.local_addr().unwrap())
        .connect(listener.local_addr())
        .unwrap_err();
    assert!(
        matches!(error, Error::Connect { call: "bind", .. }),
        "{error:?}"
    );
    assert_eq!(io::Error::from(error).kind(), ErrorKind::AddrInUse);
}

#[test]
fn a_reset_after_some_bytes_is_reported() {
    let listener = Listener::bind(LOCALHOST).unwrap();
    let stream = connect(listener.local_addr()).unwrap();
    let server = accept(&listener);
    server.send(b"half a ").unwrap();
    assert!(has_event(&stream, PollFlags::IN, PATIENCE));
    assert_eq!(stream.recv(&mut [0; 16]).unwrap(), 7);
    sockopt::set_socket_linger(&server, Some(Duration::ZERO)).unwrap();
    drop(server);
    assert!(has_event(&stream, PollFlags::IN, PATIENCE));
    let error = stream.recv(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// Only Linux has an error for a full backlog; other systems refuse such a client.
#[cfg(target_os = "linux")]
#[test]
fn a_full_unix_backlog_is_an_error_until_a_client_is_accepted() {
    let scratch = Scratch::new("connect");
    let address = Address::Unix(scratch.file("a.sock"));
    let listener = Listener::builder().backlog(0).bind(&address).unwrap();
    let _first = Stream::connect(&address).unwrap();
    let full = Stream::connect(&address).unwrap_err();
    assert!(matches!(full, Error::BacklogFull { .. }), "{full:?}");
    assert!(full.to_string().contains("try again"), "{full}");
    assert_eq!(io::Error::from(full).kind(), ErrorKind::ResourceBusy);
    drop(accept(&listener));
    assert!(Stream::connect(&address).is_ok());
}

#[test]
fn a_peer_that_never_reads_takes_no_more_than_the_buffers_hold() {
    const BUFFER: usize = 64 * 1024;
    let listener = Listener::bind(LOCALHOST).unwrap();
    sockopt::set_socket_recv_buffer_size(&listener, BUFFER).unwrap();
    let stream = connect(listener.local_addr()).unwrap();
    sockopt::set_socket_send_buffer_size(&stream, BUFFER).unwrap();
    let _server = accept(&listener);
    let bytes = [0; 16 * 1024];
    let mut sent = 0;
    let refused = loop {
        match stream.send(&bytes) {
            Ok(n) => sent += n,
            // The socket has room again when the bytes under way reach the peer's buffer.
            Err(error) if has_event(&stream, PollFlags::OUT, Duration::from_millis(50)) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
            }
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    // The kernel doubles both sizes, and does not count exactly. Without the sizes it would take
    // some megabytes.
    assert!(sent <= 8 * BUFFER, "{sent}");
}
