//! The network: connections, listeners, UDP sockets and channels.
//!
//! This module has the data of the network, and the rules for changing it. The module
//! [`crate::state`] has everything that takes time or is random.

mod channels;
mod endpoint;
mod listeners;
mod udp;

use std::net::SocketAddr;

pub(crate) use channels::{Carried, ChannelId, Channels, CounterId, MESSAGES_MAX, Message};
pub(crate) use endpoint::{CloseNotice, Endpoint, Family};
pub(crate) use listeners::{ListenerId, Listeners};
pub(crate) use udp::{Datagram, Udp, UdpId};

/// An endpoint of a connection, by its index in the network's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndpointId(u32);

impl EndpointId {
    /// The endpoint that connects. Its index is even.
    pub(crate) const fn client(connection: u32) -> Self {
        Self(2 * connection)
    }

    /// The endpoint that is accepted. Its index is odd.
    pub(crate) const fn server(connection: u32) -> Self {
        Self(2 * connection + 1)
    }

    pub(crate) const fn other(self) -> Self {
        Self(self.0 ^ 1)
    }

    pub(crate) const fn is_client(self) -> bool {
        self.0 % 2 == 0
    }

    pub(crate) const fn connection(self) -> u32 {
        self.0 / 2
    }

    pub(crate) const fn number(self) -> u64 {
        self.0 as u64
    }

    const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    None,
    /// A listener's backlog, or a connection request in flight.
    Backlog,
    /// A process, by a descriptor.
    Process(u32, i32),
    Client(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// The address of the client.
    pub(crate) from: SocketAddr,
    /// The address of the server.
    pub(crate) to: SocketAddr,
    /// True if the connection is on the free list.
    is_free: bool,
}

#[derive(Debug)]
pub(crate) struct Net {
    // Invariant: two for each route.
    endpoints: Vec<Endpoint>,
    routes: Vec<Route>,
    /// The indices of closed connections, which new connections reuse.
    free: Vec<u32>,
    pub(crate) listeners: Listeners,
    pub(crate) udp: Udp,
    pub(crate) channels: Channels,
    /// Number of connections that were ever made. Each client's address is derived from it.
    made: u32,
}

impl Net {
    pub(crate) fn new() -> Self {
        Self {
            endpoints: Vec::new(),
            routes: Vec::new(),
            free: Vec::new(),
            listeners: Listeners::default(),
            udp: Udp::default(),
            channels: Channels::default(),
            made: 0,
        }
    }

    #[inline]
    pub(crate) fn endpoint(&self, id: EndpointId) -> &Endpoint {
        &self.endpoints[id.index()]
    }

    #[inline]
    pub(crate) fn endpoint_mut(&mut self, id: EndpointId) -> &mut Endpoint {
        &mut self.endpoints[id.index()]
    }

    pub(crate) fn route(&self, id: EndpointId) -> &Route {
        &self.routes[id.connection() as usize]
    }

    pub(crate) fn connect(&mut self, family: Family, capacity: usize, to: SocketAddr) -> u32 {
        let route = Route {
            from: client_address(self.made),
            to,
            is_free: false,
        };
        self.made = self.made.wrapping_add(1);
        if let Some(connection) = self.free.pop() {
            self.routes[connection as usize] = route;
            for id in [
                EndpointId::client(connection),
                EndpointId::server(connection),
            ] {
                self.endpoint_mut(id).reuse(family, capacity);
            }
            return connection;
        }
        self.routes.push(route);
        self.endpoints.extend([
            Endpoint::new(family, capacity),
            Endpoint::new(family, capacity),
        ]);
        u32::try_from(self.routes.len() - 1).expect("there are fewer connections than that")
    }

    /// Frees the index of a connection if nothing holds it and nothing is in flight.
    pub(crate) fn release_if_closed(&mut self, id: EndpointId) {
        let is_closed = |end: &Endpoint| !end.is_open() && end.segments_in_flight == 0;
        let connection = id.connection();
        let is_closed = is_closed(self.endpoint(id)) && is_closed(self.endpoint(id.other()));
        let route = &mut self.routes[connection as usize];
        if is_closed && !route.is_free {
            route.is_free = true;
            self.free.push(connection);
        }
    }
}

/// The address of the n-th client, from the network reserved for benchmarks (RFC 2544) and the
/// ephemeral ports.
fn client_address(made: u32) -> SocketAddr {
    const PORTS: u32 = 16_384;
    let (host, port) = (made / PORTS, 49_152 + made % PORTS);
    let [_, _, high, low] = host.to_be_bytes();
    let port = u16::try_from(port).expect("the highest is 65,535");
    SocketAddr::from(([198, 18, high, low], port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anywhere() -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 80))
    }

    #[test]
    fn an_index_is_reused_when_nothing_holds_or_reaches_it() {
        let mut net = Net::new();
        let first = net.connect(Family::Tcp, 100, anywhere());
        let (client, server) = (EndpointId::client(first), EndpointId::server(first));
        net.endpoint_mut(client).owner = Owner::Client(0);
        net.endpoint_mut(server).segments_in_flight = 1;
        net.release_if_closed(client);
        assert_ne!(net.connect(Family::Tcp, 100, anywhere()), first);
        net.endpoint_mut(client).close();
        net.release_if_closed(client);
        assert_ne!(net.connect(Family::Tcp, 100, anywhere()), first);
        net.endpoint_mut(server).segments_in_flight = 0;
        net.release_if_closed(server);
        net.release_if_closed(client);
        assert_eq!(net.connect(Family::Tcp, 100, anywhere()), first);
        assert_ne!(net.connect(Family::Tcp, 100, anywhere()), first);
    }

    #[test]
    fn every_client_has_its_own_address() {
        let addresses: std::collections::BTreeSet<_> = (0..40_000).map(client_address).collect();
        assert_eq!(addresses.len(), 40_000);
        assert_eq!(client_address(0).to_string(), "198.18.0.0:49152");
    }
}
