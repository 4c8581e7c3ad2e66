//! Answers each line with the same line, under two timeouts: `timeouts 127.0.0.1:7007 5 60`.
//!
//! A client may be idle for 60 seconds: it sends nothing, or does not read its answers. A request, which
//! is a line, has to be complete 5 seconds after its first byte. So a client that sends a byte now and
//! then, and is never idle, cannot hold a connection for long.
use evcore::{Connections, EventLoop, Interest, Listener, Mode, Step, Stream, Timer};
use std::{env, error::Error, io, io::ErrorKind, time::Duration};

/// Each connection has two timers, for any purpose.
const IDLE: Timer = Timer::new(0);
const REQUEST: Timer = Timer::new(1);
/// The longest request, in bytes.
const LONGEST: usize = 8 * 1024;

#[derive(Default)]
struct Client {
    /// The part of a request that has arrived.
    request: Vec<u8>,
    /// The part of the answers that is not sent.
    answers: Vec<u8>,
}

impl Client {
    /// Reads if all answers are sent, and sends answers. Returns whether a request was completed.
    fn serve(&mut self, stream: &Stream) -> io::Result<bool> {
        let reads = self.answers.is_empty();
        if reads {
            let mut buffer = [0; LONGEST];
            match stream.recv(&mut buffer)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                n => self.request.extend_from_slice(&buffer[..n]),
            }
            let end = self.request.iter().rposition(|byte| *byte == b'\n');
            let whole = self.request.drain(..end.map_or(0, |at| at + 1));
            self.answers.extend(whole);
            if self.request.len() > LONGEST {
                return Err(ErrorKind::InvalidData.into());
            }
        }
        let completed = reads && !self.answers.is_empty();
        match stream.send(&self.answers) {
            Ok(sent) => drop(self.answers.drain(..sent)), // perhaps not all of them
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(completed)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let listener = Listener::bind(args.next().ok_or("listen where?")?)?;
    let whole = Duration::from_secs_f64(args.next().ok_or("seconds for a request?")?.parse()?);
    let idle = Duration::from_secs_f64(args.next().ok_or("idle for how many seconds?")?.parse()?);
    eprintln!("listening on {}", listener.local_addr());
    let mut clients = Connections::new();
    let mut ev = EventLoop::builder().listener(listener).build()?;
    loop {
        ev.wait()?; // an error means that the loop cannot go on
        while let Some(step) = ev.next_step() {
            match step {
                Step::Accepted(new) => {
                    let Ok(token) = ev.add(&new.stream, Interest::READ, Mode::Level) else {
                        continue; // dropped, and so closed
                    };
                    clients.insert(token, (new.stream, Client::default()));
                    ev.arm(token, IDLE, idle);
                }
                Step::Ready(token, _) => {
                    let (stream, client) = clients.get_mut(token).expect("it is open");
                    let begins = client.request.is_empty();
                    let completed = match client.serve(stream) {
                        Ok(completed) => completed,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                        Err(_) => {
                            clients.close(&mut ev, token); // no step carries this token any more
                            continue;
                        }
                    };
                    ev.arm(token, IDLE, idle);
                    if client.request.is_empty() {
                        ev.disarm(token, REQUEST);
                    } else if begins || completed {
                        ev.arm(token, REQUEST, whole); // the next bytes do not move it
                    }
                    let all = client.answers.is_empty();
                    ev.modify(token, if all { Interest::READ } else { Interest::WRITE })?;
                }
                Step::Expired(token, _) | Step::Evict(token) => {
                    clients.close(&mut ev, token);
                }
                Step::Woken => {}
            }
        }
        while let Some(error) = ev.take_listener_error() {
            eprintln!("{error}");
        }
    }
}
