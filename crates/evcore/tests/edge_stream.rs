//! `EdgeStream` over the kernel, on every backend: it misses no edge, and skips calls that are
//! known to block.

use std::{
    cell::Cell,
    io::{self, ErrorKind, IoSlice, Read, Write},
    mem,
    net::{Shutdown, SocketAddr, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use evcore::{
    Address, EdgeStream, Error, EventLoop, Listener, Ready, Step, Stream, Timer, Transport,
    net::SplicePipe, poller::BackendKind,
};
use evcore_testing::PATIENCE;
use rustix::net::{
    self, AddressFamily, SocketType,
    sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size},
};

/// The size of the server's send buffer and of the client's receive buffer. Without a size, the
/// kernel grows a buffer up to tens of MB, and an `EdgeStream` reaches its limit of 32 calls per
/// turn (iteration of the loop) before the buffers are full.
const BUFFER: usize = 64 * 1024;

/// A stream that counts its receive and send calls.
#[derive(Debug)]
struct Counting {
    stream: Stream,
    calls: Cell<u32>,
}

impl Counting {
    fn count(&self) -> &Stream {
        self.calls.set(self.calls.get() + 1);
        &self.stream
    }
}

impl AsFd for Counting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Transport for Counting {
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.count().recv(buffer)
    }
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.count().send(bytes)
    }
    fn shutdown_write(&self) -> io::Result<()> {
        self.stream.shutdown_write()
    }
    fn peer_addr(&self) -> io::Result<Address> {
        self.stream.peer_addr()
    }
    fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.stream.take_error()
    }
}

struct Fixture {
    ev: EventLoop,
    stream: EdgeStream<Counting>,
    client: TcpStream,
    kind: BackendKind,
}

impl Fixture {
    fn new(kind: BackendKind) -> Self {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr()).unwrap();
        let builder = EventLoop::builder().listener(listener).poller(kind);
        let mut ev = builder.build().unwrap();
        ev.wait().unwrap();
        let Some(Step::Accepted(new)) = ev.next_step() else {
            panic!("the client was not accepted");
        };
        set_socket_send_buffer_size(&new.stream, BUFFER).unwrap();
        set_socket_recv_buffer_size(&client, BUFFER).unwrap();
        let stream = Counting {
            stream: new.stream,
            calls: Cell::new(0),
        };
        let stream = EdgeStream::add(&mut ev, stream).unwrap();
        ev.arm(stream.token(), Timer::READ, PATIENCE);
        Self {
            ev,
            stream,
            client,
            kind,
        }
    }

    fn wait_until(&mut self, is_enough: impl Fn(&EdgeStream<Counting>) -> bool) {
        while !is_enough(&self.stream) {
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.ev.wait().unwrap();
        while let Some(step) = self.ev.next_step() {
            let Step::Ready(_, ready) = step else {
                panic!("{}: {step:?} came, so an edge was missed", self.kind);
            };
            self.stream.on_ready(ready);
        }
    }

    /// Receives until a call would block or the end comes. Returns the bytes, and whether the end
    /// came.
    fn receive(&mut self) -> (Vec<u8>, bool) {
        let (mut received, mut buffer) = (Vec::new(), [0; 8]);
        loop {
            match self.stream.recv(&mut self.ev, &mut buffer) {
                Ok(0) => return (received, true),
                Ok(n) => received.extend_from_slice(&buffer[..n]),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    return (received, false);
                }
            }
        }
    }

    /// Sends `bytes` repeatedly until the sockets' buffers are full. Returns how many bytes they
    /// took.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        loop {
            match self.stream.send(&mut self.ev, bytes) {
                Ok(n) => sent += n,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    assert!(
                        !self.stream.is_writable(),
                        "there is room after {sent} bytes"
                    );
                    return sent;
                }
            }
        }
    }

    fn calls(&self) -> u32 {
        self.stream.get_ref().calls.take()
    }
}

fn on_each_backend(test: fn(Fixture)) {
    for kind in &BackendKind::usable() {
        test(Fixture::new(*kind));
    }
}

#[test]
fn each_message_is_received_without_a_rearm_by_the_program() {
    on_each_backend(|mut fixture| {
        for _ in 0..3 {
            fixture.client.write_all(b"hello").unwrap();
            fixture.wait_until(|stream| stream.is_readable());
            assert_eq!(fixture.receive(), (b"hello".to_vec(), false));
        }
    });
}

#[test]
fn a_short_read_saves_the_call_that_would_block() {
    on_each_backend(|mut fixture| {
        assert_eq!(fixture.receive(), (Vec::new(), false));
        assert_eq!(fixture.calls(), 0, "nothing was reported yet");
        fixture.client.write_all(b"hello").unwrap();
        fixture.wait_until(|stream| stream.is_readable());
        assert_eq!(fixture.receive().0, b"hello");
        assert_eq!(fixture.calls(), 1);
    });
}

#[test]
fn a_read_that_fills_the_buffer_is_followed_by_another() {
    on_each_backend(|mut fixture| {
        fixture.client.write_all(b"12345678").unwrap();
        fixture.wait_until(|stream| stream.is_readable());
        assert_eq!(fixture.receive(), (b"12345678".to_vec(), false));
        assert_eq!(fixture.calls(), 2);
    });
}

#[test]
fn unfilled_spare_capacity_saves_the_call_that_would_block() {
    on_each_backend(|mut fixture| {
        let mut buffer = Vec::with_capacity(16);
        fixture.client.write_all(b"hello").unwrap();
        fixture.wait_until(|stream| stream.is_readable());
        let Fixture { ev, stream, .. } = &mut fixture;
        assert_eq!(stream.recv_buf(ev, &mut buffer).unwrap(), 5);
        assert!(!stream.is_readable());
        fixture.client.write_all(b", and more than fits").unwrap();
        fixture.wait_until(|stream| stream.is_readable());
        let Fixture { ev, stream, .. } = &mut fixture;
        let room = buffer.capacity() - buffer.len();
        assert_eq!(stream.recv_buf(ev, &mut buffer).unwrap(), room);
        assert!(stream.is_readable(), "there may be more");
        assert!(buffer.starts_with(b"hello, and"));
    });
}

#[test]
fn a_library_reads_and_writes_through_the_stream() {
    on_each_backend(|mut fixture| {
        fixture.client.write_all(b"hello").unwrap();
        fixture.wait_until(|stream| stream.is_readable() && stream.is_writable());
        let Fixture { ev, stream, .. } = &mut fixture;
        let mut request = Vec::new();
        let blocked = stream.io(ev).read_to_end(&mut request).unwrap_err();
        assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
        assert!(request == b"hello" && !stream.is_readable());
        let parts = [b"bye".as_slice(), b", bye"].map(IoSlice::new);
        assert_eq!(stream.io(ev).write_vectored(&parts).unwrap(), 8);
        let mut response = [0; 8];
        fixture.client.read_exact(&mut response).unwrap();
        assert_eq!(&response, b"bye, bye");
    });
}

#[test]
fn a_short_vectored_write_fills_the_socket() {
    on_each_backend(|mut fixture| {
        let (parts, mut sent) = ([[0; 64 * 1024]; 2], 0);
        fixture.wait_until(|stream| stream.is_writable());
        while fixture.stream.is_writable() {
            let Fixture { ev, stream, .. } = &mut fixture;
            let parts = [IoSlice::new(&parts[0]), IoSlice::new(&parts[1])];
            match stream.send_vectored(ev, &parts) {
                Ok(n) => sent += n,
                // After 32 calls the stream goes on in the next turn.
                Err(_) => {
                    if fixture.stream.is_writable() {
                        fixture.turn();
                    }
                }
            }
        }
        fixture.client.read_exact(&mut vec![0; sent]).unwrap();
        fixture.wait_until(|stream| stream.is_writable());
    });
}

#[test]
fn an_end_that_arrives_with_the_data_is_received() {
    on_each_backend(|mut fixture| {
        fixture.client.write_all(b"bye").unwrap();
        fixture.client.shutdown(Shutdown::Write).unwrap();
        let mut received = (Vec::new(), false);
        // Not every backend reports the end with the data, so there may be two edges.
        while !received.1 {
            fixture.wait_until(|stream| stream.is_readable());
            let (more, ended) = fixture.receive();
            received.0.extend(more);
            received.1 = ended;
        }
        assert_eq!(received.0, b"bye");
        assert!(fixture.stream.is_readable(), "the end can be read again");
        assert!(fixture.receive().1);
    });
}

#[test]
fn an_end_that_arrives_later_is_received() {
    on_each_backend(|mut fixture| {
        fixture.client.write_all(b"bye").unwrap();
        fixture.wait_until(|stream| stream.is_readable());
        assert_eq!(fixture.receive(), (b"bye".to_vec(), false));
        fixture.client.shutdown(Shutdown::Write).unwrap();
        fixture.wait_until(|stream| stream.is_readable());
        assert_eq!(fixture.receive(), (Vec::new(), true));
    });
}

#[test]
fn a_full_socket_is_writable_again_when_the_peer_reads() {
    on_each_backend(|mut fixture| {
        let bytes = vec![0; 256 * 1024];
        for _ in 0..2 {
            fixture.wait_until(|stream| stream.is_writable());
            let sent = fixture.fill(&bytes);
            fixture.calls();
            let blocked = fixture.stream.send(&mut fixture.ev, &bytes).unwrap_err();
            assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
            assert_eq!(fixture.calls(), 0);
            fixture.client.read_exact(&mut vec![0; sent]).unwrap();
        }
    });
}

#[test]
fn data_that_waits_while_sending_blocks_stays_readable() {
    on_each_backend(|mut fixture| {
        fixture.client.write_all(b"hello").unwrap();
        fixture.wait_until(|stream| stream.is_readable());
        // The program first sends until a call would block.
        let bytes = vec![0; 256 * 1024];
        fixture.wait_until(|stream| stream.is_writable());
        let sent = fixture.fill(&bytes);
        fixture.client.read_exact(&mut vec![0; sent]).unwrap();
        fixture.wait_until(|stream| stream.is_writable());
        assert!(fixture.stream.is_readable());
        assert_eq!(fixture.receive().0, b"hello");
    });
}

#[test]
fn readiness_that_is_not_true_is_corrected_by_the_call() {
    on_each_backend(|mut fixture| {
        fixture.stream.on_ready(Ready::READABLE);
        assert_eq!(fixture.receive(), (Vec::new(), false));
        assert_eq!(fixture.calls(), 1);
        assert!(!fixture.stream.is_readable());
        fixture.client.write_all(b"hello").unwrap();
        fixture.wait_until(|stream| stream.is_readable());
        assert_eq!(fixture.receive().0, b"hello");
    });
}

#[test]
fn read_with_drains_the_stream_only_at_would_block() {
    on_each_backend(|mut fixture| {
        fixture.client.write_all(b"hello").unwrap();
        fixture.wait_until(|stream| stream.is_readable());
        let Fixture { ev, stream, .. } = &mut fixture;
        let received = stream.read_with(ev, |stream| stream.recv(&mut [0; 8]));
        assert_eq!(received.unwrap(), 5);
        assert!(stream.is_readable());
        let blocked = stream.read_with(ev, |stream| stream.recv(&mut [0; 8]));
        assert_eq!(blocked.unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(!stream.is_readable());
        fixture.client.write_all(b"again").unwrap();
        fixture.wait_until(|stream| stream.is_readable());
        assert_eq!(fixture.receive().0, b"again");
    });
}

#[test]
fn a_short_read_into_a_pipe_drains_the_stream() {
    on_each_backend(|mut fixture| {
        let mut pipe = SplicePipe::new();
        for _ in 0..3 {
            fixture.client.write_all(b"hello").unwrap();
            fixture.wait_until(|stream| stream.is_readable());
            let Fixture { ev, stream, .. } = &mut fixture;
            assert_eq!(stream.fill(ev, &mut pipe).unwrap(), 5);
            assert!(!stream.is_readable());
            assert_eq!(pipe.drain_to(stream.get_ref()).unwrap(), 5);
        }
    });
}

#[test]
fn a_reset_in_the_middle_is_a_step_and_an_error() {
    on_each_backend(|mut fixture| {
        fixture.client.write_all(b"half a ").unwrap();
        fixture.wait_until(|stream| stream.is_readable());
        assert_eq!(fixture.receive(), (b"half a ".to_vec(), false));
        net::sockopt::set_socket_linger(&fixture.client, Some(Duration::ZERO)).unwrap();
        let (client, _) = UnixStream::pair().unwrap();
        drop(mem::replace(
            &mut fixture.client,
            OwnedFd::from(client).into(),
        ));
        fixture.wait_until(|stream| stream.is_readable());
        let error = fixture.stream.recv(&mut fixture.ev, &mut [0; 8]);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn an_end_that_arrives_with_the_data_reaches_a_pipe() {
    on_each_backend(|mut fixture| {
        let mut pipe = SplicePipe::new();
        fixture.client.write_all(b"bye").unwrap();
        fixture.client.shutdown(Shutdown::Write).unwrap();
        for expected in [3, 0] {
            fixture.wait_until(|stream| stream.is_readable());
            let Fixture { ev, stream, .. } = &mut fixture;
            assert_eq!(stream.fill(ev, &mut pipe).unwrap(), expected);
            pipe = SplicePipe::new();
        }
        assert!(fixture.stream.is_readable(), "the end can be read again");
    });
}

#[test]
fn a_stream_that_is_always_ready_goes_on_in_the_next_turn() {
    on_each_backend(|mut fixture| {
        const BYTES: usize = 1000;
        fixture.client.write_all(&[0; BYTES]).unwrap();
        fixture.wait_until(|stream| stream.is_readable());
        let (mut left, mut turns) = (BYTES, 0);
        while left > 0 {
            let (received, _) = fixture.receive();
            assert!(fixture.calls() <= 32);
            left -= received.len();
            turns += 1;
            if left > 0 {
                assert!(fixture.stream.is_readable());
                // The loop does not wait for the kernel, which has nothing new to report.
                fixture.ev.wait().unwrap();
                let Some(Step::Ready(_, ready)) = fixture.ev.next_step() else {
                    panic!("{}: the stream was not posted", fixture.kind);
                };
                fixture.stream.on_ready(ready);
            }
        }
        assert!(turns > 1);
    });
}

#[test]
fn the_limit_of_calls_begins_anew_in_a_turn_without_a_step_of_the_stream() {
    on_each_backend(|mut fixture| {
        fixture.wait_until(|stream| stream.is_writable());
        for _ in 0..100 {
            assert_eq!(fixture.stream.send(&mut fixture.ev, b"x").unwrap(), 1);
            fixture.ev.handle().wake();
            fixture.ev.wait().unwrap();
            assert!(matches!(fixture.ev.next_step(), Some(Step::Woken)));
        }
    });
}

/// Connects, and returns the error with which connecting has failed, if any.
fn connect(ev: &mut EventLoop, address: &Address) -> Option<io::Error> {
    let stream = match Stream::connect(address) {
        Ok(stream) => stream,
        Err(error) => return Some(error.into()), // some systems report the error at once
    };
    let mut stream = EdgeStream::add(ev, stream).unwrap();
    let early = stream.send(ev, b"early").unwrap_err();
    assert_eq!(early.kind(), ErrorKind::WouldBlock);
    ev.wait().unwrap();
    let Some(Step::Ready(_, ready)) = ev.next_step() else {
        panic!("the connect gave no step");
    };
    stream.on_ready(ready);
    assert!(stream.is_writable());
    let error = stream.get_ref().take_error().unwrap();
    ev.remove(stream.token());
    error
}

#[test]
fn the_first_step_of_a_connecting_stream_is_its_result() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    // This socket is bound and does not listen, so no other socket gets the port.
    let taken = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::bind(&taken, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let taken = Stream::from(taken);
    let closed = taken.local_addr().unwrap();
    for kind in &BackendKind::usable() {
        let mut ev = EventLoop::builder().poller(*kind).build().unwrap();
        let error = connect(&mut ev, listener.local_addr());
        assert!(error.is_none(), "{kind}: {error:?}");
        let error = connect(&mut ev, &closed).expect("nobody listens");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{kind}");
    }
}

// A program that drops a stream without closing its token loses the slot. `Connections` and
// `TokenMap` avoid this (decision 0006).
#[test]
fn a_dropped_stream_keeps_its_slot_until_its_token_is_closed() {
    let mut ev = EventLoop::builder().connections(1).build().unwrap();
    let (near, _far) = UnixStream::pair().unwrap();
    let stream = EdgeStream::add(&mut ev, Stream::from(OwnedFd::from(near))).unwrap();
    let token = stream.token();
    drop(stream);
    assert_eq!((ev.stats().active, ev.stats().limit), (1, 1));
    let (near, _far) = UnixStream::pair().unwrap();
    let full = EdgeStream::add(&mut ev, Stream::from(OwnedFd::from(near)));
    assert!(matches!(full, Err(Error::Full { limit: 1 })), "{full:?}");
    assert!(ev.remove(token));
    assert_eq!(ev.stats().active, 0);
}
