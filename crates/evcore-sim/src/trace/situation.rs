//! What holds at a time of a recording: it follows from the entries up to then.
//!
//! The simulation itself is not asked. So the same code describes any moment of a run, and a
//! recording that came from elsewhere.

use std::{fmt, net::SocketAddr};

use evcore::{Interest, Mode, Ready, Token};

use super::{
    event::{ClientWait, Detail, Event},
    recording::{Entry, Recording, Route},
};
use crate::{
    client_outcome::ClientOutcome,
    event_queue::Segment,
    kernel_poller::Object,
    net::{EndpointId, ListenerId, Owner},
};

/// The state of all connections, clients and processes after some entries.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    recording: &'a Recording,
    connections: Vec<Connection>,
    processes: Vec<Process>,
    /// By the slot of the client, which others have had before.
    clients: Vec<Client>,
    /// Number of clients that were ever added.
    added: u32,
    listeners: Vec<Option<SocketAddr>>,
}

/// A connection, and both of its ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    route: Option<Route>,
    opener: Holder,
    /// When something was last done with it, or arrived.
    last_ns: u64,
    /// How its client has ended.
    outcome: Option<ClientOutcome>,
    /// The end that connects, and the one that is accepted.
    ends: [End; 2],
}

/// One end of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct End {
    pub(crate) holder: Holder,
    pub(crate) is_closed: bool,
    pub(crate) watch: Option<Watch>,
    /// Bytes that have arrived and are unread.
    pub(crate) unread: usize,
    /// Bytes that are on their way to this end.
    pub(crate) in_flight: usize,
    capacity: usize,
    pub(crate) last_send: Option<Send>,
    /// Nothing more arrives.
    pub(crate) is_at_end: bool,
}

/// The last send of an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    at_ns: u64,
    count: usize,
    of: usize,
}

/// The registration of an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    pub(crate) key: u64,
    interest: Interest,
    /// Everything that the program was ever interested in.
    wanted: Interest,
    mode: Mode,
    last_report: Option<(u64, Ready)>,
}

/// The holder of an end, by a name that is not used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Holder {
    #[default]
    None,
    Backlog,
    Process(u32),
    Client(u32),
}

/// A process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    /// Its index among the workers.
    pub(crate) worker: Option<usize>,
    /// Number of its waits that have ended.
    pub(crate) turns: u64,
    pub(crate) activity: Activity,
}

/// What a process does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Activity {
    #[default]
    Runs,
    /// It waits in the kernel, at most until then.
    Sleeps(u64),
    Paused(u64),
    Dead,
    Exited,
}

/// A client.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    number: u32,
    wait: Option<ClientWait>,
    has_left: bool,
}

impl<'a> Situation<'a> {
    /// The state before the first entry.
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

    /// The state at the end of the run.
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

    /// Follows an entry.
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
                self.client_mut(slot);
                let number = self.added;
                self.added += 1;
                *self.client_mut(slot) = Client {
                    number,
                    ..Client::default()
                };
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
                    watch.wanted = watch.wanted | interest;
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
                let is_its = |it: &&mut Connection| {
                    it.ends
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
                end.unread += count as usize;
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

    /// The client in a slot. One from before the recording has the number of its slot.
    fn client_mut(&mut self, slot: u32) -> &mut Client {
        for number in (0..=slot).skip(self.clients.len()) {
            self.clients.push(Client {
                number,
                ..Client::default()
            });
        }
        self.added = self.added.max(slot);
        &mut self.clients[slot as usize]
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

    /// The connections that have an open end, by the end that connects.
    pub(crate) fn open_connections(&self) -> impl Iterator<Item = EndpointId> {
        let is_open = |end: &End| !end.is_closed && end.holder != Holder::None;
        (0..).zip(&self.connections).filter_map(move |(index, it)| {
            it.ends
                .iter()
                .any(is_open)
                .then(|| EndpointId::client(index))
        })
    }

    /// When something was last done with a connection, or arrived.
    pub(crate) fn last_activity(&self, id: EndpointId) -> u64 {
        let connection = self.connections.get(id.connection() as usize);
        connection.map_or(0, |it| it.last_ns)
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

    /// All processes, dead ones included.
    pub(crate) fn processes(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.processes).map(|(id, _)| id)
    }

    /// What a client with a script waits for, unless it has left.
    pub(crate) fn wait_of(&self, number: u32) -> Option<ClientWait> {
        let is_it = |client: &&Client| client.number == number && !client.has_left;
        self.clients.iter().find(is_it)?.wait
    }

    /// The connections that have ended, and how their clients have, by the end that connected.
    pub(crate) fn ended_connections(
        &self,
    ) -> impl Iterator<Item = (EndpointId, Option<ClientOutcome>)> {
        let is_over = |end: &End| end.is_closed || end.holder == Holder::None;
        let connections = (0..).zip(&self.connections);
        connections.filter_map(move |(index, it)| {
            let is_over = it.route.is_some() && it.ends.iter().all(is_over);
            is_over.then_some((EndpointId::client(index), it.outcome))
        })
    }

    /// Returns whether it is known yet which client or process has opened a connection.
    pub(crate) fn has_opener(&self, id: EndpointId) -> bool {
        let connection = self.connections.get(id.connection() as usize);
        connection.is_some_and(|it| it.opener != Holder::None)
    }

    /// The clients that have neither left nor an open connection.
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

    /// The number of the client in a slot.
    pub(crate) fn client_number(&self, slot: u32) -> u32 {
        let client = self.clients.get(slot as usize);
        client.map_or(slot, |client| client.number)
    }

    /// The name of a process, for people.
    pub(crate) fn process_name(&self, process: u32) -> String {
        match self.process(process).and_then(|it| it.worker) {
            Some(index) if index == process as usize => format!("worker {index}"),
            Some(index) => format!("worker {index} (process {process})"),
            None => format!("process {process}"),
        }
    }

    pub(crate) fn holder_name(&self, holder: Holder) -> String {
        match holder {
            Holder::None => "nobody".to_owned(),
            Holder::Backlog => "the backlog".to_owned(),
            Holder::Process(process) => self.process_name(process),
            Holder::Client(number) => format!("client {number}"),
        }
    }

    /// The name of the holder of an end.
    pub(crate) fn name_at(&self, id: EndpointId) -> String {
        self.holder_name(self.end(id).map_or(Holder::None, |end| end.holder))
    }

    pub(crate) fn listener_name(&self, listener: ListenerId) -> String {
        let address = self.listeners.get(listener.0 as usize).copied().flatten();
        address.map_or_else(|| listener.0.to_string(), |address| address.to_string())
    }

    /// A connection by its client and both addresses.
    pub(crate) fn connection_name(&self, id: EndpointId) -> String {
        let connection = self.connections.get(id.connection() as usize);
        let Some((connection, route)) = connection.and_then(|it| Some((it, it.route?))) else {
            return format!("connection {}", id.connection());
        };
        let opener = self.holder_name(connection.opener);
        if route.to.port() == 0 {
            return format!("{opener}, a pair of its own");
        }
        format!("{opener}, {} <- {}", route.to, route.from)
    }

    /// The state of one end in words, without its holder. Empty if there is nothing to say.
    pub(crate) fn end_state(&self, id: EndpointId) -> String {
        let (Some(end), Some(other)) = (self.end(id), self.end(id.other())) else {
            return String::new();
        };
        if end.is_closed {
            return "has closed".to_owned();
        }
        let mut facts = Vec::new();
        if let Holder::Client(number) = end.holder {
            facts.extend(self.wait_of(number).map(|wait| wait.to_string()));
        }
        if let Some(send) = end.last_send.filter(|send| send.count < send.of) {
            let unsent = bytes(send.of - send.count);
            facts.push(format!(
                "has {unsent} unsent since {} s",
                seconds(send.at_ns)
            ));
        }
        if end.unread > 0 {
            facts.push(format!("has {} unread", bytes(end.unread)));
        }
        if end.in_flight > 0 {
            facts.push(format!("{} are on their way to it", bytes(end.in_flight)));
        }
        if end.is_at_end {
            facts.push("the peer has ended its stream".to_owned());
        }
        match &end.watch {
            Some(watch) => facts.extend(watch.facts(end, other)),
            None if matches!(end.holder, Holder::Process(_)) => {
                facts.push("is not registered".to_owned());
            }
            None => {}
        }
        facts.join("; ")
    }

    /// The state of a process in words.
    pub(crate) fn process_state(&self, process: u32) -> String {
        let Some(process) = self.process(process) else {
            return String::new();
        };
        let turn = process.turns;
        match process.activity {
            Activity::Runs => format!("runs turn {turn}"),
            Activity::Sleeps(u64::MAX) => format!("waits after turn {turn}"),
            Activity::Sleeps(until_ns) => {
                format!(
                    "waits after turn {turn}, until {} s at most",
                    seconds(until_ns)
                )
            }
            Activity::Paused(until_ns) => {
                format!("is paused in turn {turn} until {} s", seconds(until_ns))
            }
            Activity::Dead => "is dead".to_owned(),
            Activity::Exited => "has exited".to_owned(),
        }
    }
}

impl Watch {
    /// The token of its key, or the key of a bare poller.
    pub(crate) fn name(&self) -> String {
        key_name(self.key)
    }

    fn facts(&self, end: &End, other: &End) -> Vec<String> {
        let mut facts = vec![format!(
            "is registered as {} for {}",
            self.name(),
            names(self.interest)
        )];
        let can_send = other
            .capacity
            .saturating_sub(other.unread + other.in_flight)
            >= other.capacity.div_ceil(3);
        let wants_to_send = end.last_send.is_some_and(|it| it.count < it.of);
        let is_masked = self.mode.is_edge() || self.mode == Mode::Oneshot;
        let sides = [
            ("READ", Interest::READ, end.unread > 0 || end.is_at_end),
            ("WRITE", Interest::WRITE, can_send && wants_to_send),
        ];
        for (side, interest, is_ready) in sides {
            if !is_ready || self.interest.contains(interest) {
                continue;
            }
            let why = match is_masked && self.wanted.contains(interest) {
                true => "not rearmed",
                false => "not watched",
            };
            facts.push(format!("{side} is {why}, and it is ready"));
        }
        match self.last_report {
            Some((at_ns, ready)) => facts.push(format!(
                "its last report was {} at {} s",
                names(ready),
                seconds(at_ns)
            )),
            None => facts.push("nothing was reported yet".to_owned()),
        }
        facts
    }
}

impl fmt::Display for ClientWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Pause => f.write_str("pauses"),
            Self::Room(count) => write!(f, "waits for room to send {}", bytes(count)),
            Self::Bytes(count) => write!(f, "waits for {}", bytes(count)),
            Self::Text(length, unread) => {
                write!(
                    f,
                    "waits for a text of {}, and has {}",
                    bytes(length),
                    bytes(unread)
                )
            }
            Self::End => f.write_str("waits for the end of the stream"),
        }
    }
}

/// The token of a key, or the key of a bare poller.
pub(crate) fn key_name(key: u64) -> String {
    Token::from_bits(key).map_or_else(|| format!("key {key}"), |token| token.to_string())
}

/// The names of a set of bits, from its `Debug`, joined by `|`.
pub(crate) fn names(set: impl fmt::Debug) -> String {
    let text = format!("{set:?}");
    match text.trim_matches(['{', '}']) {
        "" => "nothing".to_owned(),
        names => names.replace(", ", "|"),
    }
}

/// `1 byte`, `534,754 bytes`.
pub(crate) fn bytes(count: usize) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let unit = if count == 1 { "byte" } else { "bytes" };
    format!("{grouped} {unit}")
}

/// A time in seconds, without the zeros at its end.
pub(crate) fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn side(id: EndpointId) -> usize {
    usize::from(!id.is_client())
}

/// The element at an index, which may not exist yet.
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

    #[test]
    fn numbers_of_bytes_are_grouped_by_thousands() {
        for (count, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (999, "999 bytes"),
            (534_754, "534,754 bytes"),
            (1_000_000, "1,000,000 bytes"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn sets_of_bits_are_named_as_everywhere() {
        assert_eq!(
            names(Ready::READABLE | Ready::WRITABLE),
            "READABLE|WRITABLE"
        );
        assert_eq!(names(Ready::NONE), "nothing");
        assert_eq!(names(Interest::BOTH), "READ|WRITE");
    }

    #[test]
    fn a_key_is_the_token_of_the_loop() {
        assert_eq!(key_name(4_294_967_300), "4v1");
        assert_eq!(key_name(7), "key 7");
    }

    #[test]
    fn a_time_has_no_zeros_at_its_end() {
        assert_eq!(seconds(1_500_000_000), "1.5");
        assert_eq!(seconds(120_000_000_000), "120");
        assert_eq!(seconds(1), "0.000000001");
    }
}
