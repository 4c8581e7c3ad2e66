//! Listeners: where clients wait until somebody accepts them.

use std::{collections::VecDeque, net::SocketAddr};

use super::EndId;
use crate::poll::WatchId;

/// A listening socket. Workers that inherited it share it.
#[derive(Debug)]
pub(crate) struct Socket {
    address: SocketAddr,
    /// Whether it is of one process alone (`SO_REUSEPORT`), and not the parent's.
    alone: bool,
    /// Descriptors of it that are open.
    pub(crate) descriptors: u32,
    /// Clients that wait, the first first.
    pub(crate) queue: VecDeque<EndId>,
    /// The pollers that watch it, in the order in which they came.
    pub(crate) watches: Vec<WatchId>,
}

/// A listening socket, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerId(pub(crate) u32);

/// All listening sockets.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    sockets: Vec<Socket>,
}

impl Listening {
    pub(crate) fn socket(&self, id: ListenerId) -> &Socket {
        &self.sockets[id.0 as usize]
    }

    pub(crate) fn socket_mut(&mut self, id: ListenerId) -> &mut Socket {
        &mut self.sockets[id.0 as usize]
    }

    /// The socket that the parent has bound there; bound now, if it was not.
    pub(crate) fn shared(&mut self, address: SocketAddr) -> ListenerId {
        let known = |socket: &Socket| socket.address == address && !socket.alone;
        match self.sockets.iter().position(known) {
            Some(place) => at(place),
            None => self.open(address, false),
        }
    }

    /// A socket beside others at the same address.
    pub(crate) fn alone(&mut self, address: SocketAddr) -> ListenerId {
        self.open(address, true)
    }

    /// Those that clients of an address may be put to.
    pub(crate) fn at(&self, address: SocketAddr) -> impl Iterator<Item = ListenerId> {
        let sockets = self.sockets.iter().enumerate();
        sockets
            .filter(move |(_, socket)| socket.address == address && socket.is_open())
            .map(|(place, _)| at(place))
    }

    fn open(&mut self, address: SocketAddr, alone: bool) -> ListenerId {
        self.sockets.push(Socket {
            address,
            alone,
            descriptors: 0,
            queue: VecDeque::new(),
            watches: Vec::new(),
        });
        at(self.sockets.len() - 1)
    }
}

impl Socket {
    /// The parent keeps what workers inherited; what is of one process alone goes with it.
    pub(crate) fn is_open(&self) -> bool {
        !self.alone || self.descriptors > 0
    }
}

fn at(place: usize) -> ListenerId {
    ListenerId(u32::try_from(place).expect("there are fewer listeners than that"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_socket_stays_and_one_alone_goes_with_its_last_descriptor() {
        let mut listening = Listening::default();
        let address = SocketAddr::from(([10, 0, 0, 1], 80));
        let shared = listening.shared(address);
        assert_eq!(listening.shared(address), shared);
        let alone = listening.alone(address);
        assert_eq!(listening.at(address).collect::<Vec<_>>(), [shared]);
        listening.socket_mut(alone).descriptors = 1;
        assert_eq!(listening.at(address).collect::<Vec<_>>(), [shared, alone]);
    }
}
