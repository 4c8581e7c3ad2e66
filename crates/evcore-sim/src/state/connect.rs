//! Connecting and accepting.

use std::{io, net::SocketAddr, time::Duration};

use evcore::net::{Accept, Resource};

use super::{State, delivery::DELAY_MAX};
use crate::{
    event_queue::{ConnectFailure, Segment, SimEvent},
    faults::Fault,
    kernel_poller::{ANY_CHANGE, Object},
    net::{EndpointId, Family, ListenerId, Owner},
    rng::whole_ns,
    trace::{Detail, Event, Subject},
};

/// Maximum number of attempts to connect to a full backlog. (Linux makes one more than
/// `tcp_syn_retries`, so this is the behaviour for a value of 5.)
const MAX_ATTEMPTS: u8 = 6;

/// The time after which a connect that gets no answer fails. It is the time of the last attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(31);

/// The pause before the second attempt. It doubles for each further attempt.
const FIRST_RETRY: Duration = Duration::from_secs(1);

impl State {
    /// Opens a descriptor of the shared listener at an address, or of a new `reuseport` one.
    pub(crate) fn listen(&mut self, process: u32, address: SocketAddr, reuseport: bool) -> i32 {
        let listeners = &mut self.net.listeners;
        let id = if reuseport {
            listeners.reuseport(address)
        } else {
            listeners.shared(address)
        };
        listeners.socket_mut(id).descriptors += 1;
        if let Some(recording) = self.trace.recording_mut() {
            let (listener, address) = (id, recording.add_address(address));
            self.detail(|| Detail::Bound { listener, address });
        }
        let listener = id;
        self.note(Event::Listened { process, listener });
        let descriptors = &mut self.processes[process as usize].descriptors;
        descriptors.insert(Object::Listener(id))
    }

    pub(crate) fn connect(&mut self, client: u32, to: SocketAddr) -> EndpointId {
        let id = self.new_connection(to);
        self.set_owner(id, Owner::Client(client));
        self.net.endpoint_mut(id).begin_connecting();
        let after_ns = self.latency_ns(id);
        self.schedule_after(after_ns, SimEvent::Connect(id.other(), 1));
        id
    }

    /// Begins to connect a process. If connecting fails at once, the error has the name of the
    /// system call that would have failed.
    pub(crate) fn connect_process(
        &mut self,
        process: u32,
        to: SocketAddr,
    ) -> Result<(EndpointId, i32), (&'static str, io::Error)> {
        let has_room = self.check_free_descriptors(process, 1);
        has_room.map_err(|error| ("socket", error))?;
        if self.draw_fault(Fault::NoLocalPort, Subject::Process(process)) {
            return Err(("connect", io::ErrorKind::AddrNotAvailable.into()));
        }
        let failure = self.draw_connect_failure(process);
        if self.draw_fault(Fault::ImmediateConnect, Subject::Process(process)) {
            let connected = match failure {
                Some(ConnectFailure::TimedOut) => Ok(None),
                Some(failure) => Err(failure.kind().into()),
                None => self.choose_listener(to),
            };
            if let Some(listener) = connected.map_err(|error| ("connect", error))? {
                return Ok(self.connect_to(listener, process, to));
            }
        }
        let id = self.new_connection(to);
        let fd = self.hold(id, process);
        self.net.endpoint_mut(id).begin_connecting();
        self.request_connection(id, failure);
        Ok((id, fd))
    }

    pub(super) fn check_free_descriptors(&self, process: u32, count: usize) -> io::Result<()> {
        const EMFILE: i32 = 24; // on every Unix
        let caller = &self.processes[process as usize];
        if caller.is_dead || caller.descriptors.open() + count > self.config.max_descriptors {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        Ok(())
    }

    fn draw_connect_failure(&mut self, process: u32) -> Option<ConnectFailure> {
        if self.draw_fault(Fault::ConnectTimeout, Subject::Process(process)) {
            return Some(ConnectFailure::TimedOut);
        }
        if !self.draw_fault(Fault::ConnectRefused, Subject::Process(process)) {
            return None;
        }
        let failures = [ConnectFailure::Refused, ConnectFailure::Unreachable];
        Some(failures[self.rng.index(failures.len())])
    }

    /// Sends the connection request of a process. With a `failure`, connecting fails in this way.
    fn request_connection(&mut self, id: EndpointId, failure: Option<ConnectFailure>) {
        let server = id.other();
        let mut after_ns = self.latency_ns(server);
        if self.draw_fault(Fault::Delay, Subject::End(id)) {
            after_ns += self.random_up_to(DELAY_MAX);
        }
        match failure {
            None => self.schedule_after(after_ns, SimEvent::Connect(server, 1)),
            Some(failure) => {
                let after_ns = match failure {
                    ConnectFailure::TimedOut => whole_ns(CONNECT_TIMEOUT),
                    _ => after_ns + self.latency_ns(id),
                };
                self.schedule_after(after_ns, SimEvent::ConnectFails(server, failure));
            }
        }
    }

    pub(crate) fn connect_now(
        &mut self,
        process: u32,
        to: SocketAddr,
    ) -> io::Result<(EndpointId, i32)> {
        let Some(listener) = self.choose_listener(to)? else {
            return Err(io::ErrorKind::TimedOut.into());
        };
        Ok(self.connect_to(listener, process, to))
    }

    fn connect_to(
        &mut self,
        listener: ListenerId,
        process: u32,
        to: SocketAddr,
    ) -> (EndpointId, i32) {
        let id = self.new_connection(to);
        let fd = self.hold(id, process);
        self.enqueue(listener, id.other());
        (id, fd)
    }

    fn new_connection(&mut self, to: SocketAddr) -> EndpointId {
        let capacity = self.config.socket_buffer;
        let connection = self.open(Family::Tcp, capacity, to);
        // While an end has an owner, the index of the connection is not reused.
        self.set_owner(EndpointId::server(connection), Owner::Backlog);
        EndpointId::client(connection)
    }

    fn open(&mut self, family: Family, capacity: usize, to: SocketAddr) -> u32 {
        let connection = self.net.connect(family, capacity, to);
        if let Some(recording) = self.trace.recording_mut() {
            let from = self.net.route(EndpointId::client(connection)).from;
            let route = recording.add_route(from, to);
            self.detail(|| Detail::Opened {
                connection,
                route,
                capacity,
            });
        }
        connection
    }

    pub(crate) fn attempt_connect(&mut self, server: EndpointId, attempt: u8) {
        self.note(Event::ConnectArrived { server, attempt });
        let to = self.net.route(server).to;
        let client = server.other();
        match self.choose_listener(to) {
            _ if self.has_given_up(client) => self.discard(server),
            Ok(Some(listener)) => {
                self.enqueue(listener, server);
                let after_ns = self.latency_ns(client);
                self.transmit(client, Segment::Connected, after_ns);
            }
            Ok(None) if attempt < MAX_ATTEMPTS => {
                let after_ns = whole_ns(FIRST_RETRY * (1 << (attempt - 1)));
                self.schedule_after(after_ns, SimEvent::Connect(server, attempt + 1));
            }
            Ok(None) => self.fail_connect(server, ConnectFailure::TimedOut),
            Err(_) => self.refuse(server),
        }
    }

    /// Returns whether a client has closed its end while it was connecting, or has shut it down.
    fn has_given_up(&self, client: EndpointId) -> bool {
        let endpoint = self.net.endpoint(client);
        !endpoint.is_open() || endpoint.is_disconnected()
    }

    /// Chooses a random listener at an address, as the kernel does by a hash. Returns `None` if the
    /// listener's backlog is full.
    fn choose_listener(&mut self, to: SocketAddr) -> io::Result<Option<ListenerId>> {
        let listeners: Vec<_> = self.net.listeners.at(to).collect();
        if listeners.is_empty() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let listener = listeners[self.rng.index(listeners.len())];
        let waiting = self.net.listeners.socket(listener).queue.len();
        Ok((waiting < self.config.backlog).then_some(listener))
    }

    fn enqueue(&mut self, listener: ListenerId, server: EndpointId) {
        let socket = self.net.listeners.socket_mut(listener);
        socket.queue.push_back(server);
        self.notify_listener_watchers(listener);
    }

    /// Rejects a connection request. A process gets the answer after the latency, and a client at
    /// once.
    fn refuse(&mut self, server: EndpointId) {
        let client = server.other();
        let after_ns = match self.net.endpoint(client).owner {
            Owner::Process(..) => self.latency_ns(client),
            _ => 0,
        };
        let failure = SimEvent::ConnectFails(server, ConnectFailure::Refused);
        if after_ns == 0 {
            return self.apply(failure);
        }
        self.schedule_after(after_ns, failure);
    }

    /// Makes connecting fail. The server endpoint had an owner until now, so the index of the
    /// connection was not reused.
    pub(crate) fn fail_connect(&mut self, server: EndpointId, failure: ConnectFailure) {
        self.note(Event::ConnectFailed { server, failure });
        let client = server.other();
        match self.net.endpoint(client).owner {
            Owner::Client(slot) => {
                self.connect_failed(slot);
                self.net.endpoint_mut(client).close();
            }
            _ if self.has_given_up(client) => {}
            _ => {
                let endpoint = self.net.endpoint_mut(client);
                endpoint.on_connect_failed(failure.kind());
                self.notify_watchers(client, ANY_CHANGE);
            }
        }
        self.discard(server);
    }

    fn discard(&mut self, server: EndpointId) {
        self.net.endpoint_mut(server).close();
        self.net.release_if_closed(server);
    }

    pub(crate) fn accept(
        &mut self,
        process: u32,
        listener: ListenerId,
    ) -> Accept<(EndpointId, i32)> {
        // Linux reserves a descriptor before it looks for a connection.
        let open = self.processes[process as usize].descriptors.open();
        if open >= self.config.max_descriptors {
            return Accept::Exhausted(Resource::Process);
        }
        let Some(server) = self.net.listeners.socket(listener).queue.front().copied() else {
            return Accept::WouldBlock;
        };
        if self.draw_fault(Fault::Exhausted, Subject::Process(process)) {
            return Accept::Exhausted(Resource::System);
        }
        self.net.listeners.socket_mut(listener).queue.pop_front();
        if self.draw_fault(Fault::Abort, Subject::End(server.other())) {
            self.mark_lost_to_fault(server);
            self.reset(server);
            return Accept::Aborted;
        }
        let fd = self.hold(server, process);
        self.note(Event::Accepted { process, server });
        Accept::Connection((server, fd), self.net.route(server).from.into())
    }

    pub(crate) fn close_listener(&mut self, listener: ListenerId) {
        let socket = self.net.listeners.socket_mut(listener);
        socket.descriptors -= 1;
        if socket.is_open() {
            return;
        }
        for server in std::mem::take(&mut socket.queue) {
            self.reset(server);
        }
    }

    pub(crate) fn pair(&mut self, process: u32, family: Family) -> [(EndpointId, i32); 2] {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let capacity = self.config.socket_buffer;
        let connection = self.open(family, capacity, nowhere);
        let ids = [
            EndpointId::client(connection),
            EndpointId::server(connection),
        ];
        ids.map(|id| (id, self.hold(id, process)))
    }

    pub(crate) fn backlog_len(&self, address: SocketAddr) -> usize {
        let listeners = &self.net.listeners;
        listeners
            .at(address)
            .map(|id| listeners.socket(id).queue.len())
            .sum()
    }
}

impl ConnectFailure {
    fn kind(self) -> io::ErrorKind {
        match self {
            Self::Refused => io::ErrorKind::ConnectionRefused,
            Self::Unreachable => io::ErrorKind::HostUnreachable,
            Self::TimedOut => io::ErrorKind::TimedOut,
        }
    }
}
