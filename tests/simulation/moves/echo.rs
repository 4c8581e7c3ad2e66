//! The server. It answers each request with the name of its client, and hands its connections over.
//!
//! The first line of a client is its name. Each further line is the length of a filling. The answer
//! has the name, the number of the request and the filling. If the workers have descriptor stores
//! (see `store`), each line has name, number and length, so that an idle connection has no state.

use std::{
    cell::Cell,
    io::{self, ErrorKind},
    rc::Rc,
    time::Duration,
};

use evcore::{Connections, EventLoop, Ready, Step, Token, balancer::WorkerId};
use evcore_prefork::Successor;
use evcore_sim::{App, Process, Sim, SimDescriptor, SimListener, SimStream};

use crate::{ADDRESS, Server, handover::Handover, leaving::Leaving, mailbox_ends::MailboxEnds};

pub(crate) const VERSION: u32 = 1;

const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of unsent bytes of a connection that moves.
const MOVING_BYTES_MAX: usize = 30_000;

pub(crate) fn answer(name: &str, asked: u64, length: usize) -> Vec<u8> {
    format!("{name} {asked} {}\n", ".".repeat(length)).into_bytes()
}

/// The mailboxes of all workers, which the workers' parent keeps. A mailbox is a channel by which
/// connections arrive.
pub(crate) struct ParentMailboxes {
    /// The two ends of each worker's own mailbox, for sending and for receiving.
    slots: Vec<(SimDescriptor, SimDescriptor)>,
    /// The ends of the mailboxes for successors. The workers with one index share one mailbox, in
    /// all generations.
    pub(crate) successors: Vec<(SimDescriptor, SimDescriptor)>,
}

impl ParentMailboxes {
    pub(crate) fn new(sim: &Sim, workers: usize, slots: usize) -> Self {
        let parent = sim.process();
        let pairs = |count| (0..count).map(|_| parent.channel_pair()).collect();
        Self {
            slots: pairs(slots),
            successors: pairs(workers),
        }
    }
}

pub(crate) struct WorkerMailboxes {
    process: Process,
    own: [SimDescriptor; 2],
    to_successor: SimDescriptor,
    to_slots: Vec<SimDescriptor>,
}

impl WorkerMailboxes {
    fn new(process: &Process, index: usize, server: &Server) -> Self {
        let ParentMailboxes { slots, successors } = &*server.mailboxes;
        let successor = &successors[index % server.workers];
        Self {
            process: process.clone(),
            own: [&slots[index], successor].map(|pair| process.inherit(&pair.1)),
            to_successor: process.inherit(&successor.0),
            to_slots: slots.iter().map(|pair| process.inherit(&pair.0)).collect(),
        }
    }
}

impl MailboxEnds for WorkerMailboxes {
    type Descriptor = SimDescriptor;

    fn own(&self) -> io::Result<Vec<SimDescriptor>> {
        let ends = self.own.iter();
        Ok(ends.map(|end| self.process.inherit(end)).collect())
    }

    fn to_successor(&self, _: Successor) -> &SimDescriptor {
        &self.to_successor
    }

    fn to_slot(&self, slot: usize) -> Option<&SimDescriptor> {
        self.to_slots.get(slot)
    }
}

pub(crate) struct EchoWorker {
    ev: EventLoop<SimListener>,
    handover: Handover<SimStream, WorkerMailboxes>,
    conns: Connections<Connection, SimStream>,
    /// True if the handover has reported a failure.
    has_given_up: Rc<Cell<bool>>,
    index: usize,
    server: Server,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Connection {
    name: String,
    asked: u64,
    input: Vec<u8>,
    output: Vec<u8>,
    is_at_eof: bool,
}

impl EchoWorker {
    pub(crate) fn new(process: &Process, index: usize, server: &Server) -> Self {
        let member = server.group.join(process, WorkerId::from_slot(index));
        let builder = process.builder().listener(process.listen(ADDRESS.into()));
        let mut ev = builder.group(member).build().expect("a valid loop");
        ev.listeners().set_rebalancing(server.rebalances);
        if server.keeps {
            let marks = server.slots[index].begin_worker(process);
            ev.listeners().set_idle_marks(marks);
        }
        let mailboxes = WorkerMailboxes::new(process, index, server);
        let has_given_up = Rc::new(Cell::new(false));
        let (sim, reported) = (process.sim().clone(), Rc::clone(&has_given_up));
        let report = move |why: &dyn std::fmt::Display| {
            sim.note(&why.to_string());
            reported.set(true);
        };
        let handover = Handover::new(&mut ev, VERSION, mailboxes, Box::new(report));
        let mut worker = Self {
            ev,
            handover: handover.expect("a worker has descriptors for its mailboxes"),
            conns: Connections::new(),
            has_given_up,
            index,
            server: server.clone(),
        };
        worker.begin_turn();
        worker
    }

    /// Begins the next turn as a `Worker` of evcore-serve does.
    fn begin_turn(&mut self) {
        let stop = self.server.stops[self.index].get();
        // The last generation has no successor.
        let has_successor = self.index + self.server.workers < self.server.stops.len();
        let successor = || has_successor.then_some(Successor::Generation);
        let timeout = self
            .handover
            .begin_turn(&mut self.ev, stop, successor, STOP_TIMEOUT);
        if let Some(timeout) = timeout {
            self.ev.shutdown(timeout);
        }
    }

    fn end_turn(&mut self) {
        let leaves = |token, conns: &mut Connections<Connection, _>| {
            let (_, conn) = conns.get(token)?;
            let (state, partner) = (conn.state()?, None);
            Some(Leaving { state, partner })
        };
        self.handover
            .hand_over(&mut self.ev, &mut self.conns, leaves);
        while let Some(arrival) = self.handover.next_arrival(&mut self.ev) {
            let totals = &self.server.totals;
            let count = match arrival.is_back {
                true => &totals.came_back,
                false => &totals.arrived,
            };
            count.set(count.get() + 1);
            let conn = Connection::from_state(&arrival.state);
            let (token, is_idle) = (arrival.stream.token(), conn == Connection::default());
            self.conns.insert(arrival.stream, conn);
            if is_idle {
                self.ev.set_idle(token);
            }
        }
        self.begin_turn();
    }

    fn evict(&mut self, token: Token) {
        let (stream, _) = self.conns.get(token).expect("a live token");
        if let (true, Ok(peer)) = (self.has_given_up.get(), stream.get_ref().peer_addr()) {
            let mut closed = self.server.totals.closed.borrow_mut();
            closed.insert(peer.to_string());
        }
        self.conns.close(&mut self.ev, token);
    }

    fn ready(&mut self, token: Token, ready: Ready) {
        let Some((stream, conn)) = self.conns.ready(token, ready) else {
            return;
        };
        match conn.progress(&mut self.ev, stream) {
            Ok(true) => _ = self.ev.set_idle(token),
            Ok(false) => _ = self.ev.set_busy(token),
            Err(_) => _ = self.conns.close(&mut self.ev, token),
        }
    }
}

impl App for EchoWorker {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        if self.handover.owns(&step) {
            return self.handover.handle(&mut self.ev, &step);
        }
        match step {
            Step::Accepted(new) => {
                let added = self
                    .conns
                    .add(&mut self.ev, new.stream, Connection::default());
                added.expect("there is room for every client");
            }
            Step::Ready(token, ready) => self.ready(token, ready),
            Step::Evict(token) => self.evict(token),
            Step::ShuttingDown => {}
            Step::Expired(..) | Step::Woken => {
                panic!("no timer is armed, and no handle wakes the loop")
            }
        }
    }

    fn on_turn_end(&mut self) {
        self.end_turn();
    }

    fn on_turn_abandoned(&mut self) {
        self.end_turn();
    }

    fn is_done(&self) -> bool {
        self.ev.stats().shut_down
    }
}

impl Connection {
    /// Answers the requests that have arrived. Returns whether the connection is idle. An error
    /// ends the connection.
    fn progress(
        &mut self,
        ev: &mut EventLoop<SimListener>,
        stream: &mut evcore::EdgeStream<SimStream>,
    ) -> io::Result<bool> {
        loop {
            while !self.output.is_empty() {
                match stream.send(ev, &self.output) {
                    Ok(sent) => drop(self.output.drain(..sent)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            if self.answer_line() {
                continue;
            }
            if self.is_at_eof {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let mut buffer = [0; 64];
            match stream.recv(ev, &mut buffer) {
                Ok(0) => self.is_at_eof = true,
                Ok(received) => self.input.extend(&buffer[..received]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(self.input.is_empty());
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn answer_line(&mut self) -> bool {
        let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else {
            return false;
        };
        let line: Vec<u8> = self.input.drain(..=end).collect();
        let line = String::from_utf8(line).expect("clients send text");
        let words: Vec<_> = line.split_whitespace().collect();
        if let [name, asked, length] = words[..] {
            let (asked, length) = (asked.parse().ok(), length.parse().ok());
            self.output = answer(name, asked.unwrap_or(0), length.unwrap_or(0));
        } else if self.name.is_empty() {
            line.trim_end().clone_into(&mut self.name);
        } else {
            // If a bug mixes up the states of connections, the rest of a line may not be a length.
            let length = line.trim_end().parse().unwrap_or_default();
            self.output = answer(&self.name, self.asked, length);
            self.asked += 1;
        }
        true
    }

    /// The state of a connection as bytes; `None` if the connection cannot move now.
    fn state(&self) -> Option<Vec<u8>> {
        if self.is_at_eof || self.output.len() > MOVING_BYTES_MAX {
            return None;
        }
        let (name, asked, input) = (&self.name, self.asked, self.input.len());
        let mut state = format!("{name},{asked},{input},").into_bytes();
        state.extend(&self.input);
        state.extend(&self.output);
        Some(state)
    }

    fn from_state(state: &[u8]) -> Self {
        if state.is_empty() {
            // The connection was idle, and its worker has died.
            return Self::default();
        }
        let mut parts = state.splitn(4, |byte| *byte == b',');
        let mut part = || parts.next().expect("a state has four parts");
        let text = |part: &[u8]| String::from_utf8(part.to_vec()).expect("a text");
        let (name, asked, input) = (text(part()), text(part()), text(part()));
        let (input, output) = part().split_at(input.parse().expect("a length"));
        Self {
            name,
            asked: asked.parse().expect("a number"),
            input: input.to_vec(),
            output: output.to_vec(),
            is_at_eof: false,
        }
    }
}
