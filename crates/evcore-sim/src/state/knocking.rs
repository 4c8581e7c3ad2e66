//! How a client comes to a listener, and from there to a process.

use std::{io, net::SocketAddr, time::Duration};

use evcore::accept::{Accept, Resource};

use super::State;
use crate::{
    Fault,
    agenda::Happening,
    net::{EndId, Family, ListenerId, Owner},
    poll::Object,
    trace::What,
};

/// How often a client knocks at a full backlog before it gives up (Linux: `tcp_syn_retries`, 6).
const KNOCKS: u8 = 6;

/// How long it waits before it knocks for the second time; then twice as long, and so on.
const KNOCK_AGAIN: Duration = Duration::from_secs(1);

impl State {
    /// Opens a descriptor of the parent's listener there, or of one of its own.
    pub(crate) fn listen(&mut self, process: u32, address: SocketAddr, alone: bool) -> i32 {
        let listening = &mut self.net.listening;
        let id = if alone {
            listening.alone(address)
        } else {
            listening.shared(address)
        };
        listening.socket_mut(id).descriptors += 1;
        self.note(What::Acceptor, u64::from(process), u64::from(id.0));
        let descriptors = &mut self.processes[process as usize].descriptors;
        descriptors.insert(Object::Listener(id))
    }

    /// A client sets out.
    pub(crate) fn connect(&mut self, client: u32, to: SocketAddr) -> EndId {
        let id = self.new_connection(to);
        self.net.end_mut(id).owner = Owner::Client(client);
        let after_ns = self.latency_ns(id);
        self.enter_after(after_ns, Happening::Knock(id.other(), 1));
        id
    }

    /// A process connects, and is connected at once.
    pub(crate) fn connect_now(&mut self, process: u32, to: SocketAddr) -> io::Result<(EndId, i32)> {
        let Some(listener) = self.listener_with_room(to)? else {
            return Err(io::ErrorKind::TimedOut.into());
        };
        let id = self.new_connection(to);
        let fd = self.hold(id, process);
        self.line_up(listener, id.other());
        Ok((id, fd))
    }

    fn new_connection(&mut self, to: SocketAddr) -> EndId {
        let capacity = self.conditions.buffer;
        let connection = self.net.connect(Family::Tcp, capacity, to);
        // From here on both ends are somebody's, so the place is not given away.
        self.net.end_mut(EndId::server(connection)).owner = Owner::Backlog;
        EndId::client(connection)
    }

    /// A client has come to the door.
    pub(crate) fn knock(&mut self, server: EndId, times: u8) {
        self.note(What::Knock, server.number(), u64::from(times));
        let to = self.net.route(server).to;
        match self.listener_with_room(to) {
            _ if !self.net.end(server.other()).is_open() => self.abandon(server),
            Ok(Some(listener)) => {
                self.line_up(listener, server);
                let client = server.other();
                let after_ns = self.latency_ns(client);
                // The news is under way as anything else is: nobody else gets the place meanwhile.
                self.net.end_mut(client).under_way += 1;
                self.enter_after(after_ns, Happening::Connected(client));
            }
            Ok(None) if times < KNOCKS => {
                let after = KNOCK_AGAIN * (1 << (times - 1));
                let after_ns = crate::rng::whole_ns(after);
                self.enter_after(after_ns, Happening::Knock(server, times + 1));
            }
            Ok(None) | Err(_) => self.refuse(server),
        }
    }

    /// One of the listeners there that has a place in its queue; `None`: all are full.
    fn listener_with_room(&mut self, to: SocketAddr) -> io::Result<Option<ListenerId>> {
        let listeners: Vec<_> = self.net.listening.at(to).collect();
        if listeners.is_empty() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        // As the kernel's hash does, which nobody can foresee.
        let listener = listeners[self.rng.index(listeners.len())];
        let waiting = self.net.listening.socket(listener).queue.len();
        Ok((waiting < self.conditions.backlog).then_some(listener))
    }

    fn line_up(&mut self, listener: ListenerId, server: EndId) {
        let socket = self.net.listening.socket_mut(listener);
        socket.queue.push_back(server);
        self.touch_listener(listener);
    }

    /// Nobody opens.
    fn refuse(&mut self, server: EndId) {
        self.note(What::Refuse, server.number(), 0);
        let client = server.other();
        if let Owner::Client(client) = self.net.end(client).owner {
            self.lose(client);
        }
        self.net.end_mut(client).close();
        self.abandon(server);
    }

    fn abandon(&mut self, server: EndId) {
        self.net.end_mut(server).close();
        self.net.tidy(server);
    }

    /// Takes the next client of a listener into a process.
    pub(crate) fn accept(&mut self, process: u32, listener: ListenerId) -> Accept<(EndId, i32)> {
        let Some(server) = self.net.listening.socket(listener).queue.front().copied() else {
            return Accept::WouldBlock;
        };
        let open = self.processes[process as usize].descriptors.open();
        if open >= self.conditions.descriptors {
            return Accept::Exhausted(Resource::Process);
        }
        if self.fails(Fault::Exhausted) {
            return Accept::Exhausted(Resource::System);
        }
        self.net.listening.socket_mut(listener).queue.pop_front();
        if self.fails(Fault::Abort) {
            self.reset(server);
            return Accept::Aborted;
        }
        let fd = self.hold(server, process);
        self.note(What::Accept, u64::from(process), server.number());
        Accept::Connection((server, fd), self.net.route(server).from.into())
    }

    /// A process closes its descriptor of a listener.
    pub(crate) fn leave_listener(&mut self, listener: ListenerId) {
        let socket = self.net.listening.socket_mut(listener);
        socket.descriptors -= 1;
        if socket.is_open() {
            return;
        }
        // Of one process alone: who waits there waits in vain.
        for server in std::mem::take(&mut socket.queue) {
            self.reset(server);
        }
    }

    /// Two ends that are connected already, both of one process.
    pub(crate) fn pair(&mut self, process: u32, family: Family) -> [(EndId, i32); 2] {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let capacity = self.conditions.buffer;
        let connection = self.net.connect(family, capacity, nowhere);
        let ends = [EndId::client(connection), EndId::server(connection)];
        ends.map(|id| (id, self.hold(id, process)))
    }

    /// Whether anything waits at an address; for tests of whole servers.
    pub(crate) fn waiting(&self, address: SocketAddr) -> usize {
        let listening = &self.net.listening;
        listening
            .at(address)
            .map(|id| listening.socket(id).queue.len())
            .sum()
    }
}
