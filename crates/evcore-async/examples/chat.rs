//! A chat over WebSocket: each client gets the messages of the others.
//!
//!     cargo run --example chat -- 127.0.0.1:7007
//!
//! A client for which more than 100 messages wait is disconnected. Ctrl-C ends the server. The
//! server is one process, because the room is in its memory. Several workers would need a broker
//! between them. The example `rooms` of `evcore-serve` keeps its clients in a reload.
use std::{cell::RefCell, collections::HashMap, env, error::Error, rc::Rc, time::Duration};

use async_channel::{Receiver, Sender};
use async_tungstenite::{accept_async, tungstenite::Message};
use evcore_async::{Runtime, TcpListener, TcpStream, spawn_local, timeout};
use futures_lite::{StreamExt, future::or};

const WAITING_MAX: usize = 100;
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// The clients by their numbers.
#[derive(Default)]
struct Room {
    clients: RefCell<HashMap<u64, Place>>,
}

struct Place {
    queue: Sender<Message>,
    /// Dropping this sender ends the task of the client.
    _stay: Sender<()>,
}

impl Room {
    /// Sends a message to all clients except its sender. A client that is too slow loses its place.
    fn broadcast(&self, from: u64, message: &Message) {
        let mut clients = self.clients.borrow_mut();
        clients.retain(|client, place| {
            *client == from || place.queue.try_send(message.clone()).is_ok()
        });
    }
}

/// A guard that takes a client out of the room when the guard is dropped.
struct Member {
    room: Rc<Room>,
    number: u64,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.room.clients.borrow_mut().remove(&self.number);
    }
}

async fn serve(stream: TcpStream, room: Rc<Room>, number: u64) -> Result<(), Box<dyn Error>> {
    let socket = timeout(HANDSHAKE_MAX, accept_async(stream)).await??;
    let (mut sender, mut receiver) = socket.split();
    let (queue, waiting) = async_channel::bounded(WAITING_MAX);
    let (stay, left) = async_channel::bounded::<()>(1);
    room.clients
        .borrow_mut()
        .insert(number, Place { queue, _stay: stay });
    let member = Member { room, number };
    // A second task sends the messages of the queue, and ends when the queue is closed and empty.
    let writer = spawn_local(async move {
        while let Ok(message) = waiting.recv().await {
            sender.send(message).await?;
        }
        sender.close(None).await
    });
    while let Some(message) = or(receiver.next(), end_of_stay(&left)).await {
        match message? {
            Message::Close(_) => break,
            message if message.is_text() || message.is_binary() => {
                member.room.broadcast(member.number, &message);
            }
            _ => {} // pings are answered by the library
        }
    }
    if left.is_closed() {
        writer.abort(); // it waits for the client
        return Err("it does not read".into());
    }
    drop(member);
    Ok(writer.await??)
}

/// Waits until the client has lost its place.
async fn end_of_stay<T>(left: &Receiver<()>) -> Option<T> {
    let _ = left.recv().await;
    None
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).ok_or("usage: chat ADDRESS")?;
    Runtime::new()?.block_on(async {
        let listener = TcpListener::bind(address.as_str())?;
        eprintln!("listening on {}", listener.local_addr());
        let room = Rc::new(Room::default());
        for number in 0.. {
            let (stream, peer) = listener.accept().await?;
            let room = Rc::clone(&room);
            drop(spawn_local(async move {
                if let Err(error) = serve(stream, room, number).await {
                    eprintln!("{peer}: {error}"); // the error concerns only this client
                }
            }));
        }
        Ok(())
    })?
}
