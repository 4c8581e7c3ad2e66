//! An echo server: a listener of evcore-net in a loop of mio.
//!
//! `cargo run -p evcore-net --example with_mio -- 127.0.0.1:0`

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};
use std::{env, error::Error, io};

use evcore_net::{Accept, Backoff, Listener, Stream};
use mio::{Events, Interest, Poll, Registry, Token, unix::SourceFd};

const LISTENER: Token = Token(0);
const ALL: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// A connection, and the bytes that were received and not sent back yet.
type Connection = (Stream, Vec<u8>);

/// Echoes until a call would block. After 16 rounds it returns, so that other clients get their
/// turn. mio reports an edge once, so the connection is registered again to get a new report.
fn echo((stream, unsent): &mut Connection, registry: &Registry, token: Token) -> io::Result<()> {
    let mut buffer = [0; 4096];
    for _ in 0..16 {
        while !unsent.is_empty() {
            unsent.drain(..stream.send(unsent)?); // it may send only some
        }
        match stream.recv(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => unsent.extend_from_slice(&buffer[..n]),
        }
    }
    let fd = stream.as_fd().as_raw_fd();
    registry.reregister(&mut SourceFd(&fd), token, ALL)
}

fn main() -> Result<(), Box<dyn Error>> {
    let listener = Listener::bind(env::args().nth(1).ok_or("usage: with_mio ADDRESS")?)?;
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(256));
    let registry = poll.registry().try_clone()?;
    let fd = listener.as_fd().as_raw_fd();
    registry.register(&mut SourceFd(&fd), LISTENER, ALL)?;
    eprintln!("listening on {}", listener.local_addr());
    let (mut connections, mut last) = (HashMap::<Token, Connection>::new(), LISTENER);
    let (started, mut backoff) = (Instant::now(), Backoff::new());
    loop {
        let left = |end: Duration| end.saturating_sub(started.elapsed());
        match poll.poll(&mut events, backoff.resumes_at().map(left)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        let mut accepts = backoff.expire(started.elapsed());
        for token in events.iter().map(|event| event.token()) {
            accepts |= token == LISTENER && backoff.resumes_at().is_none();
            let connection = connections.get_mut(&token);
            let echoed = connection.map_or(Ok(()), |connection| echo(connection, &registry, token));
            if echoed.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
                connections.remove(&token);
                accepts |= backoff.descriptor_closed();
            }
        }
        while accepts {
            match listener.accept()? {
                Accept::Connection(stream, _) => {
                    let fd = stream.as_fd().as_raw_fd();
                    last = Token(last.0 + 1);
                    if registry.register(&mut SourceFd(&fd), last, ALL).is_ok() {
                        connections.insert(last, (stream, Vec::new()));
                    }
                }
                Accept::Aborted => {}
                Accept::WouldBlock => accepts = false,
                Accept::Exhausted(resource) => {
                    eprintln!("{resource}");
                    backoff.pause(started.elapsed());
                    accepts = false;
                }
            }
        }
    }
}
