//! A server to try the world on: it sends back what it receives, edge-triggered, and leaves those
//! who are silent for a minute.

use std::{cell::RefCell, io::ErrorKind, net::SocketAddr, rc::Rc, time::Duration};

use evcore::{
    Connections, EventLoop, Interest, Mode, Step, Timer, Token,
    balancer::{Policy, WorkerId},
};
use evcore_sim::{App, Process, SimGroup, SimListener, SimStream};

pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// What all workers of a test have counted, those who are dead too.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) begun: u32,
    pub(crate) accepted: u32,
    pub(crate) expired: u32,
    pub(crate) turns: u32,
}

#[derive(Debug)]
struct Conn {
    stream: SimStream,
    /// Received, and not yet sent back.
    owed: Vec<u8>,
    readable: bool,
    is_at_end: bool,
}

#[derive(Debug)]
pub(crate) struct Echo {
    pub(crate) ev: EventLoop<SimListener>,
    conns: Connections<Conn>,
    counts: Rc<RefCell<Counts>>,
}

pub(crate) fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7))
}

impl Echo {
    pub(crate) fn new(process: &Process, counts: &Rc<RefCell<Counts>>) -> Self {
        let builder = process.builder().listener(process.listen(address()));
        Self::on(builder, counts)
    }

    /// One of several workers that share an accept lock.
    pub(crate) fn with_lock(
        process: &Process,
        index: usize,
        group: &SimGroup,
        counts: &Rc<RefCell<Counts>>,
    ) -> Self {
        let builder = process.builder().listener(process.listen(address()));
        let lock = group.lock_handle(process, WorkerId::from_slot(index));
        Self::on(builder.policy(Policy::mutex()).group(lock), counts)
    }

    pub(crate) fn on(builder: evcore::Builder<SimListener>, counts: &Rc<RefCell<Counts>>) -> Self {
        counts.borrow_mut().begun += 1;
        Self {
            ev: builder.connections(64).build().expect("a loop"),
            conns: Connections::new(),
            counts: Rc::clone(counts),
        }
    }

    fn begin(&mut self, stream: SimStream) {
        self.counts.borrow_mut().accepted += 1;
        let conn = Conn {
            stream,
            owed: Vec::new(),
            readable: false,
            is_at_end: false,
        };
        let added = self.ev.add(&conn.stream, Interest::BOTH, Mode::Edge);
        let token = added.expect("the loop stops accepting before");
        self.conns.insert(token, conn);
        self.ev.arm(token, Timer::READ, IDLE);
    }

    fn serve(&mut self, token: Token) {
        let Some(conn) = self.conns.get_mut(token) else {
            return;
        };
        self.ev.arm(token, Timer::READ, IDLE);
        match conn.go_on() {
            Some(drained) => {
                self.ev.rearm(token, drained);
            }
            None => self.end(token),
        }
    }

    fn end(&mut self, token: Token) {
        self.conns.close(&mut self.ev, token);
    }
}

impl Conn {
    /// Does what can be done. Returns the sides that would block now; `None`: it is over.
    fn go_on(&mut self) -> Option<Interest> {
        let mut drained = Interest::NONE;
        let mut buffer = [0; 256];
        loop {
            if !self.owed.is_empty() {
                match self.stream.send(&self.owed) {
                    Ok(n) => drop(self.owed.drain(..n)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return Some(drained | Interest::WRITE);
                    }
                    Err(_) => return None,
                }
            } else if self.is_at_end {
                return None;
            } else if !self.readable {
                return Some(drained);
            } else {
                match self.stream.recv(&mut buffer) {
                    Ok(0) => self.is_at_end = true,
                    Ok(n) => self.owed.extend_from_slice(&buffer[..n]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.readable = false;
                        drained |= Interest::READ;
                    }
                    Err(_) => return None,
                }
            }
        }
    }
}

impl App for Echo {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn take(&mut self, step: Step<SimStream>) {
        match step {
            Step::Accepted(new) => self.begin(new.stream),
            Step::Ready(token, ready) => {
                if let Some(conn) = self.conns.get_mut(token) {
                    conn.readable |= ready.is_readable();
                }
                self.serve(token);
            }
            Step::Expired(token, _) => {
                self.counts.borrow_mut().expired += 1;
                self.end(token);
            }
            _ => {}
        }
    }

    fn turn_over(&mut self) {
        self.counts.borrow_mut().turns += 1;
    }

    fn is_done(&self) -> bool {
        self.ev.is_done()
    }
}
