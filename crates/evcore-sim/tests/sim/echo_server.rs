//! An edge-triggered echo server with an idle timeout, for the tests of the simulator.

use std::{cell::RefCell, io::ErrorKind, net::SocketAddr, rc::Rc, time::Duration};

use evcore::{Connections, EventLoop, Interest, Mode, Step, Timer, Token, balancer::WorkerId};
use evcore_sim::{App, Process, SimGroup, SimListener, SimStream};

pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// The counters of all workers of a test, dead ones included.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) started: u32,
    pub(crate) accepted: u32,
    pub(crate) expired: u32,
    pub(crate) turns: u32,
}

#[derive(Debug)]
struct Conn {
    stream: SimStream,
    /// Received and not yet sent back.
    unsent: Vec<u8>,
    readable: bool,
    is_at_eof: bool,
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

    /// A worker that shares an accept lock with others.
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

    pub(crate) fn on(builder: evcore::Builder<SimListener>, counts: &Rc<RefCell<Counts>>) -> Self {
        counts.borrow_mut().started += 1;
        Self {
            ev: builder.connections(64).build().expect("a loop"),
            conns: Connections::new(),
            counts: Rc::clone(counts),
        }
    }

    fn accept(&mut self, stream: SimStream) {
        self.counts.borrow_mut().accepted += 1;
        let conn = Conn {
            stream,
            unsent: Vec::new(),
            readable: false,
            is_at_eof: false,
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
        match conn.progress() {
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
    /// Reads and sends as much as possible. Returns the sides that would block, or `None` if the
    /// connection is over.
    fn progress(&mut self) -> Option<Interest> {
        let mut drained = Interest::NONE;
        let mut buffer = [0; 256];
        loop {
            if !self.unsent.is_empty() {
                match self.stream.send(&self.unsent) {
                    Ok(n) => drop(self.unsent.drain(..n)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return Some(drained | Interest::WRITE);
                    }
                    Err(_) => return None,
                }
            } else if self.is_at_eof {
                return None;
            } else if !self.readable {
                return Some(drained);
            } else {
                match self.stream.recv(&mut buffer) {
                    Ok(0) => self.is_at_eof = true,
                    Ok(n) => self.unsent.extend_from_slice(&buffer[..n]),
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

    fn on_step(&mut self, step: Step<SimStream>) {
        match step {
            Step::Accepted(new) => self.accept(new.stream),
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

    fn on_turn_end(&mut self) {
        self.counts.borrow_mut().turns += 1;
    }

    fn is_done(&self) -> bool {
        self.ev.is_shut_down()
    }
}
