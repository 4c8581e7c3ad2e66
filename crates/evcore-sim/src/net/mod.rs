//! The network: connections, listeners, and what travels between two ends.
//!
//! This is data and its rules alone. What takes time, or chance, is in `traffic.rs`.

mod end;
mod listener;

use std::net::SocketAddr;

pub(crate) use end::{End, Family, Farewell};
pub(crate) use listener::{ListenerId, Listening};

/// An end of a connection, by its place in the network's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndId(u32);

impl EndId {
    /// The end that connects: of a connection's two, the one with the even place.
    pub(crate) const fn client(connection: u32) -> Self {
        Self(2 * connection)
    }

    /// The end that is accepted.
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

    /// For the record.
    pub(crate) const fn number(self) -> u64 {
        self.0 as u64
    }

    const fn place(self) -> usize {
        self.0 as usize
    }
}

/// Who holds an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    /// A listener's queue, or a knock on its way there.
    Backlog,
    /// A process, under a descriptor.
    Process(u32, i32),
    /// A client of the world.
    Client(u32),
}

/// What is known of a connection as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// Who connected.
    pub(crate) from: SocketAddr,
    /// Where to.
    pub(crate) to: SocketAddr,
    /// It is on the list of vacant places.
    vacant: bool,
}

/// All connections and listeners.
#[derive(Debug)]
pub(crate) struct Net {
    // Invariant: two for each connection.
    ends: Vec<End>,
    routes: Vec<Route>,
    /// Places of connections that are over.
    vacant: Vec<u32>,
    pub(crate) listening: Listening,
    /// How many connections there have been: makes the addresses of clients.
    made: u32,
}

impl Net {
    pub(crate) fn new() -> Self {
        Self {
            ends: Vec::new(),
            routes: Vec::new(),
            vacant: Vec::new(),
            listening: Listening::default(),
            made: 0,
        }
    }

    #[inline]
    pub(crate) fn end(&self, id: EndId) -> &End {
        &self.ends[id.place()]
    }

    #[inline]
    pub(crate) fn end_mut(&mut self, id: EndId) -> &mut End {
        &mut self.ends[id.place()]
    }

    pub(crate) fn route(&self, id: EndId) -> &Route {
        &self.routes[id.connection() as usize]
    }

    /// A connection whose ends nobody holds yet.
    pub(crate) fn connect(&mut self, family: Family, capacity: usize, to: SocketAddr) -> u32 {
        let route = Route {
            from: client_address(self.made),
            to,
            vacant: false,
        };
        self.made = self.made.wrapping_add(1);
        if let Some(connection) = self.vacant.pop() {
            self.routes[connection as usize] = route;
            for id in [EndId::client(connection), EndId::server(connection)] {
                self.end_mut(id).renew(family, capacity);
            }
            return connection;
        }
        self.routes.push(route);
        self.ends
            .extend([End::new(family, capacity), End::new(family, capacity)]);
        u32::try_from(self.routes.len() - 1).expect("there are fewer connections than that")
    }

    /// Gives the place of a connection free, if nobody holds it and nothing travels.
    pub(crate) fn tidy(&mut self, id: EndId) {
        let over = |end: &End| !end.is_open() && end.under_way == 0;
        let connection = id.connection();
        let is_over = over(self.end(id)) && over(self.end(id.other()));
        let route = &mut self.routes[connection as usize];
        if is_over && !route.vacant {
            route.vacant = true;
            self.vacant.push(connection);
        }
    }
}

/// The address of the n-th who connects: from the network that is set aside for measurements
/// (RFC 2544), with ports of the ephemeral range.
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
    fn a_place_is_used_again_only_when_both_ends_are_over_and_nothing_travels() {
        let mut net = Net::new();
        let first = net.connect(Family::Tcp, 100, anywhere());
        let (client, server) = (EndId::client(first), EndId::server(first));
        net.end_mut(client).owner = Owner::Client(0);
        net.end_mut(server).under_way = 1;
        net.tidy(client);
        assert_ne!(net.connect(Family::Tcp, 100, anywhere()), first);
        net.end_mut(client).close();
        net.tidy(client);
        assert_ne!(net.connect(Family::Tcp, 100, anywhere()), first);
        net.end_mut(server).under_way = 0;
        net.tidy(server);
        net.tidy(client);
        assert_eq!(net.connect(Family::Tcp, 100, anywhere()), first);
        assert_ne!(net.connect(Family::Tcp, 100, anywhere()), first);
    }

    #[test]
    fn every_client_has_an_address_of_its_own() {
        let addresses: std::collections::BTreeSet<_> = (0..40_000).map(client_address).collect();
        assert_eq!(addresses.len(), 40_000);
        assert_eq!(client_address(0).to_string(), "198.18.0.0:49152");
    }
}
