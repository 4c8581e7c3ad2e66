//! The example `tls`: its handshakes, the ends of its sessions, and clients that do not keep to the
//! protocol.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use evcore_tests::{PATIENCE, Server, eventually, example};
use rustix::{net::sockopt, process::Signal};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::{LENGTH, STALLED, bytes, connect, send_without_reading};

const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/echo/localhost.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/echo/localhost.key");

const IDLE: Duration = Duration::from_millis(300);
const IDLE_SECONDS: &str = "0.3";

type Client = StreamOwned<ClientConnection, TcpStream>;

fn start(idle_seconds: &str) -> Server {
    let mut command = Command::new(example("evcore", "tls"));
    command.args(["127.0.0.1:0", CERTIFICATE, KEY, idle_seconds]);
    Server::from_command(command, 1)
}

/// A client's session that trusts the certificate.
fn session() -> ClientConnection {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(CERTIFICATE).expect("it is readable");
    roots.add(certificate).expect("a certificate");
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a session")
}

fn client(server: &Server) -> Client {
    StreamOwned::new(session(), connect(server.address()))
}

/// The first message of a handshake.
fn hello() -> Vec<u8> {
    let mut hello = Vec::new();
    session().write_tls(&mut hello).expect("a vector");
    hello
}

/// Sends a message, and receives the same.
fn ping(client: &mut Client) {
    client.write_all(b"ping").expect("it reads");
    let mut back = [0; 4];
    client.read_exact(&mut back).expect("it answers");
    assert_eq!(&back, b"ping");
}

/// Reads the end of a session, which must be a `close_notify`. Any other end is an error in rustls.
fn read_end(client: &mut Client) {
    assert_eq!(client.read(&mut [0; 16]).expect("a close_notify"), 0);
}

/// Reads the bytes until the end, or until the reset that a close with unread bytes causes.
fn read_bytes(mut stream: &TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("no end: {error}"),
    }
    received
}

/// Sends without reading until the server takes no more. Returns the number of bytes that rustls
/// took.
fn fill(client: &mut Client, bytes: &[u8]) -> io::Result<usize> {
    client.sock.set_write_timeout(Some(STALLED))?;
    let mut taken = 0;
    while taken < bytes.len() {
        taken += client.conn.writer().write(&bytes[taken..])?;
        match client.conn.write_tls(&mut client.sock) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

/// Sends the rest of the bytes, and receives `length` bytes, or all until the end. Returns the
/// received bytes, and the longest pause between two of them.
fn exchange(client: &mut Client, mut rest: &[u8], length: usize) -> (Vec<u8>, Duration) {
    client.sock.set_nonblocking(true).expect("a socket");
    let (mut received, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    let (mut last, mut longest_pause) = (Instant::now(), Duration::ZERO);
    while received.len() < length {
        let taken = client.conn.writer().write(rest).expect("memory");
        rest = &rest[taken..];
        let mut is_open = true;
        if client.conn.wants_write() {
            is_open &= goes_on(client.conn.write_tls(&mut client.sock));
        }
        if client.conn.wants_read() {
            is_open &= goes_on(client.conn.read_tls(&mut client.sock));
        }
        if !is_open {
            break;
        }
        client.conn.process_new_packets().expect("TLS");
        longest_pause = longest_pause.max(last.elapsed());
        match client.conn.reader().read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                received.extend_from_slice(&buffer[..n]);
                last = Instant::now();
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        assert!(longest_pause < PATIENCE, "no more comes back");
    }
    client.sock.set_nonblocking(false).expect("a socket");
    (received, longest_pause)
}

/// Returns whether the connection goes on. A reset ends it.
fn goes_on(result: io::Result<usize>) -> bool {
    match result.map_err(|error| error.kind()) {
        Ok(_) | Err(ErrorKind::WouldBlock) => true,
        Err(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_tls_client_that_reads_late_gets_all_16_mb_back() {
    let server = start("60");
    let bytes = bytes(LENGTH);
    let mut client = client(&server);
    ping(&mut client);
    let taken = fill(&mut client, &bytes).expect("some of it");
    assert!(taken < LENGTH, "the server has kept {taken} bytes");

    let (received, _) = exchange(&mut client, &bytes[taken..], LENGTH);
    assert!(received == bytes, "other bytes than were sent");
}

#[test]
fn a_close_notify_is_answered_after_all_bytes() {
    let server = start("60");
    let mut client = client(&server);
    client.write_all(&bytes(100_000)).expect("it reads");
    client.conn.send_close_notify();
    client.flush().expect("it reads");
    let mut received = Vec::new();
    client.read_to_end(&mut received).expect("a close_notify");
    assert!(received == bytes(100_000));
    assert_eq!(read_bytes(&client.sock), b"");
}

#[test]
fn an_idle_tls_client_gets_a_close_notify() {
    let server = start(IDLE_SECONDS);
    let began = Instant::now();
    let mut client = client(&server);
    client.flush().expect("a handshake");
    read_end(&mut client);
    assert!(began.elapsed() >= IDLE, "early");
}

#[test]
fn a_handshake_in_small_pieces_has_the_same_timeout() {
    let server = start(IDLE_SECONDS);
    let mut stream = connect(server.address());
    // Each read waits this long for the end, and so makes the pause between two pieces.
    let pause = Some(Duration::from_millis(10));
    stream.set_read_timeout(pause).expect("a time");
    let began = Instant::now();
    // The head of a record of 16 KiB, and then its body, a byte at a time.
    for byte in [0x16, 3, 1, 0x40, 0].iter().chain([1].iter().cycle()) {
        assert!(began.elapsed() < PATIENCE, "it is never closed");
        let sent = stream.write_all(&[*byte]);
        match sent.and_then(|()| stream.read(&mut [0; 64])) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => break,
        }
    }
    assert!(began.elapsed() >= IDLE, "early");
}

#[test]
fn a_client_that_never_reads_is_closed_after_the_timeout() {
    let server = start(IDLE_SECONDS);
    let began = Instant::now();
    let mut client = client(&server);
    ping(&mut client);
    // After an error, the connection is already closed.
    if fill(&mut client, &bytes(LENGTH)).is_ok() {
        eventually("it is closed", || {
            send_without_reading(&client.sock, &[0]).is_err()
        });
    }
    assert!(began.elapsed() >= IDLE, "early");
}

#[test]
fn a_truncated_hello_ends_only_its_connection() {
    let server = start("60");
    let mut other = client(&server);
    ping(&mut other);
    let hello = hello();
    for length in [0, 1, 5, hello.len() / 2, hello.len() - 1] {
        let mut stream = connect(server.address());
        stream.write_all(&hello[..length]).expect("it reads");
        stream.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(read_bytes(&stream), b"", "{length} bytes");
        ping(&mut other);
    }
}

#[test]
fn garbage_is_answered_with_an_alert() {
    const ALERT: u8 = 21;
    let server = start("60");
    let mut other = client(&server);
    ping(&mut other);
    // Bytes that are not TLS; a record that is too long; a malformed hello.
    let garbage: [&[u8]; 3] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3],
        &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0],
    ];
    for garbage in garbage {
        let mut stream = connect(server.address());
        stream.write_all(garbage).expect("it reads");
        assert_eq!(read_bytes(&stream).first(), Some(&ALERT), "{garbage:?}");
        ping(&mut other);
    }
}

#[test]
fn garbage_in_a_session_ends_it_and_no_other() {
    let server = start("60");
    let (mut other, mut client) = (client(&server), client(&server));
    ping(&mut other);
    ping(&mut client);
    client
        .sock
        .write_all(&[0x17, 3, 3, 0, 32])
        .expect("it reads");
    client.sock.write_all(&[0; 32]).expect("it reads");
    let error = client.read(&mut [0]).expect_err("an alert");
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    ping(&mut other);
}

#[test]
fn a_reset_tls_client_ends_no_other() {
    let server = start("60");
    let mut other = client(&server);
    ping(&mut other);
    for is_in_handshake in [true, false].repeat(5) {
        let mut client = client(&server);
        if is_in_handshake {
            client.sock.write_all(&hello()).expect("it reads");
        } else {
            ping(&mut client);
            fill(&mut client, &bytes(100_000)).expect("some of it");
        }
        sockopt::set_socket_linger(&client.sock, Some(Duration::ZERO)).expect("a time");
        drop(client);
        ping(&mut other);
    }
}

#[test]
fn quit_ends_quiet_tls_sessions_with_a_close_notify() {
    let mut server = start("60");
    let mut clients: Vec<_> = (0..3).map(|_| client(&server)).collect();
    clients.iter_mut().for_each(ping);
    server.signal(Signal::QUIT);
    clients.iter_mut().for_each(read_end);
    assert!(server.wait().success());
}

#[test]
fn quit_lets_a_client_that_is_not_quiet_finish() {
    const QUIET: Duration = Duration::from_secs(1);
    let mut server = start("60");
    let mut client = client(&server);
    // With small buffers, the server blocks before the client has sent everything.
    sockopt::set_socket_recv_buffer_size(&client.sock, 32 * 1024).expect("a size");
    sockopt::set_socket_send_buffer_size(&client.sock, 32 * 1024).expect("a size");
    ping(&mut client);
    let bytes = bytes(LENGTH);
    let taken = fill(&mut client, &bytes).expect("some of it");
    assert!(taken < bytes.len(), "the server has kept {taken} bytes");
    server.signal(Signal::QUIT);
    eventually("it listens no more", || {
        TcpStream::connect(server.address()).is_err()
    });
    let (received, longest_pause) = exchange(&mut client, &bytes[taken..], bytes.len());
    // If this thread was held up, the client may have been quiet for so long that the server has
    // closed it. In that case the result does not count.
    if longest_pause < QUIET {
        assert!(received == bytes, "{} bytes", received.len());
        read_end(&mut client);
    }
    drop(client);
    assert!(server.wait().success());
}
