//! A chat over WebSocket, whose clients stay connected when the server is replaced:
//!
//!     cargo run --release --example rooms -- 127.0.0.1:7007
//!
//! A client of `ws://127.0.0.1:7007/tea` gets each text that another client of the room `/tea`
//! sends. `kill -HUP` replaces the worker. `kill -USR2` and then `kill -QUIT` replace the program.
//! A client moves with the name of its room, the received part of its next message, and its unsent
//! bytes.
//!
//! There is one worker, because the rooms are in its memory. Many clients move in several batches,
//! so for some milliseconds a text reaches only the clients in the worker of its sender.
use evcore::{Connections, EdgeStream, EventLoop, Step, Token};
use evcore_serve::{Arrival, Server, Worker};
use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::{env, error::Error, mem};
use tungstenite::handshake::server::{Request, Response};
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameHeader};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket, accept_hdr};

const STATE_VERSION: u32 = 1;
/// The limits of a client's unfinished message and of the bytes not yet sent to it. The server
/// closes a client that exceeds a limit, so that a client's state is never too long to move.
const RECEIVED_MAX: usize = 8 * 1024;
const UNSENT_MAX: usize = 32 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).ok_or("usage: rooms ADDRESS")?;
    let server = Server::new(1).bind(address)?;
    for listener in server.listeners() {
        eprintln!("listening on {}", listener.local_addr());
    }
    let server = server.handover(STATE_VERSION);
    server.on_event(|event| eprintln!("{event}")).run(work)?;
    Ok(())
}

#[derive(Default)]
struct Client {
    room: String,      // empty before the handshake
    received: Vec<u8>, // the handshake or message that has not arrived completely
    unsent: Vec<u8>,
}

fn work(mut worker: Worker) -> evcore::Result<()> {
    let mut clients = Connections::new();
    while worker.next_turn()? {
        while let Some(step) = worker.next_step() {
            handle(step, &mut worker.ev, &mut clients);
        }
        worker.hand_over(&mut clients, |_, client| Some(client.leave()));
        while let Some(Arrival { stream, state, .. }) = worker.next_arrival() {
            let client = Client::from_state(&state).unwrap_or_default();
            worker.ev.set_idle(clients.insert(stream, client));
        }
    }
    Ok(())
}

fn handle(step: Step, ev: &mut EventLoop, clients: &mut Connections<Client>) {
    match step {
        Step::Accepted(new) => _ = clients.add(ev, new.stream, Client::default()),
        Step::Ready(token, ready) => {
            let (stream, client) = clients.ready(token, ready).expect("it is open");
            let mut texts = Vec::new();
            let served = client.serve(stream, ev, &mut texts);
            ev.set_idle(token); // if the worker stops without a successor, the loop closes it
            let texts = texts.iter(); // passed on even if their sender has gone since
            texts.for_each(|text| say(text, token, ev, clients));
            if served.is_err() {
                clients.close(ev, token);
            }
        }
        Step::Expired(token, _) | Step::Evict(token) => _ = clients.close(ev, token),
        Step::Woken | Step::ShuttingDown => {}
    }
}

/// Sends a text to the other clients of a client's room, and closes those that do not read.
fn say(text: &str, from: Token, ev: &mut EventLoop, clients: &mut Connections<Client>) {
    let mut frame = Vec::new();
    let text = Frame::message(text.to_owned(), OpCode::Data(Data::Text), true);
    text.format(&mut frame).expect("a vector takes it");
    let room = clients.get(from).map(|(_, client)| client.room.clone());
    let mut lost = Vec::new();
    for (token, (stream, client)) in clients.iter_mut() {
        if Some(&client.room) == room.as_ref() && token != from {
            client.unsent.extend_from_slice(&frame);
            if client.flush(stream, ev).is_err() {
                lost.push(token);
            }
        }
    }
    lost.into_iter()
        .for_each(|token| _ = clients.close(ev, token));
}

impl Client {
    /// Receives and sends until both would block. Appends the texts that the client has sent to
    /// `texts`.
    fn serve(
        &mut self,
        stream: &mut EdgeStream,
        ev: &mut EventLoop,
        texts: &mut Vec<String>,
    ) -> Result<(), Box<dyn Error>> {
        let mut buffer = [0; 4096];
        loop {
            self.flush(stream, ev)?;
            match stream.recv(ev, &mut buffer) {
                Ok(0) => return Err("it has gone".into()),
                Ok(n) => self.received.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            while let Some(end) = self.whole_message()? {
                let message: Vec<u8> = self.received.drain(..end).collect();
                texts.extend(self.on_message(&message)?);
            }
            if self.received.len() > RECEIVED_MAX {
                return Err("it is too long".into());
            }
        }
    }

    fn flush(&mut self, stream: &mut EdgeStream, ev: &mut EventLoop) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match stream.send(ev, &self.unsent) {
                Ok(n) => drop(self.unsent.drain(..n)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.unsent.len() > UNSENT_MAX {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// The length of the handshake or message at the beginning of `received`, if it is whole.
    fn whole_message(&self) -> Result<Option<usize>, Box<dyn Error>> {
        if self.room.is_empty() {
            let end = self
                .received
                .windows(4)
                .position(|four| four == b"\r\n\r\n");
            return Ok(end.map(|at| at + 4));
        }
        let (mut at, mut has_begun) = (0, false);
        loop {
            let mut cursor = Cursor::new(&self.received[at..]);
            let Some((header, length)) = FrameHeader::parse(&mut cursor)? else {
                return Ok(None);
            };
            at += usize::try_from(cursor.position().saturating_add(length))?;
            if at > self.received.len() {
                return Ok(None);
            }
            match header.opcode {
                OpCode::Control(_) if has_begun => {} // between two parts of a message
                OpCode::Data(_) if !header.is_final => has_begun = true,
                _ => return Ok(Some(at)),
            }
        }
    }

    /// Answers a handshake or a message. Returns the message if it is a text.
    fn on_message(&mut self, bytes: &[u8]) -> Result<Option<String>, Box<dyn Error>> {
        let wire = Wire {
            received: bytes,
            sent: Vec::new(),
        };
        if self.room.is_empty() {
            let mut room = String::new();
            #[allow(clippy::result_large_err, reason = "tungstenite's signature")]
            let accepted = accept_hdr(wire, |request: &Request, response: Response| {
                request.uri().path().clone_into(&mut room);
                Ok(response)
            });
            let socket = accepted.map_err(|error| error.to_string())?;
            self.room = room;
            self.unsent.extend(socket.into_inner().sent);
            return Ok(None);
        }
        let options = WebSocketConfig::default().read_buffer_size(1024);
        let mut socket = WebSocket::from_raw_socket(wire, Role::Server, Some(options));
        let mut text = None;
        let result = loop {
            match socket.read() {
                Ok(Message::Text(whole)) => text = Some(whole.to_string()),
                Ok(Message::Close(_)) => break Err("good-bye".into()),
                Ok(_) => {} // a ping may come between two parts of a text
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                    break Ok(text);
                }
                Err(error) => break Err(error.into()),
            }
        };
        socket.flush()?; // the answer to a ping
        self.unsent.append(&mut socket.get_mut().sent);
        result
    }

    /// Returns the client's state: its room and the number of received bytes, a line each, then the
    /// received and the unsent bytes.
    fn leave(&mut self) -> Vec<u8> {
        let mut state = format!("{}\n{}\n", self.room, self.received.len()).into_bytes();
        state.append(&mut mem::take(&mut self.received));
        state.append(&mut mem::take(&mut self.unsent));
        state
    }

    fn from_state(state: &[u8]) -> Option<Self> {
        let mut parts = state.splitn(3, |byte| *byte == b'\n');
        let mut text = || String::from_utf8(parts.next()?.to_vec()).ok();
        let (room, length) = (text()?, text()?.parse().ok()?);
        let (received, unsent) = parts.next()?.split_at_checked(length)?;
        let (received, unsent) = (received.to_vec(), unsent.to_vec());
        Some(Self {
            room,
            received,
            unsent,
        })
    }
}

/// The stream that tungstenite reads and writes, in memory.
struct Wire<'a> {
    received: &'a [u8],
    sent: Vec<u8>,
}

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.received.read(buffer)? {
            0 => Err(ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
