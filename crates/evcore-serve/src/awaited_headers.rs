//! The clients of load balancers, until their headers of the PROXY protocol are complete.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use evcore::net::Address;
use evcore::{Accepted, Connections, EventLoop, Step, Stream, Timer, Token};
use evcore_prefork::WorkerIndex;
use rustix::net::{RecvFlags, recv};

use crate::event::{Event, OnEvent};
use crate::proxy_header::{Header, Receive};
use crate::proxy_protocol::ProxyProtocol;

/// The timer of a client whose header is awaited.
const TIMEOUT: Timer = Timer::new(0);

/// The clients of load balancers whose headers have not arrived. The loop counts them as connections.
pub(crate) struct AwaitedHeaders {
    senders: ProxyProtocol,
    waiting: Connections<Waiting>,
    worker: WorkerIndex,
    on_event: OnEvent,
}

/// A client whose header is awaited.
struct Waiting {
    /// The address of the load balancer.
    peer: Address,
    listener: usize,
    header: Header,
}

impl AwaitedHeaders {
    pub(crate) fn new(senders: ProxyProtocol, worker: WorkerIndex, on_event: OnEvent) -> Self {
        Self {
            senders,
            waiting: Connections::new(),
            worker,
            on_event,
        }
    }

    /// Returns the step that the program gets in place of `step`; `None` if a header is not complete.
    pub(crate) fn handle(&mut self, step: Step, ev: &mut EventLoop) -> Option<Step> {
        match step {
            Step::Accepted(new) if self.senders.trusts(&new.peer) => self.accept(new, ev),
            Step::Ready(token, ready) if self.waiting.contains(token) => {
                self.waiting.ready(token, ready);
                self.go_on(token, ev)
            }
            Step::Expired(token, _) if self.waiting.contains(token) => {
                let limit = self.senders.header_timeout();
                let late = format!("it did not arrive within {limit:?}");
                self.close(token, &io::Error::new(ErrorKind::TimedOut, late), ev);
                None
            }
            step => Some(step),
        }
    }

    /// Reads the header at once if it is there, and else waits for it.
    fn accept(&mut self, mut new: Accepted, ev: &mut EventLoop) -> Option<Step> {
        let mut header = Header::default();
        let client = header.read(|buffer, how| match how {
            Receive::Peek => peek(&new.stream, buffer),
            Receive::Take => new.stream.recv(buffer),
        });
        match client {
            Ok(client) => {
                new.peer = client.map_or(new.peer, Address::Tcp);
                return Some(Step::Accepted(new));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                self.report(&new.peer, &header, &error);
                return None; // drops the stream, and so closes it
            }
        }
        let waiting = Waiting {
            peer: new.peer,
            listener: new.listener,
            header,
        };
        // As for a program that cannot add a client: it is dropped, and so closed.
        if let Ok(token) = self.waiting.add(ev, new.stream, waiting) {
            ev.arm(token, TIMEOUT, self.senders.header_timeout());
        }
        None
    }

    /// Takes what has arrived. A complete header makes the connection a client of the program.
    fn go_on(&mut self, token: Token, ev: &mut EventLoop) -> Option<Step> {
        let (stream, waiting) = self.waiting.get_mut(token)?;
        let client = waiting.header.read(|buffer, how| match how {
            Receive::Peek => stream.read_with(ev, |stream| peek(stream, buffer)),
            Receive::Take => stream.recv(ev, buffer),
        });
        match client {
            Ok(client) => {
                let (stream, Waiting { peer, listener, .. }) = self.waiting.remove(ev, token)?;
                let peer = client.map_or(peer, Address::Tcp);
                Some(Step::Accepted(Accepted::new(stream, peer, listener)))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => {
                self.close(token, &error, ev);
                None
            }
        }
    }

    fn close(&mut self, token: Token, why: &io::Error, ev: &mut EventLoop) {
        if let Some((_, waiting)) = self.waiting.get(token) {
            self.report(&waiting.peer, &waiting.header, why);
        }
        self.waiting.close(ev, token);
    }

    fn report(&self, peer: &Address, header: &Header, why: &io::Error) {
        // A load balancer that connects and closes looks whether the server is there.
        if why.kind() != ErrorKind::UnexpectedEof || !header.is_empty() {
            (self.on_event)(Event::NoProxyHeader(self.worker, peer, why));
        }
    }
}

/// Receives bytes that stay in the socket.
fn peek(stream: &Stream, buffer: &mut [u8]) -> io::Result<usize> {
    let (_, received) = recv(stream.as_fd(), buffer, RecvFlags::PEEK)?;
    Ok(received)
}
