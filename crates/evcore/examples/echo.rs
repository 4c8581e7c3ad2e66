//! Sends back what it is sent, and closes connections that are idle: `echo 127.0.0.1:7007 60`.
use evcore::{Connections, EdgeStream, EventLoop, Listener, Step, Timer};
use std::{env, error::Error, io, io::ErrorKind, time::Duration};

/// Sends back the bytes that arrive, until a call would block. Reads only if `rest` is empty.
fn echo(stream: &mut EdgeStream, rest: &mut Vec<u8>, ev: &mut EventLoop) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        if rest.is_empty() {
            match stream.recv(ev, &mut buffer)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                n => rest.extend_from_slice(&buffer[..n]),
            }
        }
        rest.drain(..stream.send(ev, rest)?); // perhaps only a part
    }
}

const IDLE: Timer = Timer::new(0); // each connection has the timers 0 and 1, for any purpose

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let mut next = || args.next().ok_or("usage: echo ADDRESS SECONDS");
    let listener = Listener::bind(next()?)?;
    let idle = Duration::from_secs_f64(next()?.parse()?);
    eprintln!("listening on {}", listener.local_addr());
    let mut clients = Connections::new();
    let builder = EventLoop::builder().listener(listener);
    let mut ev = builder.connections(10_000).build()?; // default 1,024: further clients wait
    while ev.wait()? {
        while let Some(step) = ev.next_step() {
            let (token, stays) = match step {
                Step::Accepted(new) => match clients.add(&mut ev, new.stream, Vec::new()) {
                    Ok(token) => (token, true),
                    Err(_) => continue, // dropped, and so closed
                },
                Step::Ready(token, ready) => {
                    let (stream, rest) = clients.ready(token, ready).expect("it is open");
                    let result = echo(stream, rest, &mut ev).map_err(|error| error.kind());
                    (token, result == Err(ErrorKind::WouldBlock))
                }
                Step::Expired(token, _) | Step::Evict(token) => (token, false),
                Step::Woken | Step::ShuttingDown => continue,
            };
            if stays {
                ev.arm(token, IDLE, idle);
            } else {
                clients.close(&mut ev, token); // no step carries this token any more
            }
        }
        while let Some(error) = ev.listeners().take_error() {
            eprintln!("{error}");
        }
    }
    Ok(()) // after a shutdown
}
