//! Connecting and accepting.

use std::{io, net::SocketAddr, time::Duration};

use evcore::accept::{Accept, Resource};

use super::State;
use crate::{
    Fault,
    event_queue::SimEvent,
    kernel_poller::Object,
    net::{EndpointId, Family, ListenerId, Owner},
    rng::whole_ns,
    trace::TraceKind,
};

/// How often a client tries to connect to a full backlog (Linux: `tcp_syn_retries`, 6).
const MAX_ATTEMPTS: u8 = 6;

/// The pause before the second attempt. It doubles for each further one.
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
        self.note(TraceKind::Listen, u64::from(process), u64::from(id.0));
        let descriptors = &mut self.processes[process as usize].descriptors;
        descriptors.insert(Object::Listener(id))
    }

    /// Sends the connection request of a client.
    pub(crate) fn connect(&mut self, client: u32, to: SocketAddr) -> EndpointId {
        let id = self.new_connection(to);
        self.net.endpoint_mut(id).owner = Owner::Client(client);
        let after_ns = self.latency_ns(id);
        self.schedule_after(after_ns, SimEvent::Connect(id.other(), 1));
        id
    }

    /// Connects a process at once.
    pub(crate) fn connect_now(
        &mut self,
        process: u32,
        to: SocketAddr,
    ) -> io::Result<(EndpointId, i32)> {
        let Some(listener) = self.choose_listener(to)? else {
            return Err(io::ErrorKind::TimedOut.into());
        };
        let id = self.new_connection(to);
        let fd = self.hold(id, process);
        self.enqueue(listener, id.other());
        Ok((id, fd))
    }

    fn new_connection(&mut self, to: SocketAddr) -> EndpointId {
        let capacity = self.config.socket_buffer;
        let connection = self.net.connect(Family::Tcp, capacity, to);
        // With an owner at both ends, the index is not reused.
        self.net.endpoint_mut(EndpointId::server(connection)).owner = Owner::Backlog;
        EndpointId::client(connection)
    }

    /// A connection request has arrived at the server.
    pub(crate) fn attempt_connect(&mut self, server: EndpointId, attempt: u8) {
        self.note(TraceKind::Connect, server.number(), u64::from(attempt));
        let to = self.net.route(server).to;
        match self.choose_listener(to) {
            _ if !self.net.endpoint(server.other()).is_open() => self.discard(server),
            Ok(Some(listener)) => {
                self.enqueue(listener, server);
                let client = server.other();
                let after_ns = self.latency_ns(client);
                // It counts as in flight, so that the index is not reused meanwhile.
                self.net.endpoint_mut(client).segments_in_flight += 1;
                self.schedule_after(after_ns, SimEvent::Connected(client));
            }
            Ok(None) if attempt < MAX_ATTEMPTS => {
                let after_ns = whole_ns(FIRST_RETRY * (1 << (attempt - 1)));
                self.schedule_after(after_ns, SimEvent::Connect(server, attempt + 1));
            }
            Ok(None) | Err(_) => self.refuse(server),
        }
    }

    /// A random listener at an address, as by the kernel's hash. `None` if its backlog is full.
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

    /// Rejects a connection request.
    fn refuse(&mut self, server: EndpointId) {
        self.note(TraceKind::Refuse, server.number(), 0);
        let client = server.other();
        if let Owner::Client(client) = self.net.endpoint(client).owner {
            self.connect_failed(client);
        }
        self.net.endpoint_mut(client).close();
        self.discard(server);
    }

    fn discard(&mut self, server: EndpointId) {
        self.net.endpoint_mut(server).close();
        self.net.release_if_closed(server);
    }

    /// Accepts the oldest connection of a listener into a process.
    pub(crate) fn accept(
        &mut self,
        process: u32,
        listener: ListenerId,
    ) -> Accept<(EndpointId, i32)> {
        let Some(server) = self.net.listeners.socket(listener).queue.front().copied() else {
            return Accept::WouldBlock;
        };
        let open = self.processes[process as usize].descriptors.open();
        if open >= self.config.max_descriptors {
            return Accept::Exhausted(Resource::Process);
        }
        if self.draw_fault(Fault::Exhausted) {
            return Accept::Exhausted(Resource::System);
        }
        self.net.listeners.socket_mut(listener).queue.pop_front();
        if self.draw_fault(Fault::Abort) {
            self.reset(server);
            return Accept::Aborted;
        }
        let fd = self.hold(server, process);
        self.note(TraceKind::Accept, u64::from(process), server.number());
        Accept::Connection((server, fd), self.net.route(server).from.into())
    }

    /// A process closes its descriptor of a listener.
    pub(crate) fn close_listener(&mut self, listener: ListenerId) {
        let socket = self.net.listeners.socket_mut(listener);
        socket.descriptors -= 1;
        if socket.is_open() {
            return;
        }
        // Connections that wait at a closed listener are reset.
        for server in std::mem::take(&mut socket.queue) {
            self.reset(server);
        }
    }

    /// Two connected endpoints in one process.
    pub(crate) fn pair(&mut self, process: u32, family: Family) -> [(EndpointId, i32); 2] {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let capacity = self.config.socket_buffer;
        let connection = self.net.connect(family, capacity, nowhere);
        let ids = [
            EndpointId::client(connection),
            EndpointId::server(connection),
        ];
        ids.map(|id| (id, self.hold(id, process)))
    }

    /// How many connections wait at an address.
    pub(crate) fn backlog_len(&self, address: SocketAddr) -> usize {
        let listeners = &self.net.listeners;
        listeners
            .at(address)
            .map(|id| listeners.socket(id).queue.len())
            .sum()
    }
}
