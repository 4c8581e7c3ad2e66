//! An echo server over mio that replaces its process and keeps its clients.
//!
//! `cargo run -p evcore-handover --example move_with_mio -- 127.0.0.1:8080`
//!
//! Each line comes back with the id of the process that answers. After the line `move` the server
//! starts its program again, gives it the listener and all clients, and ends.

use std::{
    collections::HashMap,
    env,
    error::Error,
    io::{self, Read, Write},
    iter,
    net::{TcpListener, TcpStream},
    os::fd::{AsFd, AsRawFd},
    process::{self, Command},
};

use evcore_handover::{Answer, Batch, Connection, Mailbox, Receiver, Sender};
use mio::{Events, Interest, Poll, Token, unix::SourceFd};

/// The version of the states. The first byte of a state is its kind. In a client's state, the bytes
/// that were received and are not answered yet follow the kind.
const STATE_VERSION: u32 = 1;
const OF_LISTENER: u8 = b'L';
const OF_CLIENT: u8 = b'C';

const LISTENER: Token = Token(0);
const MAILBOX: Token = Token(1);
const CHANNEL: Token = Token(2);
const FIRST_CLIENT: usize = 3;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result {
    let mut server = Server::new()?;
    if let Some(address) = env::args().nth(1) {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        watch(&server.poll, &listener, LISTENER)?;
        println!("listening on {}", listener.local_addr()?);
        server.listener = Some(listener);
        return server.run(None);
    }
    // The standard input of a successor is its mailbox.
    let mailbox = Mailbox::from_fd(io::stdin().as_fd().try_clone_to_owned()?, STATE_VERSION);
    watch(&server.poll, &mailbox, MAILBOX)?;
    server.run(Some(mailbox))
}

fn watch(poll: &Poll, source: &impl AsFd, token: Token) -> io::Result<()> {
    let fd = source.as_fd().as_raw_fd();
    let registry = poll.registry();
    registry.register(&mut SourceFd(&fd), token, Interest::READABLE)
}

struct Client {
    stream: TcpStream,
    line: Vec<u8>,
}

struct Server {
    poll: Poll,
    listener: Option<TcpListener>,
    clients: HashMap<Token, Client>,
    next: usize,
    /// Set when the server has read the line `move`.
    is_leaving: bool,
}

impl Server {
    fn new() -> Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            listener: None,
            clients: HashMap::new(),
            next: FIRST_CLIENT,
            is_leaving: false,
        })
    }

    fn run(mut self, mut mailbox: Option<Mailbox>) -> Result {
        let (mut events, mut receiver) = (Events::with_capacity(64), None);
        while !self.is_leaving {
            self.poll.poll(&mut events, None)?;
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    // A later event reports that the sender has closed its end of the mailbox.
                    MAILBOX if receiver.is_some() => {}
                    MAILBOX => {
                        let mailbox = mailbox.as_mut().expect("it is registered");
                        receiver = mailbox.next_receiver()?;
                        if let Some(receiver) = &receiver {
                            watch(&self.poll, receiver, CHANNEL)?;
                        }
                    }
                    CHANNEL => self.receive(receiver.as_mut().expect("it is registered"))?,
                    client if !self.is_leaving => self.answer(client),
                    _ => {}
                }
            }
        }
        self.leave()
    }

    fn accept(&mut self) -> Result {
        let listener = self.listener.as_ref().expect("it is registered");
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true)?;
            let token = Token(self.next);
            watch(&self.poll, &stream, token)?;
            self.next += 1;
            let line = Vec::new();
            self.clients.insert(token, Client { stream, line });
        }
        Ok(())
    }

    fn receive(&mut self, receiver: &mut Receiver) -> Result {
        loop {
            match receiver.receive() {
                Ok(Some(batch)) => self.take(batch)?,
                // The channel ends when the old process has given everything away and ended.
                Ok(None) | Err(evcore_handover::Error::Ended) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Registers each connection, and accepts the batch. If a registration fails, the batch is
    /// dropped, which refuses it.
    fn take(&mut self, batch: Batch<'_>) -> Result {
        let token = |first: usize, place: usize, state: &[u8]| match state.first() {
            Some(&OF_LISTENER) => LISTENER,
            _ => Token(first + place),
        };
        let first = self.next;
        for (place, connection) in batch.connections().iter().enumerate() {
            watch(
                &self.poll,
                connection,
                token(first, place, &connection.state),
            )?;
        }
        let connections = batch.accept()?;
        self.next += connections.len();
        for (
            place,
            Connection {
                descriptor, state, ..
            },
        ) in connections.into_iter().enumerate()
        {
            match token(first, place, &state) {
                LISTENER => self.listener = Some(TcpListener::from(descriptor)),
                token => {
                    let (stream, line) = (TcpStream::from(descriptor), state[1..].to_vec());
                    let mut client = Client { stream, line };
                    // Answers whole lines that the old process has received after `move`.
                    self.is_leaving |= client.take(&[]);
                    self.clients.insert(token, client);
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, token: Token) {
        let Some(client) = self.clients.get_mut(&token) else {
            return;
        };
        let mut bytes = [0; 1024];
        // After `move`, bytes are left for the next process to read.
        while !self.is_leaving {
            match client.stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => self.is_leaving = client.take(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => break,
            }
        }
        if !self.is_leaving {
            self.clients.remove(&token);
        }
    }

    fn leave(mut self) -> Result {
        let (address, mailbox) = Mailbox::pair(STATE_VERSION)?;
        let mailbox = mailbox.as_fd().try_clone_to_owned()?;
        Command::new(env::current_exe()?).stdin(mailbox).spawn()?;
        let mut sender = Sender::open(address, STATE_VERSION)?;
        watch(&self.poll, &sender, CHANNEL)?;
        let mut leaving = self.deregister_all()?;
        let mut events = Events::with_capacity(1);
        while !leaving.is_empty() || sender.unacknowledged() > 0 {
            sender.send(&mut leaving)?;
            self.poll.poll(&mut events, None)?;
            // Here the connections of a refused batch would come back, to be served or sent again.
            while let Some(answer) = sender.next_answer()? {
                assert!(matches!(answer, Answer::Acknowledged { .. }), "{answer:?}");
            }
        }
        Ok(())
    }

    /// Removes all connections from the poller. This process neither reads nor writes any more.
    fn deregister_all(&mut self) -> Result<Vec<Connection>> {
        let listener = self.listener.take().ok_or("the listener has not arrived")?;
        let clients = self.clients.drain();
        let state = |line: Vec<u8>| [&[OF_CLIENT], &line[..]].concat();
        let clients = clients.map(|(_, client)| Connection::new(client.stream, state(client.line)));
        let listener = Connection::new(listener, [OF_LISTENER]);
        let all: Vec<_> = iter::once(listener).chain(clients).collect();
        for connection in &all {
            let fd = connection.as_fd().as_raw_fd();
            self.poll.registry().deregister(&mut SourceFd(&fd))?;
        }
        Ok(all)
    }
}

impl Client {
    /// Answers whole lines up to `move`. Returns whether `move` was among them.
    fn take(&mut self, bytes: &[u8]) -> bool {
        self.line.extend(bytes);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let moves = line == b"move\n";
            let mut answer = format!("{} ", process::id()).into_bytes();
            answer.extend(line);
            // If the socket's buffer is full, the client loses the rest of the answer.
            let _ = self.stream.write_all(&answer);
            if moves {
                return true;
            }
        }
        false
    }
}
