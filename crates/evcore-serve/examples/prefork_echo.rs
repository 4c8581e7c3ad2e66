//! An echo server of four worker processes (or threads: `--threads`), which share one listener:
//!
//!     cargo run --release --example prefork_echo -- 127.0.0.1:7007
//!
//! `kill -HUP` replaces the workers, and the new ones take over the clients (with `--threads`, the
//! old workers stop as after QUIT). `kill -QUIT` stops the workers when their clients have gone, or
//! after 30 seconds. Ctrl-C and `kill` stop them at once. Send the signals to the first process.
use evcore::{Connections, EdgeStream, EventLoop, Step, Timer};
use evcore_serve::{Server, Worker};
use std::{env, error::Error, io, io::ErrorKind, mem, time::Duration};

const IDLE: Timer = Timer::new(0); // each connection has the timers 0 and 1, for any purpose
const IDLE_TIMEOUT: Duration = Duration::from_secs(60); // then a client that is silent is closed

/// The version of the state with which a client moves to another worker. The state is the bytes
/// that are not sent back yet.
const STATE_VERSION: u32 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args()
        .nth(1)
        .ok_or("usage: prefork_echo ADDRESS [--threads]")?;
    let server = Server::new(4).bind(address)?;
    for listener in server.listeners() {
        eprintln!("listening on {}", listener.local_addr());
    }
    let server = server.handover(STATE_VERSION);
    let server = server.on_event(|event| eprintln!("{event}"));
    let outcome = match env::args().nth(2).as_deref() {
        Some("--threads") => server.run_threads(work)?,
        _ => server.run(work)?,
    };
    eprintln!("stopped: {outcome:?}");
    Ok(())
}

/// Serves as a worker until it has to stop. An error means that its loop cannot go on.
fn work(mut worker: Worker) -> evcore::Result<()> {
    let mut clients = Connections::new();
    while worker.next_turn()? {
        while let Some(step) = worker.next_step() {
            handle(step, &mut worker.ev, &mut clients);
        }
        worker.hand_over(&mut clients, |_, rest| Some(mem::take(rest))); // if it is replaced
        while let Some(client) = worker.next_arrival() {
            let token = clients.insert(client.stream, client.state);
            worker.ev.arm(token, IDLE, IDLE_TIMEOUT);
        }
    }
    Ok(())
}

/// The clients of a worker, each with the bytes that are not sent back yet.
type Clients = Connections<Vec<u8>>;

fn handle(step: Step, ev: &mut EventLoop, clients: &mut Clients) {
    let (token, stays) = match step {
        Step::Accepted(new) => match clients.add(ev, new.stream, Vec::new()) {
            Ok(token) => (token, true),
            Err(_) => return, // dropped, and so closed
        },
        Step::Ready(token, ready) => {
            let (stream, rest) = clients.ready(token, ready).expect("it is open");
            let result = echo(stream, rest, ev).map_err(|error| error.kind());
            (token, result == Err(ErrorKind::WouldBlock))
        }
        Step::Expired(token, _) | Step::Evict(token) => (token, false),
        Step::Woken | Step::ShuttingDown => return, // `next_turn` handles stops
    };
    if stays {
        ev.arm(token, IDLE, IDLE_TIMEOUT);
    } else {
        clients.close(ev, token);
    }
}

/// Sends back the bytes that arrive, until a call would block. Always returns an error:
/// `WouldBlock` if a call would block, and `UnexpectedEof` at the end of the stream.
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
