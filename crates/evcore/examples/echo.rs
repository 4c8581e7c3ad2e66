//! Sends back what it is sent, and closes connections that are idle: `echo 127.0.0.1:7007 60`.
use evcore::{Connections, EventLoop, Interest, Listener, Mode, Step, Stream, Timer};
use std::{env, error::Error, io, time::Duration};

/// Reads only if nothing is left to send in `rest`: a client that does not read is not read from.
fn echo(stream: &Stream, rest: &mut Vec<u8>) -> io::Result<()> {
    if rest.is_empty() {
        let mut buffer = [0; 16 * 1024];
        match stream.recv(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => rest.extend_from_slice(&buffer[..n]),
        }
    }
    rest.drain(..stream.send(rest)?); // perhaps not all of it
    Ok(())
}

const IDLE: Timer = Timer::new(0); // each connection has the timers 0 and 1, for any purpose

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let listener = Listener::bind(args.next().ok_or("listen where?")?)?;
    let idle = Duration::from_secs_f64(args.next().ok_or("idle for how many seconds?")?.parse()?);
    eprintln!("listening on {}", listener.local_addr());
    let mut clients = Connections::new();
    let mut ev = EventLoop::builder().listener(listener).build()?;
    loop {
        ev.wait()?; // an error means that the loop cannot go on
        while let Some(step) = ev.next_step() {
            let (token, stays) = match step {
                Step::Accepted(new) => {
                    let Ok(token) = ev.add(&new.stream, Interest::READ, Mode::Level) else {
                        continue; // dropped, and so closed
                    };
                    clients.insert(token, (new.stream, Vec::new()));
                    (token, true)
                }
                Step::Ready(token, _) => {
                    let (stream, rest) = clients.get_mut(token).expect("it is open");
                    let failed = echo(stream, rest).err();
                    let all = rest.is_empty();
                    ev.modify(token, if all { Interest::READ } else { Interest::WRITE })?;
                    let blocks = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
                    (token, failed.is_none_or(blocks))
                }
                Step::Expired(token, _) | Step::Evict(token) => (token, false),
                Step::Woken => continue,
            };
            if stays {
                ev.arm(token, IDLE, idle);
            } else {
                clients.close(&mut ev, token); // no step carries this token any more
            }
        }
        while let Some(error) = ev.take_listener_error() {
            eprintln!("{error}");
        }
    }
}
