//! Data and its delivery between the two endpoints of a connection.

use std::{io, time::Duration};

use evcore::Ready;

use super::State;
use crate::{
    event_queue::Segment,
    faults::Fault,
    kernel_poller::{ANY_CHANGE, Object},
    net::{CloseNotice, EndpointId, Family, Owner},
    trace::{Detail, Event, Subject},
};

/// The longest time that a delay adds to the latency.
pub(super) const DELAY_MAX: Duration = Duration::from_secs(3);

/// The longest time until the arrival of the segment that follows a short read or a short write.
const REST_MAX: Duration = Duration::from_millis(5);

impl State {
    pub(crate) fn send(&mut self, from: EndpointId, bytes: &[u8]) -> io::Result<usize> {
        self.net.endpoint_mut(from).check_send()?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let to = from.other();
        let space = self.net.endpoint(to).free_space().min(u32::MAX as usize);
        let mut count = bytes.len().min(space);
        if count == 0 {
            self.detail(|| Detail::WouldBlock {
                end: from,
                sends: true,
                of: bytes.len(),
            });
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if count > 1 && self.draw_fault(Fault::ShortWrite, Subject::End(from)) {
            count = 1 + self.rng.index(count - 1);
            // The sender takes a short write for a full buffer, so a report of room must follow.
            let after_ns = self.random_up_to(REST_MAX);
            self.transmit(from, Segment::WindowUpdate, after_ns);
        }
        let sent = &bytes[..count];
        let of = bytes.len();
        self.note(Event::Sent { from, count, of });
        self.trace.bytes(sent);
        self.net.endpoint_mut(to).in_flight.extend(sent);
        self.transmit_data(to, count);
        if self.draw_network_fault(Fault::Reset, from) {
            self.mark_lost_to_fault(from);
            self.transmit(from, Segment::Reset, 0);
            self.transmit(to, Segment::Reset, 0);
        }
        Ok(count)
    }

    /// Draws a fault that Unix sockets do not have, because no network is between their ends.
    fn draw_network_fault(&mut self, fault: Fault, end: EndpointId) -> bool {
        let is_tcp = self.net.endpoint(end).family == Family::Tcp;
        is_tcp && self.draw_fault(fault, Subject::End(end))
    }

    fn transmit_data(&mut self, to: EndpointId, count: usize) {
        let mut left = count;
        if count > 1 && self.draw_fault(Fault::Fragment, Subject::End(to)) {
            let first = 1 + self.rng.index(count - 1);
            self.transmit_segment(to, first);
            left -= first;
        }
        self.transmit_segment(to, left);
    }

    fn transmit_segment(&mut self, to: EndpointId, count: usize) {
        let mut after_ns = self.latency_ns(to);
        if self.draw_network_fault(Fault::Delay, to) {
            after_ns += self.random_up_to(DELAY_MAX);
        }
        let count = u32::try_from(count).expect("bounded by the free space");
        self.transmit(to, Segment::Data(count), after_ns);
    }

    pub(crate) fn receive(&mut self, at: EndpointId, buffer: &mut [u8]) -> io::Result<usize> {
        let endpoint = self.net.endpoint(at);
        let available = endpoint.unread().min(buffer.len());
        // A short read puts the rest back in flight, where it must not overtake other segments.
        let nothing_follows = endpoint.segments_in_flight == 0 && !endpoint.is_read_side_done();
        let may_be_short = available > 1 && nothing_follows;
        let is_short = may_be_short && self.draw_network_fault(Fault::ShortRead, at);
        let limit = if is_short {
            1 + self.rng.index(available - 1)
        } else {
            available
        };
        let was_writable = self.net.endpoint(at).is_writable();
        let count = self.net.endpoint_mut(at).read(buffer, limit);
        let count = count.inspect_err(|error| self.note_blocked(at, error))?;
        if limit < available {
            self.unreceive(at);
        }
        self.note(Event::Received { at, count });
        if !was_writable && self.net.endpoint(at).is_writable() {
            let after_ns = self.latency_ns(at.other());
            self.transmit(at.other(), Segment::WindowUpdate, after_ns);
        }
        Ok(count)
    }

    fn unreceive(&mut self, at: EndpointId) {
        let rest = self.net.endpoint_mut(at).unreceive();
        if rest > 0 {
            let after_ns = self.random_up_to(REST_MAX);
            let rest = u32::try_from(rest).expect("bounded by the free space");
            self.transmit(at, Segment::Data(rest), after_ns);
        }
    }

    pub(crate) fn shutdown_write(&mut self, from: EndpointId) -> io::Result<()> {
        if self.net.endpoint(from).is_connecting() {
            // Linux gives up the connection.
            let endpoint = self.net.endpoint_mut(from);
            endpoint.on_connect_failed(io::ErrorKind::ConnectionReset);
            self.notify_watchers(from, ANY_CHANGE);
            return Ok(());
        }
        if self.net.endpoint_mut(from).shutdown_write()? {
            self.note(Event::ShutDownWrite(from));
            let after_ns = self.latency_ns(from.other());
            self.transmit(from.other(), Segment::Fin, after_ns);
            self.notify_watchers(from, ANY_CHANGE);
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, id: EndpointId) {
        if self.is_killing {
            self.mark_lost_to_fault(id);
        }
        self.note(Event::Closed(id));
        let notice = self.detach(id);
        let segment = match notice {
            CloseNotice::None => None,
            CloseNotice::Fin => Some(Segment::Fin),
            CloseNotice::Reset => Some(Segment::Reset),
            CloseNotice::HangUp(had_unread) => Some(Segment::HangUp(had_unread)),
        };
        if let Some(segment) = segment {
            let after_ns = self.latency_ns(id.other());
            self.transmit(id.other(), segment, after_ns);
        }
        self.net.release_if_closed(id);
    }

    /// Resets a connection (closes it with a `SO_LINGER` time of 0).
    pub(crate) fn reset(&mut self, id: EndpointId) {
        self.note(Event::ResetBy(id));
        let was_connected = self.net.endpoint(id).is_connected();
        self.detach(id);
        if was_connected {
            let after_ns = self.latency_ns(id.other());
            self.transmit(id.other(), Segment::Reset, after_ns);
        }
        self.net.release_if_closed(id);
    }

    fn detach(&mut self, id: EndpointId) -> CloseNotice {
        for watch in std::mem::take(&mut self.net.endpoint_mut(id).watches) {
            self.pollers[watch.poller as usize].remove(watch.id as usize);
        }
        self.net.endpoint_mut(id).close()
    }

    pub(crate) fn arrive(&mut self, id: EndpointId, segment: Segment) {
        self.note(Event::Arrived { at: id, segment });
        let endpoint = self.net.endpoint_mut(id);
        endpoint.segments_in_flight -= 1;
        let (is_open, was_disconnected) = (endpoint.is_open(), endpoint.is_disconnected());
        match segment {
            Segment::Connected if is_open && !was_disconnected => {
                endpoint.on_connected();
                return self.on_connected(id);
            }
            // The client has given up.
            Segment::Connected => self.answer_with_reset(id),
            // After a reset, the kernel drops what arrives.
            Segment::Data(count) if was_disconnected => endpoint.drop_data(count as usize),
            Segment::Fin if was_disconnected => {}
            Segment::Data(count) => {
                endpoint.on_data(count as usize);
                if !is_open {
                    // Data for a closed socket is answered with a reset.
                    endpoint.on_reset();
                    self.answer_with_reset(id);
                }
            }
            Segment::Fin => endpoint.on_fin(),
            Segment::Reset => endpoint.on_reset(),
            Segment::HangUp(had_unread) => endpoint.on_hang_up(had_unread),
            Segment::WindowUpdate => {}
        }
        let changes = match segment {
            Segment::Data(_) => Ready::READABLE,
            Segment::WindowUpdate => Ready::WRITABLE,
            _ => ANY_CHANGE,
        };
        if is_open {
            self.notify_watchers(id, changes);
        } else {
            self.net.release_if_closed(id);
        }
    }

    fn answer_with_reset(&mut self, from: EndpointId) {
        let after_ns = self.latency_ns(from.other());
        self.transmit(from.other(), Segment::Reset, after_ns);
    }

    /// Schedules an endpoint's client, and wakes the pollers that watch the endpoint.
    pub(crate) fn notify_watchers(&mut self, id: EndpointId, changes: Ready) {
        if let Owner::Client(client) = self.net.endpoint(id).owner {
            self.schedule_client(client);
        }
        for index in 0..self.net.endpoint(id).watches.len() {
            let watch = self.net.endpoint(id).watches[index];
            self.mark_ready(watch, changes);
            self.wake_sleeper(watch.poller);
        }
    }

    /// Gives an endpoint to a process, under a new descriptor.
    pub(crate) fn hold(&mut self, id: EndpointId, process: u32) -> i32 {
        let descriptors = &mut self.processes[process as usize].descriptors;
        let fd = descriptors.insert(Object::Endpoint(id));
        self.set_owner(id, Owner::Process(process, fd));
        fd
    }

    pub(super) fn set_owner(&mut self, id: EndpointId, owner: Owner) {
        self.net.endpoint_mut(id).owner = owner;
        self.detail(|| Detail::Held { end: id, by: owner });
    }

    fn note_blocked(&mut self, at: EndpointId, error: &io::Error) {
        if error.kind() == io::ErrorKind::WouldBlock {
            self.detail(|| Detail::WouldBlock {
                end: at,
                sends: false,
                of: 0,
            });
        }
    }
}
