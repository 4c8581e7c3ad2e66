//! UDP sockets, and the datagrams that are under way.

use std::{collections::VecDeque, net::SocketAddr};

use crate::watch_id::WatchId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UdpId(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct UdpSocket {
    pub(crate) address: SocketAddr,
    pub(crate) watches: Vec<WatchId>,
    /// The time at which the last datagram from this socket arrives, apart from datagrams that a
    /// fault delays.
    pub(crate) last_arrival_ns: u64,
    /// Datagrams that have arrived, the oldest first.
    queue: VecDeque<Datagram>,
    // Invariant: the bytes of all datagrams in the queue.
    queued: usize,
    capacity: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Udp {
    sockets: Vec<Option<UdpSocket>>,
    in_flight: Vec<Option<Datagram>>,
    // Invariant: the indices of `in_flight` without a datagram.
    free: Vec<u32>,
}

/// The first of the ports that a socket gets if it is bound to port 0.
const FIRST_EPHEMERAL: u16 = 49_152;

impl Udp {
    /// Binds a new socket. Port 0 stands for the first free port. Returns `None` if the address is
    /// in use, or no port is free.
    pub(crate) fn bind(&mut self, mut address: SocketAddr, capacity: usize) -> Option<UdpId> {
        if address.port() == 0 {
            let is_free = |port: &u16| self.at(SocketAddr::new(address.ip(), *port)).is_none();
            let port = (FIRST_EPHEMERAL..=u16::MAX).find(is_free)?;
            address.set_port(port);
        }
        if self.at(address).is_some() {
            return None;
        }
        let socket = UdpSocket {
            address,
            watches: Vec::new(),
            last_arrival_ns: 0,
            queue: VecDeque::new(),
            queued: 0,
            capacity,
        };
        let index = match self.sockets.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.sockets.push(None);
                self.sockets.len() - 1
            }
        };
        self.sockets[index] = Some(socket);
        Some(UdpId(id(index)))
    }

    pub(crate) fn close(&mut self, socket: UdpId) {
        self.sockets[socket.0 as usize] = None;
    }

    pub(crate) fn socket(&self, id: UdpId) -> &UdpSocket {
        self.sockets[id.0 as usize].as_ref().expect("it is open")
    }

    pub(crate) fn socket_mut(&mut self, id: UdpId) -> &mut UdpSocket {
        self.sockets[id.0 as usize].as_mut().expect("it is open")
    }

    pub(crate) fn at(&self, address: SocketAddr) -> Option<UdpId> {
        let is_bound = |socket: &Option<UdpSocket>| {
            socket
                .as_ref()
                .is_some_and(|socket| socket.address == address)
        };
        let index = self.sockets.iter().position(is_bound);
        index.map(|index| UdpId(id(index)))
    }

    pub(crate) fn send(&mut self, datagram: Datagram) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.in_flight.push(None);
            id(self.in_flight.len() - 1)
        });
        self.in_flight[index as usize] = Some(datagram);
        index
    }

    pub(crate) fn arrive(&mut self, index: u32) -> Datagram {
        self.free.push(index);
        self.in_flight[index as usize]
            .take()
            .expect("it arrives once")
    }
}

impl UdpSocket {
    pub(crate) fn is_readable(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Queues a datagram. Returns `false` if the queue is full, so that the datagram is lost.
    pub(crate) fn push(&mut self, datagram: Datagram) -> bool {
        let has_room = self.queued + datagram.bytes.len() <= self.capacity;
        if has_room {
            self.queued += datagram.bytes.len();
            self.queue.push_back(datagram);
        }
        has_room
    }

    pub(crate) fn pop(&mut self) -> Option<Datagram> {
        let datagram = self.queue.pop_front()?;
        self.queued -= datagram.bytes.len();
        Some(datagram)
    }
}

fn id(index: usize) -> u32 {
    u32::try_from(index).expect("there are fewer than that")
}
