//! The state of processes, clients and connections at a moment of a recording. It follows from the
//! entries up to that moment alone, so the state at any moment of a run can be described.

use std::net::SocketAddr;

use evcore::{Interest, Mode, Ready};

use super::{
    event::{ClientWait, Detail, Event},
    recording::{Entry, Recording, Route},
};
use crate::{
    client_outcome::ClientOutcome,
    event_queue::Segment,
    kernel_poller::Object,
    net::{EndpointId, Owner},
};

#[derive(Debug)]
pub(crate) struct Situation<'a> {
    recording: &'a Recording,
    pub(super) connections: Vec<Connection>,
    processes: Vec<Process>,
    /// The clients, by slot. Earlier clients may have had the same slots.
    pub(super) clients: Vec<Client>,
    added: u32,
    pub(super) listeners: Vec<Option<SocketAddr>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    pub(super) route: Option<Route>,
    pub(super) opener: Holder,
    /// The time of the last call or arrival.
    last_ns: u64,
    outcome: Option<ClientOutcome>,
    /// The end that connects, and the one that is accepted.
    ends: [End; 2],
}

#[derive(Clone, Debug, Default)]
pub(crate) struct End {
    pub(crate) holder: Holder,
    pub(crate) is_closed: bool,
    pub(crate) watch: Option<Watch>,
    pub(crate) unread: usize,
    pub(crate) in_flight: usize,
    pub(super) capacity: usize,
    pub(crate) last_send: Option<Send>,
    /// True if no more bytes can arrive.
    pub(crate) is_at_end: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    pub(super) at_ns: u64,
    pub(super) count: usize,
    pub(super) of: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    pub(crate) key: u64,
    pub(super) interest: Interest,
    /// All interests that the program has ever registered.
    pub(super) wanted: Interest,
    pub(super) mode: Mode,
    pub(super) last_report: Option<(u64, Ready)>,
}

/// The holder of an end, by a number that is not reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Holder {
    #[default]
    None,
    Backlog,
    Process(u32),
    Client(u32),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    /// The index among the workers.
    pub(crate) worker: Option<usize>,
    /// Number of waits that have ended.
    pub(crate) turns: u64,
    pub(crate) activity: Activity,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Activity {
    #[default]
    Runs,
    /// The process waits in the kernel, at most until this time.
    Sleeps(u64),
    Paused(u64),
    Dead,
    Exited,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Client {
    pub(super) number: u32,
    wait: Option<ClientWait>,
    has_left: bool,
}

impl<'a> Situation<'a> {
    pub(crate) fn before(recording: &'a Recording) -> Self {
        Self {
            recording,
            connections: Vec::new(),
            processes: Vec::new(),
            clients: Vec::new(),
            added: 0,
            listeners: Vec::new(),
        }
    }

    pub(crate) fn at_end(recording: &'a Recording) -> Self {
        let mut situation = Self::before(recording);
        for (now_ns, entry) in recording.entries_of_run() {
            situation.apply(*now_ns, *entry);
        }
        situation
    }

    pub(crate) fn recording(&self) -> &'a Recording {
        self.recording
    }

    pub(crate) fn apply(&mut self, now_ns: u64, entry: Entry) {
        match entry {
            Entry::Event(event) => self.on_event(now_ns, event),
            Entry::Detail(detail) => self.on_detail(now_ns, detail),
            Entry::Text(..) => {}
        }
    }

    fn on_event(&mut self, now_ns: u64, event: Event) {
        match event {
            Event::Sent { from, count, of } => {
                let at_ns = now_ns;
                self.touch(now_ns, from);
                self.end_mut(from).last_send = Some(Send { at_ns, count, of });
            }
            Event::Received { at, count } => {
                self.touch(now_ns, at);
                let end = self.end_mut(at);
                end.unread = end.unread.saturating_sub(count);
            }
            Event::Arrived { at, segment } => {
                self.touch(now_ns, at);
                self.on_arrival(at, segment);
            }
            Event::Accepted { process, server } => {
                self.end_mut(server).holder = Holder::Process(process);
            }
            Event::Closed(id) | Event::ResetBy(id) => self.close(id),
            Event::ConnectFailed { server, .. } => {
                self.close(server);
                self.close(server.other());
            }
            Event::Reported {
                object: Object::Endpoint(id),
                ready,
                ..
            } => {
                if let Some(watch) = &mut self.end_mut(id).watch {
                    watch.last_report = Some((now_ns, ready));
                }
            }
            Event::WaitEnded { process, .. } => {
                let process = self.process_mut(process);
                process.turns += 1;
                process.activity = Activity::Runs;
            }
            Event::Killed(process) => self.process_mut(process).activity = Activity::Dead,
            Event::Exited(process) => self.process_mut(process).activity = Activity::Exited,
            Event::ClientAdded(slot) => {
                self.fill_clients(slot);
                let client = Client {
                    number: self.added,
                    ..Client::default()
                };
                self.added += 1;
                match self.clients.get_mut(slot as usize) {
                    Some(earlier) => *earlier = client,
                    None => self.clients.push(client),
                }
            }
            _ => {}
        }
    }

    fn on_detail(&mut self, now_ns: u64, detail: Detail) {
        match detail {
            Detail::Opened {
                connection,
                route,
                capacity,
            } => {
                let end = End {
                    capacity,
                    ..End::default()
                };
                *slot_mut(&mut self.connections, connection) = Connection {
                    route: Some(self.recording.route(route)),
                    opener: Holder::None,
                    last_ns: now_ns,
                    outcome: None,
                    ends: [end.clone(), end],
                };
            }
            Detail::Held { end, by } => self.hold(end, by),
            Detail::Bound { listener, address } => {
                let address = self.recording.address(address);
                *slot_mut(&mut self.listeners, listener.0) = Some(address);
            }
            Detail::IsWorker { process, index } => self.process_mut(process).worker = Some(index),
            Detail::Watched {
                key,
                object: Object::Endpoint(id),
                interest,
                mode,
                ..
            } => {
                self.end_mut(id).watch = Some(Watch {
                    key,
                    interest,
                    wanted: interest,
                    mode,
                    last_report: None,
                });
            }
            Detail::Rewatched {
                object: Object::Endpoint(id),
                interest,
                ..
            } => {
                if let Some(watch) = &mut self.end_mut(id).watch {
                    watch.interest = interest;
                    watch.wanted |= interest;
                }
            }
            Detail::Sleeps { process, until_ns } => {
                self.process_mut(process).activity = Activity::Sleeps(until_ns);
            }
            Detail::Paused { process, until_ns } => {
                self.process_mut(process).activity = Activity::Paused(until_ns);
            }
            Detail::StepBegan { process, .. } => {
                // A pause is over when the next step begins.
                self.process_mut(process).activity = Activity::Runs;
            }
            Detail::WouldBlock {
                end,
                sends: true,
                of,
            } => {
                let (at_ns, count) = (now_ns, 0);
                self.end_mut(end).last_send = Some(Send { at_ns, count, of });
            }
            Detail::Departed {
                to,
                segment: Segment::Data(count),
            } => self.end_mut(to).in_flight += count as usize,
            Detail::Waits { client, wait } => {
                self.client_mut(client).wait = Some(wait);
            }
            Detail::Ended { client, outcome } => {
                let holder = Holder::Client(self.client_number(client));
                let is_its = |connection: &&mut Connection| {
                    connection
                        .ends
                        .iter()
                        .any(|end| end.holder == holder && !end.is_closed)
                };
                if let Some(connection) = self.connections.iter_mut().find(is_its) {
                    connection.outcome = Some(outcome);
                }
            }
            Detail::Left { client } => self.client_mut(client).has_left = true,
            _ => {}
        }
    }

    fn on_arrival(&mut self, at: EndpointId, segment: Segment) {
        let end = self.end_mut(at);
        match segment {
            Segment::Data(count) => {
                end.in_flight = end.in_flight.saturating_sub(count as usize);
                if !end.is_at_end {
                    end.unread += count as usize;
                }
            }
            Segment::Fin | Segment::Reset | Segment::HangUp(_) => end.is_at_end = true,
            Segment::WindowUpdate | Segment::Connected => {}
        }
    }

    fn hold(&mut self, id: EndpointId, by: Owner) {
        let holder = match by {
            Owner::None => Holder::None,
            Owner::Backlog => Holder::Backlog,
            Owner::Process(process, _) => Holder::Process(process),
            Owner::Client(slot) => Holder::Client(self.client_mut(slot).number),
        };
        let connection = slot_mut(&mut self.connections, id.connection());
        connection.ends[side(id)].holder = holder;
        if id.is_client() {
            connection.opener = holder;
        }
    }

    fn close(&mut self, id: EndpointId) {
        let end = self.end_mut(id);
        (end.is_closed, end.watch) = (true, None);
    }

    fn touch(&mut self, now_ns: u64, id: EndpointId) {
        slot_mut(&mut self.connections, id.connection()).last_ns = now_ns;
    }

    fn end_mut(&mut self, id: EndpointId) -> &mut End {
        &mut slot_mut(&mut self.connections, id.connection()).ends[side(id)]
    }

    /// The client in a slot.
    fn client_mut(&mut self, slot: u32) -> &mut Client {
        self.fill_clients(slot + 1);
        &mut self.clients[slot as usize]
    }

    /// Makes the clients of the first `slots` slots, if they were added before the recording began.
    /// Each gets the number of its slot or, if another client may have that number, the next one.
    fn fill_clients(&mut self, slots: u32) {
        for slot in (0..slots).skip(self.clients.len()) {
            let number = slot.max(self.added);
            self.clients.push(Client {
                number,
                ..Client::default()
            });
            self.added = number + 1;
        }
    }

    fn process_mut(&mut self, process: u32) -> &mut Process {
        slot_mut(&mut self.processes, process)
    }

    pub(crate) fn end(&self, id: EndpointId) -> Option<&End> {
        Some(&self.connections.get(id.connection() as usize)?.ends[side(id)])
    }

    pub(crate) fn process(&self, process: u32) -> Option<&Process> {
        self.processes.get(process as usize)
    }

    /// The connections that have an open end. Each is identified by the end that connects.
    pub(crate) fn open_connections(&self) -> impl Iterator<Item = EndpointId> {
        let is_open = |end: &End| !end.is_closed && end.holder != Holder::None;
        let connections = (0..).zip(&self.connections);
        connections
            .filter(move |(_, connection)| connection.ends.iter().any(is_open))
            .map(|(index, _)| EndpointId::client(index))
    }

    pub(crate) fn last_activity(&self, id: EndpointId) -> u64 {
        let connection = self.connections.get(id.connection() as usize);
        connection.map_or(0, |connection| connection.last_ns)
    }

    pub(crate) fn is_in_backlog(&self, id: EndpointId) -> bool {
        let is_waiting = |end: &End| end.holder == Holder::Backlog && !end.is_closed;
        self.end(id).is_some_and(is_waiting) || self.end(id.other()).is_some_and(is_waiting)
    }

    /// Returns whether the client of a connection waits for the server.
    pub(crate) fn has_waiting_client(&self, id: EndpointId) -> bool {
        let holder = self.end(id).map_or(Holder::None, |end| end.holder);
        let Holder::Client(number) = holder else {
            return false;
        };
        self.wait_of(number)
            .is_some_and(|wait| wait != ClientWait::Pause)
    }

    pub(crate) fn processes(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.processes).map(|(id, _)| id)
    }

    /// The wait of a client with a script, unless it has left.
    pub(crate) fn wait_of(&self, number: u32) -> Option<ClientWait> {
        let is_it = |client: &&Client| client.number == number && !client.has_left;
        self.clients.iter().find(is_it)?.wait
    }

    /// The connections that have ended, with the outcomes of their clients. Each is identified by
    /// the end that connected.
    pub(crate) fn ended_connections(
        &self,
    ) -> impl Iterator<Item = (EndpointId, Option<ClientOutcome>)> {
        let is_over = |end: &End| end.is_closed || end.holder == Holder::None;
        let connections = (0..).zip(&self.connections);
        connections.filter_map(move |(index, connection)| {
            let is_over = connection.route.is_some() && connection.ends.iter().all(is_over);
            is_over.then_some((EndpointId::client(index), connection.outcome))
        })
    }

    pub(crate) fn has_opener(&self, id: EndpointId) -> bool {
        let connection = self.connections.get(id.connection() as usize);
        connection.is_some_and(|connection| connection.opener != Holder::None)
    }

    /// The clients that have not left and have no open connection.
    pub(crate) fn unconnected_clients(&self) -> impl Iterator<Item = u32> {
        let clients = self.clients.iter().filter(|client| !client.has_left);
        clients.map(|client| client.number).filter(|number| {
            let is_held = |id: EndpointId| {
                let end = self.end(id).expect("its connection is open");
                end.holder == Holder::Client(*number) && !end.is_closed
            };
            !self.open_connections().any(is_held)
        })
    }
}

fn side(id: EndpointId) -> usize {
    usize::from(!id.is_client())
}

/// The element at an index. Creates the element if it does not exist yet.
fn slot_mut<T: Clone + Default>(list: &mut Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if list.len() <= index {
        list.resize(index + 1, T::default());
    }
    &mut list[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers_after(slots: &[(bool, u32)]) -> Vec<u32> {
        let mut recording = Recording::default();
        for (is_added, slot) in slots {
            let entry = match is_added {
                true => Entry::Event(Event::ClientAdded(*slot)),
                false => Entry::Detail(Detail::Left { client: *slot }),
            };
            recording.push(0, entry);
        }
        let clients = Situation::at_end(&recording).clients;
        clients.iter().map(|client| client.number).collect()
    }

    #[test]
    fn clients_have_different_numbers_whenever_the_recording_begins() {
        let whole = [(true, 0), (true, 1), (true, 0), (true, 2)];
        assert_eq!(numbers_after(&whole), [2, 1, 3]);
        let late = [(false, 4), (true, 2), (true, 5)];
        assert_eq!(numbers_after(&late), [0, 1, 5, 3, 4, 6]);
        let silent = [(true, 0), (true, 0), (false, 1)];
        assert_eq!(numbers_after(&silent), [1, 2]);
    }
}
