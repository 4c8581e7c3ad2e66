//! The load: many clients that wait at the same time.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;

use super::client::{Answer, Client};

/// The most events of one wait.
const BATCH: usize = 256;

/// Clients, by the order in which they came.
pub(super) struct Load {
    set: OwnedFd,
    clients: Vec<Option<Client>>,
    events: Vec<Event>,
    waiting: usize,
}

/// The outcome of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Which client it was.
    pub(super) client: usize,
    /// `None` if the server ended the connection instead of answering.
    pub(super) answer: Option<Answer>,
}

impl Load {
    /// Creates a load without clients.
    pub(super) fn new() -> Load {
        Load {
            set: epoll::create(CreateFlags::CLOEXEC).expect("there is a descriptor left"),
            clients: Vec::new(),
            events: Vec::with_capacity(BATCH),
            waiting: 0,
        }
    }

    /// Adds a client, which sends its request at once. Returns its index.
    pub(super) fn join(&mut self, address: SocketAddr, path: &str) -> usize {
        let mut client = Client::connect(address).expect("the kernel takes the connection");
        client.ask(path).expect("there is room for a request");
        let index = self.clients.len();
        let data = EventData::new_u64(index as u64);
        epoll::add(&self.set, &client.stream, data, EventFlags::IN).expect("it is new");
        self.clients.push(Some(client));
        self.waiting += 1;
        index
    }

    /// The number of clients without a response and without a closed connection.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Waits for events, at most `most`, and returns the outcomes.
    pub(super) fn wait(&mut self, most: Duration) -> Vec<Outcome> {
        self.events.clear();
        let most = Timespec::try_from(most).expect("it is short");
        let places = spare_capacity(&mut self.events);
        epoll::wait(&self.set, places, Some(&most)).expect("no signal comes");
        let ready: Vec<usize> = self.events.iter().map(index).collect();
        let outcomes: Vec<Outcome> = ready.into_iter().filter_map(|i| self.receive(i)).collect();
        self.waiting -= outcomes.len();
        outcomes
    }

    /// Waits until no client waits, and returns the outcomes.
    ///
    /// # Panics
    ///
    /// If there is no event for as long as `patience`.
    pub(super) fn wait_for_all(&mut self, patience: Duration) -> Vec<Outcome> {
        let mut all = Vec::new();
        while self.waiting > 0 {
            let some = self.wait(patience);
            assert!(!some.is_empty(), "{} clients wait in vain", self.waiting);
            all.extend(some);
        }
        all
    }

    /// Closes a client's connection.
    pub(super) fn leave(&mut self, client: usize) {
        self.clients[client] = None;
    }

    fn receive(&mut self, index: usize) -> Option<Outcome> {
        let client = self.clients[index].as_mut()?;
        let (client, answer) = match client.receive() {
            Ok(None) => return None,
            Ok(Some(answer)) => (index, Some(answer)),
            Err(_) => (index, None),
        };
        // Later events are ignored.
        epoll::delete(&self.set, &self.clients[index].as_ref()?.stream).expect("it is watched");
        if answer.is_none() {
            self.leave(index);
        }
        Some(Outcome { client, answer })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it was an index before")]
fn index(event: &Event) -> usize {
    event.data.u64() as usize
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn each_client_has_one_outcome() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut load = Load::new();
        let (first, second) = (load.join(address, "/worker"), load.join(address, "/"));
        let (mut answered, _) = listener.accept().unwrap();
        let request = answered.read(&mut [0; 1024]).unwrap();
        assert!(request > 0);
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n42";
        answered.write_all(answer).unwrap();
        drop(listener.accept().unwrap());
        let mut outcomes = load.wait_for_all(PATIENCE);
        outcomes.sort_by_key(|outcome| outcome.client);
        let workers = outcomes
            .iter()
            .map(|o| (o.client, o.answer.map(|a| a.worker)));
        let expected = [(first, Some(42)), (second, None)];
        assert_eq!(workers.collect::<Vec<_>>(), expected);
        // The later end of the connection is no event.
        drop(answered);
        assert!(load.wait(Duration::ZERO).is_empty());
        assert_eq!(load.waiting(), 0);
    }
}
