//! Sends a message a few times, and prints how long each answer takes. With the example `echo` there:
//!
//!     cargo run --release --example client -- 127.0.0.1:7007 3 5
//!
//! sends three messages. Connecting takes at most five seconds, and so does each answer.
use evcore::{EdgeStream, EventLoop, Step, Stream, Timer};
use std::{env, error::Error, io, io::ErrorKind, time::Duration, time::Instant};

const MESSAGE: &[u8] = b"ping\n";
const TIMEOUT: Timer = Timer::new(0); // first for connecting, then for each answer

/// How much of the message is sent, and how much of it has come back.
#[derive(Default)]
struct Exchange {
    sent: usize,
    received: usize,
}

/// Sends the message and receives it again. Fails with `WouldBlock` until all of it is back.
fn talk(stream: &mut EdgeStream, now: &mut Exchange, ev: &mut EventLoop) -> io::Result<()> {
    while now.sent < MESSAGE.len() {
        now.sent += stream.send(ev, &MESSAGE[now.sent..])?;
    }
    while now.received < MESSAGE.len() {
        let mut buffer = [0; MESSAGE.len()];
        match stream.recv(ev, &mut buffer[now.received..])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => now.received += n,
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let stream = Stream::connect(args.next().ok_or("connect where?")?.as_str())?;
    let mut left: u32 = args.next().ok_or("how many messages?")?.parse()?;
    let timeout = args.next().ok_or("how many seconds?")?;
    let timeout = Duration::from_secs_f64(timeout.parse()?);

    let mut ev = EventLoop::builder().build()?;
    let mut stream = EdgeStream::add(&mut ev, stream)?; // ready when it is connected, or has failed
    ev.arm(stream.token(), TIMEOUT, timeout);
    let (mut is_connected, mut exchange, mut began) = (false, Exchange::default(), Instant::now());
    while left > 0 {
        ev.wait()?;
        while let Some(step) = ev.next_step() {
            match step {
                Step::Ready(_, ready) => stream.on_ready(ready),
                Step::Expired(..) => return Err(io::Error::from(ErrorKind::TimedOut).into()),
                _ => continue, // no other step can come: nothing listens, wakes or is idle
            }
            if !is_connected {
                stream.get_ref().take_error()?.map_or(Ok(()), Err)?;
                println!("connected in {:?}", began.elapsed());
                (is_connected, began) = (true, Instant::now());
                ev.arm(stream.token(), TIMEOUT, timeout);
            }
            while left > 0 {
                match talk(&mut stream, &mut exchange, &mut ev) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    result => result?,
                }
                println!("answered in {:?}", began.elapsed());
                (left, exchange, began) = (left - 1, Exchange::default(), Instant::now());
                ev.arm(stream.token(), TIMEOUT, timeout);
            }
        }
    }
    Ok(())
}
