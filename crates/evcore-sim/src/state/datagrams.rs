//! Datagrams: their loss, their duplication and their arrival.

use std::{io, net::SocketAddr};

use evcore::Ready;

use super::{State, delivery::DELAY_MAX};
use crate::{
    event_queue::SimEvent,
    faults::Fault,
    kernel_poller::Object,
    net::{Datagram, UdpId},
    rng::whole_ns,
    trace::{Event, Subject},
};

/// Maximum length of a datagram over IPv4, in bytes.
const LONGEST: usize = 65_507;

impl State {
    pub(crate) fn bind_udp(
        &mut self,
        process: u32,
        address: SocketAddr,
    ) -> io::Result<(UdpId, i32)> {
        self.check_free_descriptors(process, 1)?;
        let capacity = self.config.socket_buffer;
        let bound = self.net.udp.bind(address, capacity);
        let id = bound.ok_or(io::ErrorKind::AddrInUse)?;
        let descriptors = &mut self.processes[process as usize].descriptors;
        Ok((id, descriptors.insert(Object::Udp(id))))
    }

    pub(crate) fn send_datagram(
        &mut self,
        process: u32,
        from: UdpId,
        to: SocketAddr,
        bytes: &[u8],
    ) -> io::Result<usize> {
        const EMSGSIZE: i32 = 90; // on Linux
        if bytes.len() > LONGEST {
            return Err(io::Error::from_raw_os_error(EMSGSIZE));
        }
        let count = bytes.len();
        self.note(Event::SentDatagram {
            process,
            from,
            count,
        });
        self.trace.bytes(bytes);
        if self.draw_fault(Fault::DatagramLoss, Subject::Udp(from)) {
            return Ok(bytes.len());
        }
        let datagram = Datagram {
            from: self.net.udp.socket(from).address,
            to,
            bytes: bytes.to_vec(),
        };
        if self.draw_fault(Fault::DatagramDuplicate, Subject::Udp(from)) {
            self.transmit_datagram(from, datagram.clone());
        }
        self.transmit_datagram(from, datagram);
        Ok(bytes.len())
    }

    /// Sends a datagram. The datagrams of a socket arrive in the order in which they were sent,
    /// apart from datagrams that a fault delays.
    fn transmit_datagram(&mut self, from: UdpId, datagram: Datagram) {
        let latency_ns = whole_ns(self.rng.duration(&self.config.latency));
        let mut at_ns = self.now_ns().saturating_add(latency_ns);
        if self.draw_fault(Fault::DatagramDelay, Subject::Udp(from)) {
            at_ns += self.random_up_to(DELAY_MAX);
        } else {
            let socket = self.net.udp.socket_mut(from);
            at_ns = at_ns.max(socket.last_arrival_ns);
            socket.last_arrival_ns = at_ns;
        }
        let index = self.net.udp.send(datagram);
        self.event_queue.schedule(at_ns, SimEvent::Datagram(index));
    }

    /// Delivers a datagram. It is lost if no socket has its address, or if that socket's queue is
    /// full.
    pub(crate) fn datagram_arrives(&mut self, index: u32) {
        let datagram = self.net.udp.arrive(index);
        let Some(id) = self.net.udp.at(datagram.to) else {
            return;
        };
        let socket = self.net.udp.socket_mut(id);
        if !socket.push(datagram) {
            return;
        }
        for watch in socket.watches.clone() {
            self.mark_ready(watch, Ready::READABLE);
            self.wake_sleeper(watch.poller);
        }
    }

    pub(crate) fn receive_datagram(
        &mut self,
        process: u32,
        at: UdpId,
        buffer: &mut [u8],
    ) -> io::Result<(usize, SocketAddr)> {
        let received = self.net.udp.socket_mut(at).pop();
        let datagram = received.ok_or(io::ErrorKind::WouldBlock)?;
        let count = datagram.bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&datagram.bytes[..count]);
        self.note(Event::ReceivedDatagram { process, at, count });
        Ok((count, datagram.from))
    }
}
