//! A proxy that is generic over its connections, on both sides.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io::{self, ErrorKind},
    rc::Rc,
    time::Duration,
};

use evcore::{
    Acceptor, Address, Connector, EdgeStream, EventLoop, Ready, Step, Timer, Token, TokenMap,
    Transport, net::Error,
};

/// The timer of a session, at its client's token: first for the connect, then for idle time.
const TIMEOUT: Timer = Timer::new(0);
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of bytes that one side keeps for the other side.
const BUFFER: usize = 1_024;

/// The way in which a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Completed,
    NotConnected(ErrorKind),
    ConnectTimeout,
    IdleTimeout,
    /// An established connection has failed.
    Broken(ErrorKind),
}

/// Number of sessions that have ended in each way.
pub(crate) type Ends = Rc<RefCell<BTreeMap<End, u32>>>;

pub(crate) struct Proxy<L: Acceptor, C: Connector> {
    pub(crate) ev: EventLoop<L>,
    connector: C,
    to: Address,
    /// The sessions, by the token of the client.
    pub(crate) sessions: TokenMap<Session<L::Stream, C::Stream>>,
    /// The clients, by the token of the upstream.
    clients: TokenMap<Token>,
    ends: Ends,
}

pub(crate) struct Session<C, U> {
    client: Side<C>,
    upstream: Side<U>,
    is_connected: bool,
}

/// One side of a session, and the bytes from it that are not sent to the other side yet.
struct Side<S> {
    stream: EdgeStream<S>,
    unsent: Vec<u8>,
    has_ended: bool,
}

impl<L, C> Proxy<L, C>
where
    L: Acceptor<Stream: Transport>,
    C: Connector,
{
    pub(crate) fn new(ev: EventLoop<L>, connector: C, to: Address, ends: &Ends) -> Self {
        Self {
            ev,
            connector,
            to,
            sessions: TokenMap::new(),
            clients: TokenMap::new(),
            ends: Rc::clone(ends),
        }
    }

    pub(crate) fn on_step(&mut self, step: Step<L::Stream>) {
        match step {
            Step::Accepted(new) => {
                if let Err(error) = self.open(new.stream) {
                    self.count(End::NotConnected(error.kind()));
                }
            }
            Step::Ready(token, ready) => {
                let client = self.client_of(token);
                if let Err(end) = self.serve(token, client, ready) {
                    self.close(client, end);
                }
            }
            Step::Expired(client, _) => {
                let session = self.sessions.get(client).expect("it is open");
                let end = if session.is_connected {
                    End::IdleTimeout
                } else {
                    End::ConnectTimeout
                };
                self.close(client, end);
            }
            _ => {}
        }
    }

    /// The token of a session's client. `token` is the client's or the upstream's.
    fn client_of(&self, token: Token) -> Token {
        self.clients.get(token).copied().unwrap_or(token)
    }

    /// Begins to connect to the upstream. If connecting fails at once, the client is closed.
    fn open(&mut self, client: L::Stream) -> io::Result<()> {
        let upstream = self.connector.connect(&self.to);
        let upstream = upstream.map_err(|error: Error| io::Error::from(error))?;
        let client = EdgeStream::add(&mut self.ev, client).expect("the loop enforces the limit");
        let token = client.token();
        let upstream = EdgeStream::add(&mut self.ev, upstream).expect("there is room for both");
        self.clients.insert(upstream.token(), token);
        let session = Session {
            client: Side::new(client),
            upstream: Side::new(upstream),
            is_connected: false,
        };
        self.sessions.insert(token, session);
        self.ev.arm(token, TIMEOUT, CONNECT_TIMEOUT);
        Ok(())
    }

    /// Forwards in both directions. An error ends the session.
    fn serve(&mut self, token: Token, client: Token, ready: Ready) -> Result<(), End> {
        let session = self.sessions.get_mut(client).expect("it is open");
        if token == client {
            session.client.stream.on_ready(ready);
        } else {
            session.upstream.stream.on_ready(ready);
            session.check_connected().map_err(End::NotConnected)?;
        }
        if !session.is_connected {
            return Ok(());
        }
        self.ev.arm(client, TIMEOUT, IDLE_TIMEOUT);
        session.forward(&mut self.ev).map_err(End::Broken)?;
        if session.client.has_ended && session.upstream.has_ended {
            return Err(End::Completed);
        }
        Ok(())
    }

    fn close(&mut self, client: Token, end: End) {
        self.count(end);
        let session = self.sessions.get(client).expect("it is open");
        let upstream = session.upstream.stream.token();
        self.clients.close(&mut self.ev, upstream);
        self.sessions.close(&mut self.ev, client);
    }

    fn count(&self, end: End) {
        *self.ends.borrow_mut().entry(end).or_default() += 1;
    }
}

impl<C: Transport, U: Transport> Session<C, U> {
    /// Takes the result of connecting, which the first step of the upstream reports.
    fn check_connected(&mut self) -> Result<(), ErrorKind> {
        if self.is_connected {
            return Ok(());
        }
        match self.upstream.stream.get_ref().take_error() {
            Ok(None) => self.is_connected = true,
            Ok(Some(error)) | Err(error) => return Err(error.kind()),
        }
        Ok(())
    }

    fn forward<L: Acceptor>(&mut self, ev: &mut EventLoop<L>) -> Result<(), ErrorKind> {
        let results = [
            self.client.forward(&mut self.upstream, ev),
            self.upstream.forward(&mut self.client, ev),
        ];
        let mut errors = results.into_iter().filter_map(Result::err);
        let failed = errors.find(|error| error.kind() != ErrorKind::WouldBlock);
        failed.map_or(Ok(()), |error| Err(error.kind()))
    }
}

impl<S: Transport> Side<S> {
    fn new(stream: EdgeStream<S>) -> Self {
        Self {
            stream,
            unsent: Vec::new(),
            has_ended: false,
        }
    }

    /// Moves bytes to the other side until a call would block, or until the end of the stream is
    /// passed on.
    fn forward<T: Transport, L: Acceptor>(
        &mut self,
        to: &mut Side<T>,
        ev: &mut EventLoop<L>,
    ) -> io::Result<()> {
        let mut buffer = [0; BUFFER];
        while !self.has_ended {
            while !self.unsent.is_empty() {
                let sent = to.stream.send(ev, &self.unsent)?;
                self.unsent.drain(..sent);
            }
            let received = self.stream.recv(ev, &mut buffer)?;
            self.unsent.extend(&buffer[..received]);
            if received == 0 {
                self.has_ended = true;
                to.stream.get_ref().shutdown_write()?;
            }
        }
        Ok(())
    }
}
