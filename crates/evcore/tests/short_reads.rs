//! Short reads as `Stream::recv` documents them, over the kernel. A program that follows that
//! documentation finds every end of a stream.

use std::{
    io::{ErrorKind, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use evcore::{
    EventLoop, Interest, Listener, Mode, Step, Stream, Timer, Token, poller::BackendKind,
};

/// A time limit, far longer than a test takes.
const DEADLINE: Duration = Duration::from_secs(30);

/// Reads as `Stream::recv` documents: a short read is the last one, unless the end was reported.
/// Returns whether the end was found.
fn reads_to_the_end(ev: &mut EventLoop, stream: &Stream, token: Token, ending: bool) -> bool {
    let mut buffer = [0; 16];
    loop {
        match stream.recv(&mut buffer) {
            Ok(0) => return true,
            Ok(n) if n == buffer.len() || ending => {}
            Ok(_) => break,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
    }
    assert!(ev.rearm(token, Interest::READ));
    false
}

#[test]
fn a_short_read_is_the_last_one_unless_the_end_was_reported() {
    for kind in &BackendKind::usable() {
        for together in [true, false] {
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr()).unwrap();
            let builder = EventLoop::builder().listener(listener).poller(*kind);
            let mut ev = builder.build().unwrap();
            ev.wait().unwrap();
            let Some(Step::Accepted(new)) = ev.next_step() else {
                panic!("it has connected");
            };
            client.write_all(b"data").unwrap();
            if together {
                client.shutdown(Shutdown::Write).unwrap();
            }
            let mut ending = false;
            let token = ev.add(&new.stream, Interest::READ, Mode::Edge).unwrap();
            ev.arm(token, Timer::READ, DEADLINE);
            loop {
                ev.wait().unwrap();
                let Some(Step::Ready(_, ready)) = ev.next_step() else {
                    panic!("{kind}, {together}: it waits for an end that was there");
                };
                ending |= ready.is_read_closed();
                if reads_to_the_end(&mut ev, &new.stream, token, ending) {
                    break;
                }
                if !together {
                    client.shutdown(Shutdown::Write).unwrap();
                }
            }
        }
    }
}
