//! Answers each line with the same line, under two timeouts: `timeouts 127.0.0.1:7007 5 60`.
//!
//! A client may be idle for 60 seconds, which means that it sends nothing, or does not read its
//! answers. A request, which is a line, has to be complete 5 seconds after its first byte. So a
//! client that sends single bytes cannot hold a connection for long.
//!
//! TERM stops the server gracefully: idle clients are closed, at the latest after a second, and the
//! others can finish their requests within 10 seconds.
use evcore::{Connections, EdgeStream, EventLoop, Listener, SendBuffer, Step, Timer};
use signal_hook::consts::SIGTERM;
use std::os::unix::net::UnixStream;
use std::{env, error::Error, io, io::ErrorKind, io::Read, time::Duration};

/// Each connection has two timers, for any purpose.
const IDLE: Timer = Timer::new(0);
const REQUEST: Timer = Timer::new(1);
/// The time that busy clients have when the server stops.
const STOP: Duration = Duration::from_secs(10);
/// The longest request, in bytes.
const LONGEST: usize = 8 * 1024;

struct Client {
    request: Vec<u8>,    // the part of a request that has arrived
    answers: SendBuffer, // the part of the answers that is not sent
}

impl Client {
    fn new() -> Self {
        Self {
            request: Vec::new(),
            answers: SendBuffer::bounded(2 * LONGEST), // it is empty when a request is received
        }
    }

    fn is_idle(&self) -> bool {
        self.request.is_empty() && self.answers.is_empty()
    }

    /// Sends all answers and then reads, again and again until a call would block. The end of the
    /// stream is returned as an error, too.
    fn serve(
        &mut self,
        stream: &mut EdgeStream,
        ev: &mut EventLoop,
        whole: Duration,
    ) -> io::Result<()> {
        loop {
            self.answers.flush(&mut stream.io(ev))?;
            let begins = self.request.is_empty();
            self.receive(stream, ev)?;
            if self.request.is_empty() {
                ev.disarm(stream.token(), REQUEST);
            } else if begins || !self.answers.is_empty() {
                ev.arm(stream.token(), REQUEST, whole); // later bytes do not move it
            }
        }
    }

    /// Reads once, and answers complete requests.
    fn receive(&mut self, stream: &mut EdgeStream, ev: &mut EventLoop) -> io::Result<()> {
        self.request.reserve(LONGEST);
        if stream.recv_buf(ev, &mut self.request)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let end = self.request.iter().rposition(|byte| *byte == b'\n');
        let whole = end.map_or(0, |at| at + 1);
        self.answers.push(&self.request[..whole]);
        self.request.drain(..whole);
        if self.request.len() > LONGEST {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let mut next = || {
        args.next()
            .ok_or("usage: timeouts ADDRESS REQUEST_SECONDS IDLE_SECONDS")
    };
    let listener = Listener::bind(next()?)?;
    let whole = Duration::from_secs_f64(next()?.parse()?);
    let idle = Duration::from_secs_f64(next()?.parse()?);
    eprintln!("listening on {}", listener.local_addr());
    let mut clients = Connections::new();
    let mut ev = EventLoop::builder().listener(listener).build()?;
    let (mut signals, handler) = UnixStream::pair()?;
    signals.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGTERM, handler)?; // the handler writes a byte
    let stops = ev.add_background(&signals)?; // keeps no shutdown waiting
    while ev.wait()? {
        while let Some(step) = ev.next_step() {
            match step {
                Step::Accepted(new) => {
                    // If this fails, the stream is dropped, which closes it.
                    if let Ok(token) = clients.add(&mut ev, new.stream, Client::new()) {
                        ev.arm(token, IDLE, idle);
                        ev.set_idle(token);
                    }
                }
                Step::Ready(token, _) if token == stops => {
                    while signals.read(&mut [0; 64]).is_ok() {} // until it would block
                    ev.shutdown(STOP);
                }
                Step::Ready(token, ready) => {
                    let (stream, client) = clients.ready(token, ready).expect("it is open");
                    let result = client.serve(stream, &mut ev, whole);
                    if result.is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
                        clients.close(&mut ev, token); // no step carries this token any more
                    } else {
                        ev.arm(token, IDLE, idle); // the client has sent or read something
                        let _ = match client.is_idle() {
                            true => ev.set_idle(token),
                            false => ev.set_busy(token),
                        };
                    }
                }
                Step::Expired(token, _) | Step::Evict(token) => _ = clients.close(&mut ev, token),
                Step::Woken | Step::ShuttingDown => {}
            }
        }
        while let Some(error) = ev.listeners().take_error() {
            eprintln!("{error}");
        }
    }
    Ok(())
}
