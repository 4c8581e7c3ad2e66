//! The names of processes, clients, listeners and connections.

use super::situation::{Holder, Situation};
use crate::net::{EndpointId, ListenerId};

impl Situation<'_> {
    /// The number of the client in a slot.
    pub(crate) fn client_number(&self, slot: u32) -> u32 {
        let client = self.clients.get(slot as usize);
        client.map_or(slot, |client| client.number)
    }

    pub(crate) fn process_name(&self, process: u32) -> String {
        match self.process(process).and_then(|process| process.worker) {
            Some(index) if index == process as usize => format!("worker {index}"),
            Some(index) => format!("worker {index} (process {process})"),
            None => format!("process {process}"),
        }
    }

    pub(crate) fn holder_name(&self, holder: Holder) -> String {
        match holder {
            Holder::None => "no holder".to_owned(),
            Holder::Backlog => "the backlog".to_owned(),
            Holder::Process(process) => self.process_name(process),
            Holder::Client(number) => format!("client {number}"),
        }
    }

    pub(crate) fn name_at(&self, id: EndpointId) -> String {
        self.holder_name(self.end(id).map_or(Holder::None, |end| end.holder))
    }

    pub(crate) fn listener_name(&self, listener: ListenerId) -> String {
        let address = self.listeners.get(listener.0 as usize).copied().flatten();
        address.map_or_else(|| listener.0.to_string(), |address| address.to_string())
    }

    /// The name of a connection: its opener and both addresses.
    pub(crate) fn connection_name(&self, id: EndpointId) -> String {
        let connection = self.connections.get(id.connection() as usize);
        let Some((connection, route)) =
            connection.and_then(|connection| Some((connection, connection.route?)))
        else {
            return format!("connection {}", id.connection());
        };
        let opener = self.holder_name(connection.opener);
        if route.to.port() == 0 {
            return format!("{opener}, a socket pair");
        }
        format!("{opener}, {} <- {}", route.to, route.from)
    }
}
