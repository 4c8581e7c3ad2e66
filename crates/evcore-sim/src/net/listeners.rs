//! Listening sockets, and the connections that wait there to be accepted.

use std::{collections::VecDeque, net::SocketAddr};

use super::EndpointId;
use crate::watch_id::WatchId;

#[derive(Debug)]
pub(crate) struct ListeningSocket {
    address: SocketAddr,
    /// True if the socket belongs to one process (`SO_REUSEPORT`), and not to the parent.
    reuseport: bool,
    /// Number of open descriptors, without the parent's.
    pub(crate) descriptors: u32,
    /// The server endpoints of connections that wait, the oldest first.
    pub(crate) queue: VecDeque<EndpointId>,
    /// The pollers that watch the socket, in the order of their registrations.
    pub(crate) watches: Vec<WatchId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerId(pub(crate) u32);

#[derive(Debug, Default)]
pub(crate) struct Listeners {
    sockets: Vec<ListeningSocket>,
}

impl Listeners {
    pub(crate) fn socket(&self, id: ListenerId) -> &ListeningSocket {
        &self.sockets[id.0 as usize]
    }

    pub(crate) fn socket_mut(&mut self, id: ListenerId) -> &mut ListeningSocket {
        &mut self.sockets[id.0 as usize]
    }

    /// Returns the socket of the parent at the address, and binds one if the parent has none.
    pub(crate) fn shared(&mut self, address: SocketAddr) -> ListenerId {
        let is_bound = |socket: &ListeningSocket| socket.address == address && !socket.reuseport;
        match self.sockets.iter().position(is_bound) {
            Some(index) => listener_id(index),
            None => self.open(address, false),
        }
    }

    /// Binds a new socket, in addition to others at the same address.
    pub(crate) fn reuseport(&mut self, address: SocketAddr) -> ListenerId {
        self.open(address, true)
    }

    pub(crate) fn at(&self, address: SocketAddr) -> impl Iterator<Item = ListenerId> {
        let sockets = self.sockets.iter().enumerate();
        sockets
            .filter(move |(_, socket)| socket.address == address && socket.is_open())
            .map(|(index, _)| listener_id(index))
    }

    fn open(&mut self, address: SocketAddr, reuseport: bool) -> ListenerId {
        self.sockets.push(ListeningSocket {
            address,
            reuseport,
            descriptors: 0,
            queue: VecDeque::new(),
            watches: Vec::new(),
        });
        listener_id(self.sockets.len() - 1)
    }
}

impl ListeningSocket {
    /// Returns whether closing one more descriptor closes the socket.
    pub(crate) fn closes_with_last(&self) -> bool {
        self.reuseport && self.descriptors == 1
    }

    /// Returns whether the socket is open. A shared socket stays open in the parent.
    pub(crate) fn is_open(&self) -> bool {
        !self.reuseport || self.descriptors > 0
    }
}

fn listener_id(index: usize) -> ListenerId {
    ListenerId(u32::try_from(index).expect("there are fewer listeners than that"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reuseport_socket_closes_with_its_last_descriptor() {
        let mut listeners = Listeners::default();
        let address = SocketAddr::from(([10, 0, 0, 1], 80));
        let shared = listeners.shared(address);
        assert_eq!(listeners.shared(address), shared);
        let reuseport = listeners.reuseport(address);
        assert_eq!(listeners.at(address).collect::<Vec<_>>(), [shared]);
        listeners.socket_mut(reuseport).descriptors = 1;
        assert_eq!(
            listeners.at(address).collect::<Vec<_>>(),
            [shared, reuseport]
        );
        assert!(listeners.socket_mut(reuseport).closes_with_last());
        assert!(!listeners.socket_mut(shared).closes_with_last());
        listeners.socket_mut(reuseport).descriptors = 2;
        assert!(!listeners.socket_mut(reuseport).closes_with_last());
    }
}
