//! Calls clients with their events, and runs the calls that they make.

use std::{fmt, io, mem, net::SocketAddr};

use super::State;
use crate::{
    client_event::ClientEvent,
    event_queue::SimEvent,
    kernel_poller::ANY_CHANGE,
    net::{EndpointId, Owner},
    trace::{Detail, Event},
};

pub(crate) trait Callback: fmt::Debug + Send {
    fn call(&mut self, event: ClientEvent, state: &mut State, id: u32);
}

#[derive(Debug)]
pub(crate) struct ClientSlot {
    /// `None` while the client is called, and after its exit.
    client: Option<Box<dyn Callback>>,
    /// The endpoint of the client's connection, established or not.
    endpoint: Option<EndpointId>,
    has_started: bool,
    /// The number of the current timer. Events of earlier timers are ignored.
    timer: u32,
    /// True if a `NotifyClient` is scheduled.
    is_scheduled: bool,
    /// The event that comes before the next `Ready`.
    pending: Option<ClientEvent>,
    has_exited: bool,
    lost_to_fault: bool,
}

impl State {
    /// Adds a client. It starts when time passes.
    pub(crate) fn add_client(&mut self, client: Box<dyn Callback>) -> u32 {
        let id = match self.free_clients.pop() {
            Some(id) => {
                self.clients[id as usize].reuse(client);
                id
            }
            None => {
                self.clients.push(ClientSlot::new(client));
                u32::try_from(self.clients.len() - 1).expect("there are fewer clients")
            }
        };
        self.note(Event::ClientAdded(id));
        let timer = self.clients[id as usize].timer;
        self.schedule_after(0, SimEvent::ClientTimer(id, timer));
        id
    }

    /// Schedules a call of a client whose connection has changed.
    pub(crate) fn schedule_client(&mut self, client: u32) {
        let slot = &mut self.clients[client as usize];
        if !mem::replace(&mut slot.is_scheduled, true) {
            self.schedule_after(0, SimEvent::NotifyClient(client));
        }
    }

    pub(crate) fn on_connected(&mut self, id: EndpointId) {
        if let Owner::Client(client) = self.net.endpoint(id).owner {
            self.clients[client as usize].pending = Some(ClientEvent::Connected);
        }
        self.notify_watchers(id, ANY_CHANGE);
    }

    pub(crate) fn connect_failed(&mut self, client: u32) {
        let slot = &mut self.clients[client as usize];
        slot.endpoint = None;
        slot.pending = Some(ClientEvent::Refused);
        self.schedule_client(client);
    }

    pub(crate) fn deliver_client_event(&mut self, client: u32) {
        let slot = &mut self.clients[client as usize];
        slot.is_scheduled = false;
        let endpoint = slot.endpoint;
        if let Some(event) = slot.pending.take() {
            self.call(client, event);
        }
        let Some(id) = endpoint else {
            return;
        };
        // The call may have closed the connection or made another.
        let slot = &self.clients[client as usize];
        if slot.endpoint == Some(id) && !self.net.endpoint(id).is_connecting() {
            let ready = self.net.endpoint(id).ready(self.net.endpoint(id.other()));
            self.call(client, ClientEvent::Ready(ready));
        }
    }

    pub(crate) fn client_timer_expired(&mut self, client: u32, timer: u32) {
        let slot = &mut self.clients[client as usize];
        if slot.timer != timer {
            return;
        }
        let has_started = mem::replace(&mut slot.has_started, true);
        let event = if has_started {
            ClientEvent::Expired
        } else {
            ClientEvent::Started
        };
        self.call(client, event);
    }

    fn call(&mut self, id: u32, event: ClientEvent) {
        let Some(mut client) = self.clients[id as usize].client.take() else {
            return;
        };
        self.detail(|| Detail::Called { client: id, event });
        client.call(event, self, id);
        if self.clients[id as usize].has_exited {
            self.free_clients.push(id);
        } else {
            self.clients[id as usize].client = Some(client);
        }
    }

    /// Arms a client's timer. The timer that was armed before is ignored.
    pub(crate) fn arm_client_timer(&mut self, client: u32, after_ns: u64) {
        let slot = &mut self.clients[client as usize];
        slot.timer = slot.timer.wrapping_add(1);
        let timer = slot.timer;
        self.schedule_after(after_ns, SimEvent::ClientTimer(client, timer));
    }

    pub(crate) fn connect_client(&mut self, client: u32, to: SocketAddr) {
        self.close_client(client);
        let id = self.connect(client, to);
        let slot = &mut self.clients[client as usize];
        slot.endpoint = Some(id);
        slot.lost_to_fault = false;
    }

    /// Records that a fault ends the connection of this endpoint, for the client's
    /// `is_lost_to_fault`.
    pub(crate) fn mark_lost_to_fault(&mut self, id: EndpointId) {
        for end in [id, id.other()] {
            if let Owner::Client(client) = self.net.endpoint(end).owner {
                self.clients[client as usize].lost_to_fault = true;
            }
        }
    }

    pub(crate) fn is_lost_to_fault(&self, client: u32) -> bool {
        self.clients[client as usize].lost_to_fault
    }

    pub(crate) fn client_address(&self, client: u32) -> Option<SocketAddr> {
        let endpoint = self.clients[client as usize].endpoint;
        endpoint.map(|id| self.net.route(id).from)
    }

    /// The endpoint of a client's established connection.
    pub(crate) fn client_endpoint(&self, client: u32) -> io::Result<EndpointId> {
        let endpoint = self.clients[client as usize].endpoint;
        let endpoint = endpoint.filter(|id| !self.net.endpoint(*id).is_connecting());
        endpoint.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn take_client_endpoint(&mut self, client: u32) -> Option<EndpointId> {
        let slot = &mut self.clients[client as usize];
        slot.pending = None;
        slot.endpoint.take()
    }

    pub(crate) fn close_client(&mut self, client: u32) {
        if let Some(id) = self.take_client_endpoint(client) {
            self.close(id);
        }
    }

    pub(crate) fn reset_client(&mut self, client: u32) {
        if let Some(id) = self.take_client_endpoint(client) {
            self.reset(id);
        }
    }

    /// Closes a client's connection. The client is not called again.
    pub(crate) fn remove_client(&mut self, client: u32) {
        self.close_client(client);
        let slot = &mut self.clients[client as usize];
        slot.timer = slot.timer.wrapping_add(1);
        slot.has_exited = true;
        self.detail(|| Detail::Left { client });
    }
}

impl ClientSlot {
    fn new(client: Box<dyn Callback>) -> Self {
        Self {
            client: Some(client),
            endpoint: None,
            has_started: false,
            timer: 0,
            is_scheduled: false,
            pending: None,
            has_exited: false,
            lost_to_fault: false,
        }
    }

    /// Puts another client into the slot. Timers of the slot's earlier client are ignored.
    fn reuse(&mut self, client: Box<dyn Callback>) {
        let (timer, is_scheduled) = (self.timer.wrapping_add(1), self.is_scheduled);
        *self = Self {
            timer,
            is_scheduled,
            ..Self::new(client)
        };
    }
}
