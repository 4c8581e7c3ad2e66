//! An edge-triggered echo server with an idle timeout, in which a test can plant a bug.

use std::{
    cell::RefCell,
    io::{self, ErrorKind},
    mem,
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use evcore::{
    Builder, EdgeStream, EventLoop, Ready, Step, Timer, Token, TokenMap, balancer::WorkerId,
};
use evcore_sim::{App, Process, SimGroup, SimListener, SimStream};

use crate::edges_by_hand::EdgesByHand;

pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// The counters of all workers of a test, dead ones included.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) started: u32,
    pub(crate) accepted: u32,
    pub(crate) expired: u32,
    pub(crate) turns: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// After a call that would block, the server does not rearm the stream.
    ForgottenRearm,
    /// A short read is taken for the end of the data, although the end of the stream may follow.
    ShortReadMeansDrained,
    /// The rest of a short write is dropped.
    ShortWriteMeansSent,
    /// The report that the client has ended its stream is taken for the end of the connection.
    HalfCloseMeansEnd,
    /// A report of data that is not there is taken for the end of the connection.
    SpuriousReadinessMeansEnd,
    /// Each report leads to one read only.
    ReadsOnce,
    /// A new connection gets the buffer of the connection that ended last, with the bytes that are
    /// left in it.
    BufferNotCleared,
}

#[derive(Debug)]
pub(crate) struct Echo {
    pub(crate) ev: EventLoop<SimListener>,
    conns: TokenMap<Conn>,
    counts: Rc<RefCell<Counts>>,
    idle: Duration,
    bug: Bug,
    /// The buffer of the last connection that has ended.
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Conn {
    stream: Edges,
    /// Received bytes that are not sent back yet.
    unsent: Vec<u8>,
    is_at_eof: bool,
}

/// A stream with its readiness.
#[derive(Debug)]
enum Edges {
    Kept(EdgeStream<SimStream>),
    /// Readiness kept by hand, for the bugs that `EdgeStream` excludes.
    ByHand(EdgesByHand),
}

pub(crate) fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7))
}

impl Echo {
    pub(crate) fn new(process: &Process, counts: &Rc<RefCell<Counts>>) -> Self {
        let builder = process.builder().listener(process.listen(address()));
        Self::on(builder, counts)
    }

    pub(crate) fn with_lock(
        process: &Process,
        index: usize,
        group: &SimGroup,
        counts: &Rc<RefCell<Counts>>,
    ) -> Self {
        let builder = process.builder().listener(process.listen(address()));
        let lock = group.lock_handle(process, WorkerId::from_slot(index));
        Self::on(builder.group(lock), counts)
    }

    /// Makes a worker with a bug. Its idle timeout is so long that it does not hide the bug.
    pub(crate) fn with_bug(process: &Process, bug: Bug) -> Self {
        let idle = Duration::from_secs(3_600);
        let echo = Self::new(process, &Rc::default());
        Self { bug, idle, ..echo }
    }

    pub(crate) fn on(builder: Builder<SimListener>, counts: &Rc<RefCell<Counts>>) -> Self {
        counts.borrow_mut().started += 1;
        Self {
            ev: builder.connections(64).build().expect("a loop"),
            conns: TokenMap::new(),
            counts: Rc::clone(counts),
            idle: IDLE,
            bug: Bug::None,
            buffer: Vec::new(),
        }
    }

    fn accept(&mut self, stream: SimStream) {
        self.counts.borrow_mut().accepted += 1;
        let stream = Edges::add(&mut self.ev, stream, self.bug);
        let token = stream.token();
        let conn = Conn {
            stream,
            unsent: mem::take(&mut self.buffer),
            is_at_eof: false,
        };
        self.conns.insert(token, conn);
        self.ev.arm(token, Timer::READ, self.idle);
    }

    fn serve(&mut self, token: Token, ready: Ready) {
        let conn = self.conns.get_mut(token).expect("its token is live");
        self.ev.arm(token, Timer::READ, self.idle);
        conn.stream.on_ready(ready);
        match conn.progress(&mut self.ev, ready, self.bug) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => self.end(token),
        }
    }

    fn end(&mut self, token: Token) {
        let conn = self.conns.get_mut(token).expect("its token is live");
        if self.bug == Bug::BufferNotCleared {
            self.buffer = mem::take(&mut conn.unsent);
        }
        self.conns.close(&mut self.ev, token);
    }
}

impl Conn {
    /// Receives and sends until a call would block. Any other error ends the connection.
    fn progress(
        &mut self,
        ev: &mut EventLoop<SimListener>,
        ready: Ready,
        bug: Bug,
    ) -> io::Result<()> {
        if bug == Bug::HalfCloseMeansEnd && ready.is_read_closed() {
            return Ok(());
        }
        for reads in 0.. {
            while !self.unsent.is_empty() {
                let sent = self.stream.send(ev, &self.unsent)?;
                if bug == Bug::ShortWriteMeansSent {
                    self.unsent.clear();
                } else {
                    self.unsent.drain(..sent);
                }
            }
            if self.is_at_eof {
                break;
            }
            if bug == Bug::ReadsOnce && reads == 1 {
                return Err(ErrorKind::WouldBlock.into());
            }
            let mut buffer = [0; 256];
            match self.stream.recv(ev, &mut buffer) {
                Err(_)
                    if bug == Bug::SpuriousReadinessMeansEnd
                        && ready.is_readable()
                        && reads == 0 =>
                {
                    break;
                }
                received => {
                    let received = received?;
                    self.is_at_eof = received == 0;
                    self.unsent.extend(&buffer[..received]);
                }
            }
        }
        Ok(())
    }
}

impl Edges {
    fn add(ev: &mut EventLoop<SimListener>, stream: SimStream, bug: Bug) -> Self {
        match bug {
            Bug::ForgottenRearm | Bug::ShortReadMeansDrained => {
                Self::ByHand(EdgesByHand::add(ev, stream, bug))
            }
            _ => Self::Kept(
                EdgeStream::add(ev, stream).expect("the loop stops accepting at its limit"),
            ),
        }
    }

    fn token(&self) -> Token {
        match self {
            Self::Kept(stream) => stream.token(),
            Self::ByHand(stream) => stream.token(),
        }
    }

    fn on_ready(&mut self, ready: Ready) {
        match self {
            Self::Kept(stream) => stream.on_ready(ready),
            Self::ByHand(stream) => stream.on_ready(ready),
        }
    }

    fn recv(&mut self, ev: &mut EventLoop<SimListener>, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kept(stream) => stream.recv(ev, buffer),
            Self::ByHand(stream) => stream.recv(ev, buffer),
        }
    }

    fn send(&mut self, ev: &mut EventLoop<SimListener>, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Kept(stream) => stream.send(ev, bytes),
            Self::ByHand(stream) => stream.send(ev, bytes),
        }
    }
}

impl App for Echo {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        match step {
            Step::Accepted(new) => self.accept(new.stream),
            Step::Ready(token, ready) => self.serve(token, ready),
            Step::Expired(token, _) => {
                self.counts.borrow_mut().expired += 1;
                self.end(token);
            }
            _ => {}
        }
    }

    fn on_turn_end(&mut self) {
        self.counts.borrow_mut().turns += 1;
    }

    fn is_done(&self) -> bool {
        self.ev.stats().shut_down
    }
}
