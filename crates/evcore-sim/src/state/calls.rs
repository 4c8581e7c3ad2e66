//! Calling clients: when, and with what in hand.

use std::{io, net::SocketAddr};

use super::State;
use crate::{
    Client, News, Visit,
    agenda::Happening,
    net::{EndId, Owner},
    trace::What,
};

/// A client's place in the world.
#[derive(Debug)]
pub(crate) struct ClientSlot {
    /// `None` while it is called, and when it has left.
    client: Option<Box<dyn Client>>,
    /// Its end of its connection, connected or on its way.
    end: Option<EndId>,
    is_connected: bool,
    /// The alarm that counts: others were replaced.
    alarm: u32,
    /// It is to be called: no need to put that down again.
    is_notified: bool,
    /// What the call is to say beside that something is ready.
    special: Option<News>,
    has_left: bool,
}

impl State {
    /// A client begins, and is called for the first time when the world goes on.
    pub(crate) fn add_client(&mut self, client: Box<dyn Client>) -> u32 {
        let id = match self.vacant_clients.pop() {
            Some(id) => {
                self.clients[id as usize].begin(client);
                id
            }
            None => {
                self.clients.push(ClientSlot::new(client));
                u32::try_from(self.clients.len() - 1).expect("there are fewer clients")
            }
        };
        self.note(What::Client, u64::from(id), 0);
        let alarm = self.clients[id as usize].alarm;
        self.enter_after(0, Happening::Alarm(id, alarm));
        id
    }

    /// Something about a client's connection has changed.
    pub(crate) fn notify(&mut self, client: u32) {
        let slot = &mut self.clients[client as usize];
        if !std::mem::replace(&mut slot.is_notified, true) {
            self.enter_after(0, Happening::News(client));
        }
    }

    /// The other side has taken a client's connection up.
    pub(crate) fn connected(&mut self, end: EndId) {
        self.net.end_mut(end).under_way -= 1;
        let Owner::Client(client) = self.net.end(end).owner else {
            // It has gone meanwhile.
            return self.net.tidy(end);
        };
        let slot = &mut self.clients[client as usize];
        if slot.end == Some(end) {
            slot.is_connected = true;
            slot.special = Some(News::Connected);
            self.notify(client);
        }
    }

    /// Nobody will take a client's connection up.
    pub(crate) fn lose(&mut self, client: u32) {
        let slot = &mut self.clients[client as usize];
        slot.end = None;
        slot.is_connected = false;
        slot.special = Some(News::Refused);
        self.notify(client);
    }

    pub(crate) fn call_with_news(&mut self, client: u32) {
        let slot = &mut self.clients[client as usize];
        slot.is_notified = false;
        let news = slot.special.take();
        let Some(end) = slot.end else {
            if let Some(news) = news {
                self.call(client, news);
            }
            return;
        };
        if let Some(news) = news {
            self.call(client, news);
        }
        let is_still_there = self.clients[client as usize].end == Some(end);
        if is_still_there && self.clients[client as usize].is_connected {
            let ready = self.net.end(end).ready(self.net.end(end.other()));
            self.call(client, News::Ready(ready));
        }
    }

    pub(crate) fn call_with_alarm(&mut self, client: u32, alarm: u32) {
        if self.clients[client as usize].alarm == alarm {
            self.call(client, News::Time);
        }
    }

    fn call(&mut self, id: u32, news: News) {
        let Some(mut client) = self.clients[id as usize].client.take() else {
            return;
        };
        client.call(news, &mut Visit { state: self, id });
        if self.clients[id as usize].has_left {
            self.vacant_clients.push(id);
        } else {
            self.clients[id as usize].client = Some(client);
        }
    }

    /// Sets a client's alarm, in place of the one that it had.
    pub(crate) fn set_alarm(&mut self, client: u32, after_ns: u64) {
        let slot = &mut self.clients[client as usize];
        slot.alarm = slot.alarm.wrapping_add(1);
        let alarm = slot.alarm;
        self.enter_after(after_ns, Happening::Alarm(client, alarm));
    }

    /// A client sets out to an address; what it was connected to before is closed.
    pub(crate) fn connect_client(&mut self, client: u32, to: SocketAddr) {
        self.close_client(client);
        let end = self.connect(client, to);
        let slot = &mut self.clients[client as usize];
        slot.end = Some(end);
    }

    /// The end that a client may use.
    pub(crate) fn client_end(&self, client: u32) -> io::Result<EndId> {
        let slot = &self.clients[client as usize];
        let end = slot.end.filter(|_| slot.is_connected);
        end.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    pub(crate) fn take_client_end(&mut self, client: u32) -> Option<EndId> {
        let slot = &mut self.clients[client as usize];
        slot.is_connected = false;
        slot.special = None;
        slot.end.take()
    }

    pub(crate) fn close_client(&mut self, client: u32) {
        if let Some(end) = self.take_client_end(client) {
            self.close(end);
        }
    }

    pub(crate) fn reset_client(&mut self, client: u32) {
        if let Some(end) = self.take_client_end(client) {
            self.reset(end);
        }
    }

    /// A client is called no more.
    pub(crate) fn leave_world(&mut self, client: u32) {
        self.close_client(client);
        let slot = &mut self.clients[client as usize];
        slot.alarm = slot.alarm.wrapping_add(1);
        slot.has_left = true;
    }
}

impl ClientSlot {
    fn new(client: Box<dyn Client>) -> Self {
        Self {
            client: Some(client),
            end: None,
            is_connected: false,
            alarm: 0,
            is_notified: false,
            special: None,
            has_left: false,
        }
    }

    /// Another client in the same place; what was set for the one before does not count for it.
    fn begin(&mut self, client: Box<dyn Client>) {
        let (alarm, is_notified) = (self.alarm.wrapping_add(1), self.is_notified);
        *self = Self {
            alarm,
            is_notified,
            ..Self::new(client)
        };
    }
}
