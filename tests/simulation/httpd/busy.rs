//! A client that sends a request after each response. It keeps its connection until the server
//! announces the close, and then opens a new one.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use evcore_sim::{Client, ClientCx, ClientEvent, Sim};

use crate::{ADDRESS, answers};

/// The longest pause between a response and the next request. Together with the latency it is less
/// than the second in which the server still expects a request.
const PAUSE: Duration = Duration::from_millis(800);

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: sim\r\n\r\n";

#[derive(Clone, Debug, Default)]
pub(crate) struct Account(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    answered: u32,
    connections: u32,
    /// Number of connections that ended without an announcement.
    lost: u32,
}

#[derive(Debug)]
struct Busy {
    requests_left: u32,
    received: Vec<u8>,
    account: Account,
}

impl Account {
    pub(crate) fn of_new_client(sim: &Sim, requests: u32) -> Self {
        let account = Self::default();
        sim.add_client(Busy {
            requests_left: requests,
            received: Vec::new(),
            account: account.clone(),
        });
        account
    }

    pub(crate) fn answered(&self) -> u32 {
        self.counts().answered
    }

    pub(crate) fn connections(&self) -> u32 {
        self.counts().connections
    }

    pub(crate) fn lost(&self) -> u32 {
        self.counts().lost
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().expect("no panic")
    }
}

impl Client for Busy {
    fn on_event(&mut self, event: ClientEvent, cx: &mut ClientCx<'_>) {
        match event {
            ClientEvent::Started => cx.connect(ADDRESS.into()),
            ClientEvent::Expired if !cx.is_connected() => cx.connect(ADDRESS.into()),
            ClientEvent::Connected => {
                self.account.counts().connections += 1;
                let _ = cx.send(REQUEST);
            }
            // If the request cannot be sent, the next read counts it as lost.
            ClientEvent::Expired => drop(cx.send(REQUEST)),
            ClientEvent::Ready(_) => self.read(cx),
            _ => self.on_lost(cx),
        }
    }
}

impl Busy {
    fn read(&mut self, cx: &mut ClientCx<'_>) {
        let mut buffer = [0; 4096];
        loop {
            match cx.recv(&mut buffer) {
                Ok(0) => return self.on_lost(cx),
                Ok(n) => self.received.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => return self.on_lost(cx),
            }
            if !answers::complete(&self.received).is_empty() {
                return self.on_answer(cx);
            }
        }
    }

    fn on_answer(&mut self, cx: &mut ClientCx<'_>) {
        let answer = String::from_utf8(std::mem::take(&mut self.received)).expect("a text");
        self.account.counts().answered += 1;
        self.requests_left -= 1;
        if self.requests_left == 0 {
            return cx.exit();
        }
        if answer.contains("Connection: close") {
            cx.close();
        }
        let pause = cx.rng().duration(&(Duration::ZERO..=PAUSE));
        cx.arm(pause);
    }

    fn on_lost(&mut self, cx: &mut ClientCx<'_>) {
        self.account.counts().lost += 1;
        cx.exit();
    }
}
