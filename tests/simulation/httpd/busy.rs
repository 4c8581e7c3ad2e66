//! A client that keeps one connection busy: a request after each answer, until the server
//! announces the end; then the same on a new one.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use evcore_sim::{Client, News, Visit, World};

use crate::{ADDRESS, answers};

/// The longest time between an answer and the next request: with the way of both, it is less than
/// the second in which the server still expects a request.
const PAUSE: Duration = Duration::from_millis(800);

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: sim\r\n\r\n";

/// What became of a client's requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    answered: u32,
    connections: u32,
    /// The connection ended, and no answer had announced it.
    lost: u32,
}

#[derive(Debug)]
struct Busy {
    requests_left: u32,
    received: Vec<u8>,
    account: Account,
}

impl Account {
    /// A client comes, for so many requests.
    pub(crate) fn of_a_client(world: &World, requests: u32) -> Self {
        let account = Self::default();
        world.add_client(Busy {
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
        self.0.lock().expect("nobody panicked")
    }
}

impl Client for Busy {
    fn call(&mut self, news: News, me: &mut Visit<'_>) {
        match news {
            News::Time if !me.is_connected() => me.connect(ADDRESS.into()),
            News::Connected => {
                self.account.counts().connections += 1;
                let _ = me.send(REQUEST);
            }
            // A request that cannot be sent is seen as lost when the end is read.
            News::Time => drop(me.send(REQUEST)),
            News::Ready(_) => self.read(me),
            _ => self.lose(me),
        }
    }
}

impl Busy {
    fn read(&mut self, me: &mut Visit<'_>) {
        let mut buffer = [0; 4096];
        loop {
            match me.recv(&mut buffer) {
                Ok(0) => return self.lose(me),
                Ok(n) => self.received.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => return self.lose(me),
            }
            if !answers::complete(&self.received).is_empty() {
                return self.answered(me);
            }
        }
    }

    fn answered(&mut self, me: &mut Visit<'_>) {
        let answer = String::from_utf8(std::mem::take(&mut self.received)).expect("a text");
        self.account.counts().answered += 1;
        self.requests_left -= 1;
        if self.requests_left == 0 {
            return me.leave();
        }
        if answer.contains("Connection: close") {
            me.close();
        }
        let pause = me.rng().time(&(Duration::ZERO..=PAUSE));
        me.after(pause);
    }

    fn lose(&mut self, me: &mut Visit<'_>) {
        self.account.counts().lost += 1;
        me.leave();
    }
}
