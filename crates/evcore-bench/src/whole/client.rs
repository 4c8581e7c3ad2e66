//! A client with many connections and one thread.
//!
//! It sends as fast as responses arrive, or at fixed times. At fixed times a request does not wait
//! for the response before it, so a slow server gets no fewer requests than a fast one.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;

/// The most events of one wait.
const BATCH: usize = 512;

/// The connections to one server.
pub(super) struct Client {
    target: Target,
    connections: Vec<Connection>,
    /// The length of every response.
    length: usize,
    events: Vec<Event>,
    buffer: Vec<u8>,
}

/// Where connections go, and what they send.
struct Target {
    set: OwnedFd,
    address: SocketAddr,
    request: String,
}

struct Connection {
    stream: TcpStream,
    index: u64,
    /// When each request without a response was due.
    due: VecDeque<Instant>,
    /// Bytes of the next response.
    received: usize,
}

impl Client {
    /// Connects. All requests are for this path.
    ///
    /// # Panics
    ///
    /// If the server does not respond.
    pub(super) fn connect(address: SocketAddr, connections: usize, path: &str) -> Client {
        let target = Target {
            set: epoll::create(CreateFlags::CLOEXEC).expect("a descriptor is left"),
            address,
            request: format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        };
        let connect = |index| Connection {
            stream: target.open(index),
            index,
            due: VecDeque::new(),
            received: 0,
        };
        let mut connections: Vec<Connection> = (0..connections as u64).map(connect).collect();
        let length = response_length(&mut connections[0].stream, &target.request);
        Client {
            target,
            connections,
            length: length.expect("a response"),
            events: Vec::with_capacity(BATCH),
            buffer: vec![0; 64 * 1024],
        }
    }

    /// Sends on each connection as soon as it has received a response, for this time. Returns the
    /// number of responses and when the last one arrived. If `closes`, a new connection sends the
    /// next request.
    pub(super) fn saturate(&mut self, time: Duration, closes: bool) -> (usize, Duration) {
        let began = Instant::now();
        for connection in &mut self.connections {
            self.target.send(connection, began);
        }
        let (mut waiting, mut responses) = (self.connections.len(), 0);
        while waiting > 0 {
            let now = self.wait(None);
            let is_over = now - began >= time;
            self.receive(now, |target, connection, _| {
                responses += 1;
                if is_over {
                    waiting -= 1;
                    return;
                }
                if closes {
                    connection.stream = target.open(connection.index);
                }
                target.send(connection, now);
            });
        }
        (responses, began.elapsed())
    }

    /// Sends at this rate, on all connections by turns, for this time. Returns the latencies in
    /// nanoseconds, each counted from the time at which its request was due.
    pub(super) fn at_rate(&mut self, rate: f64, time: Duration) -> Histogram<u64> {
        let mut latencies = Histogram::new(3).expect("3 digits are possible");
        let interval = Duration::from_secs_f64(1.0 / rate);
        let (began, mut sent, mut waiting) = (Instant::now(), 0, 0_usize);
        let mut due = began;
        // It does not sleep: a timer would be late by more than most latencies.
        while due - began < time || waiting > 0 {
            let now = self.wait(Some(&Timespec::default()));
            while due <= now && due - began < time {
                let turn = sent % self.connections.len();
                self.target.send(&mut self.connections[turn], due);
                (sent, waiting, due) = (sent + 1, waiting + 1, due + interval);
            }
            self.receive(now, |_, _, latency| {
                let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
                latencies.record(ns).expect("it resizes itself");
                waiting -= 1;
            });
        }
        latencies
    }

    /// Waits for events, and returns the time.
    fn wait(&mut self, most: Option<&Timespec>) -> Instant {
        self.events.clear();
        let places = spare_capacity(&mut self.events);
        epoll::wait(&self.target.set, places, most).expect("no signal comes");
        Instant::now()
    }

    /// Reads from all that are ready. Calls `responded` for each response with its latency.
    fn receive(
        &mut self,
        now: Instant,
        mut responded: impl FnMut(&Target, &mut Connection, Duration),
    ) {
        for event in &self.events {
            let index = usize::try_from(event.data.u64()).expect("it was an index");
            let connection = &mut self.connections[index];
            let read = connection.stream.read(&mut self.buffer);
            let n = read.expect("no server fails");
            assert!(n > 0, "the server has closed a connection");
            connection.received += n;
            while connection.received >= self.length {
                connection.received -= self.length;
                let due = connection.due.pop_front();
                let latency = now - due.expect("no response without a request");
                responded(&self.target, connection, latency);
            }
        }
    }
}

impl Target {
    fn open(&self, index: u64) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the kernel accepts it");
        stream.set_nodelay(true).expect("it is a TCP stream");
        let data = EventData::new_u64(index);
        epoll::add(&self.set, &stream, data, EventFlags::IN).expect("it is new");
        stream
    }

    fn send(&self, connection: &mut Connection, due: Instant) {
        let sent = connection.stream.write_all(self.request.as_bytes());
        sent.expect("no server fails");
        connection.due.push_back(due);
    }
}

/// The length of the response to the first request, with its head.
fn response_length(stream: &mut TcpStream, request: &str) -> io::Result<usize> {
    stream.write_all(request.as_bytes())?;
    let mut response = vec![0; 64 * 1024];
    let (mut received, mut length) = (0, None);
    while length != Some(received) {
        // What follows the head is counted and not kept.
        let at = if length.is_none() { received } else { 0 };
        let n = stream.read(&mut response[at..])?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        received += n;
        if length.is_none() {
            length = length_by_head(&response[..received]);
        }
    }
    Ok(received)
}

/// `None` until the head is complete.
fn length_by_head(response: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(response).to_ascii_lowercase();
    let (head, _) = text.split_once("\r\n\r\n")?;
    let (_, rest) = head.split_once("content-length: ")?;
    let body: usize = rest.lines().next()?.parse().ok()?;
    Some(head.len() + 4 + body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!";

    /// A server of one connection, which responds to `n` requests, and stalls before one of them.
    fn server(n: usize, stalls_at: usize, stall: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".len()];
            for number in 0..n {
                if stream.read_exact(&mut request).is_err() {
                    return;
                }
                if number == stalls_at {
                    crate::accept::pace::pause(stall);
                }
                stream.write_all(RESPONSE).unwrap();
            }
        });
        address
    }

    #[test]
    fn a_saturating_client_has_a_response_to_each_request() {
        let mut client = Client::connect(server(usize::MAX, 0, Duration::ZERO), 1, "/");
        let (responses, took) = client.saturate(Duration::from_millis(5), false);
        assert!(responses > 0 && took >= Duration::from_millis(5));
        assert!(client.connections[0].due.is_empty() && client.connections[0].received == 0);
    }

    #[test]
    fn a_stall_delays_all_requests_that_are_due_in_it() {
        let stall = Duration::from_millis(100);
        let mut client = Client::connect(server(usize::MAX, 10, stall), 1, "/");
        // 100 requests in 200 ms, of which those of 100 ms are due in the stall.
        let latencies = client.at_rate(500.0, Duration::from_millis(200));
        assert_eq!(latencies.len(), 100);
        let slow = latencies.count_between(10_000_000, u64::MAX);
        assert!(slow >= 40, "{slow} were late");
    }
}
