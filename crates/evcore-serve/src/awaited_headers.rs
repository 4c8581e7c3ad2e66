//! The clients of load balancers, until their headers of the PROXY protocol are complete.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use evcore::net::Address;
use evcore::{Accepted, Connections, EventLoop, Step, Stream, Timer, Token};
use rustix::net::{RecvFlags, recv};

use crate::proxy_header::{Header, Receive};
use crate::proxy_protocol::ProxyProtocol;

const TIMEOUT: Timer = Timer::new(0);

/// Gets the address of a load balancer, and the reason why its connection is closed.
type Report = Box<dyn Fn(&Address, &io::Error)>;

/// The clients of load balancers whose headers are not complete. The loop counts them as
/// connections.
pub(crate) struct AwaitedHeaders {
    senders: ProxyProtocol,
    waiting: Connections<Waiting>,
    report: Report,
}

struct Waiting {
    /// The address of the load balancer.
    peer: Address,
    listener: usize,
    header: Header,
}

impl AwaitedHeaders {
    pub(crate) fn new(
        senders: ProxyProtocol,
        report: impl Fn(&Address, &io::Error) + 'static,
    ) -> Self {
        Self {
            senders,
            waiting: Connections::new(),
            report: Box::new(report),
        }
    }

    /// Returns the step that the program gets in place of `step`, if it gets one.
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
        let peer = waiting.peer.clone();
        match self.waiting.add(ev, new.stream, waiting) {
            Ok(token) => _ = ev.arm(token, TIMEOUT, self.senders.header_timeout()),
            Err(error) => {
                // The client is closed. Without a pause, a worker whose poller is full would have
                // the least load, and get all clients.
                self.report(&peer, &Header::default(), &error.into());
                ev.listeners().pause();
            }
        }
        None
    }

    /// Reads the bytes that have arrived. If they complete the header, the connection becomes a
    /// client of the program.
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
        // An end without a byte is not reported, because load balancers connect and close at once
        // to check whether the server runs.
        if why.kind() != ErrorKind::UnexpectedEof || !header.is_empty() {
            (self.report)(peer, why);
        }
    }
}

fn peek(stream: &Stream, buffer: &mut [u8]) -> io::Result<usize> {
    let (_, received) = recv(stream.as_fd(), buffer, RecvFlags::PEEK)?;
    Ok(received)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::cell::RefCell;
    use std::io::{Read, Write};
    use std::net::{Shutdown, SocketAddr, TcpStream};
    use std::os::fd::OwnedFd;
    use std::rc::Rc;
    use std::time::Duration;

    use evcore::{Listener, net::Backoff, poller::BackendKind};

    const HEADER: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n";

    struct Server {
        ev: EventLoop,
        headers: AwaitedHeaders,
        address: SocketAddr,
        reports: Rc<RefCell<Vec<String>>>,
    }

    impl Server {
        fn new(backend: BackendKind, senders: &str) -> Self {
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().tcp().unwrap();
            let builder = EventLoop::builder().listener(listener).poller(backend);
            let reports = Rc::<RefCell<Vec<String>>>::default();
            let log = Rc::clone(&reports);
            let report = move |peer: &Address, why: &io::Error| {
                log.borrow_mut().push(format!("{peer}: {why}"));
            };
            Self {
                ev: builder.build().unwrap(),
                headers: AwaitedHeaders::new(senders.parse().unwrap(), report),
                address,
                reports,
            }
        }

        fn connect(&self) -> TcpStream {
            let stream = TcpStream::connect(self.address).unwrap();
            stream.set_nodelay(true).unwrap();
            stream
        }

        /// Runs until the program gets a client.
        fn next_client(&mut self) -> Accepted {
            loop {
                if let Some(client) = self.turn() {
                    return client;
                }
            }
        }

        /// Runs until there are this many connections, none of which the program has.
        fn run_until_active(&mut self, active: u32) {
            while self.ev.stats().active != active {
                assert!(self.turn().is_none(), "the program has no client yet");
            }
        }

        fn turn(&mut self) -> Option<Accepted> {
            assert!(self.ev.wait().unwrap());
            let mut client = None;
            while let Some(step) = self.ev.next_step() {
                match self.headers.handle(step, &mut self.ev) {
                    Some(Step::Accepted(new)) => client = Some(new),
                    Some(step) => panic!("{step:?}"),
                    None => {}
                }
            }
            client
        }
    }

    fn received(client: &Accepted) -> Vec<u8> {
        let mut buffer = [0; 64];
        let length = client.stream.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    }

    #[test]
    fn a_header_that_has_arrived_gives_the_address_at_once() {
        let mut server = Server::new(BackendKind::Poll, "127.0.0.0/8");
        let mut balancer = server.connect();
        balancer
            .write_all(&[HEADER, b"GET".as_slice()].concat())
            .unwrap();
        let client = server.next_client();
        assert_eq!(client.peer, SocketAddr::from(([192, 0, 2, 1], 56324)));
        assert_eq!(received(&client), b"GET");
        assert_eq!(
            server.ev.stats().active,
            0,
            "the connection was not registered"
        );
    }

    #[test]
    fn a_client_that_cannot_be_watched_is_reported_and_accepting_pauses() {
        let mut server = Server::new(BackendKind::Poll, "127.0.0.0/8");
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        server.address = listener.local_addr().tcp().unwrap();
        let builder = EventLoop::builder().listener(listener).connections(1);
        server.ev = builder.build().unwrap();
        let accept = |server: &mut Server| {
            let client = server.connect();
            let peer = client.peer_addr().unwrap().into();
            let stream = client.try_clone().unwrap();
            stream.set_nonblocking(true).unwrap();
            let accepted = Accepted::new(Stream::from(OwnedFd::from(stream)), peer, 0);
            let step = Step::Accepted(accepted);
            assert!(server.headers.handle(step, &mut server.ev).is_none());
            client
        };
        let _clients = [(); 2].map(|()| accept(&mut server));
        assert_eq!(server.reports.borrow().len(), 1, "the second client");
        let timeout = server.ev.prepare().unwrap().timeout;
        assert!(timeout.is_some_and(|timeout| timeout <= Backoff::PAUSE));
    }

    #[test]
    fn a_header_in_pieces_is_awaited_on_each_backend() {
        for backend in BackendKind::usable() {
            let mut server = Server::new(backend, "127.0.0.1");
            let mut balancer = server.connect();
            server.run_until_active(1);
            for piece in HEADER[..HEADER.len() - 1].chunks(7) {
                balancer.write_all(piece).unwrap();
                let before = server.ev.stats().events;
                while server.ev.stats().events == before {
                    assert!(server.turn().is_none(), "{backend}");
                }
            }
            balancer.write_all(b"\nGET").unwrap();
            let client = server.next_client();
            assert_eq!(
                client.peer,
                SocketAddr::from(([192, 0, 2, 1], 56324)),
                "{backend}"
            );
            assert_eq!(received(&client), b"GET", "{backend}");
            assert_eq!(
                server.ev.stats().active,
                0,
                "the connection belongs to the program"
            );
        }
    }

    #[test]
    fn other_peers_are_served_without_a_header() {
        let mut server = Server::new(BackendKind::Poll, "192.0.2.0/24");
        let mut peer = server.connect();
        peer.write_all(HEADER).unwrap();
        let client = server.next_client();
        assert_eq!(client.peer, peer.local_addr().unwrap());
        assert_eq!(
            received(&client),
            HEADER,
            "a header from such a peer is data"
        );
    }

    #[test]
    fn a_health_check_keeps_the_address_of_its_connection() {
        let mut server = Server::new(BackendKind::Poll, "127.0.0.1");
        let mut balancer = server.connect();
        balancer.write_all(b"PROXY UNKNOWN\r\n").unwrap();
        assert_eq!(server.next_client().peer, balancer.local_addr().unwrap());
    }

    #[test]
    fn a_connection_without_a_header_is_closed_and_reported() {
        let mut server = Server::new(BackendKind::Poll, "127.0.0.1");
        let (mut wrong, mut cut, silent) = (server.connect(), server.connect(), server.connect());
        server.run_until_active(3);
        wrong.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        server.run_until_active(2);
        cut.write_all(&HEADER[..20]).unwrap();
        cut.shutdown(Shutdown::Write).unwrap();
        server.run_until_active(1);
        silent.shutdown(Shutdown::Write).unwrap();
        server.run_until_active(0);
        let [wrong, cut] = [&wrong, &cut].map(|peer| peer.local_addr().unwrap());
        assert_eq!(
            *server.reports.borrow(),
            [
                format!("{wrong}: it is malformed"),
                format!("{cut}: the connection ended before it was complete"),
            ]
        );
    }

    #[test]
    fn a_header_that_is_late_is_reported() {
        let mut server = Server::new(BackendKind::Poll, "127.0.0.1");
        server.headers.senders = server.headers.senders.timeout(Duration::from_millis(1));
        let mut balancer = server.connect();
        server.run_until_active(1);
        server.run_until_active(0);
        let peer = balancer.local_addr().unwrap();
        let line = format!("{peer}: it did not arrive within 1ms");
        assert_eq!(*server.reports.borrow(), [line]);
        assert_eq!(balancer.read(&mut [0; 1]).unwrap(), 0, "it is closed");
    }
}
