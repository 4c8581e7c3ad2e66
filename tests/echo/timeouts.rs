//! The example of two timeouts: a client that is slow with a request, and one that is idle.

use std::{
    io::{self, Read, Write},
    process::Command,
    time::{Duration, Instant},
};

use evcore_tests::{PATIENCE, Server, example};
use rustix::process::Signal;

use super::{bytes, connect, read_back, sends_before_it_reads};

fn start(request_seconds: &str, idle_seconds: &str) -> Server {
    let mut command = Command::new(example("evcore", "timeouts"));
    command.args(["127.0.0.1:0", request_seconds, idle_seconds]);
    Server::from_command(command, 1)
}

/// Lines of a kilobyte.
fn lines(count: usize) -> Vec<u8> {
    let mut line = bytes(1023);
    line.push(b'\n');
    line.repeat(count)
}

#[test]
fn all_lines_come_back_to_a_client_that_reads_late() {
    let server = start("60", "60");
    let stream = connect(server.address());
    sends_before_it_reads(&stream, &lines(16 * 1024)).expect("all of it");
}

#[test]
fn an_idle_client_is_closed() {
    let server = start("60", "0.2");
    let began = Instant::now();
    read_back(&connect(server.address()), &[]).expect("an end without a byte");
    assert!(began.elapsed() >= Duration::from_millis(200), "early");
}

#[test]
fn a_request_in_small_pieces_has_the_same_timeout() {
    const REQUEST: Duration = Duration::from_millis(300);
    let server = start("0.3", "60");
    let mut stream = connect(server.address());
    // Each read ends by this timeout, unless the server closes the connection. So the timeout is
    // the pause between two pieces.
    let pause = Some(Duration::from_millis(10));
    stream.set_read_timeout(pause).expect("a time");
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < PATIENCE, "it is never closed");
        let sent = stream.write_all(b"x");
        match sent.and_then(|()| stream.read(&mut [0])) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => break,
            Ok(_) => panic!("an answer to half a request"),
        }
    }
    assert!(began.elapsed() >= REQUEST, "early");
}

#[test]
fn a_busy_client_outlives_the_timeout_of_one_request() {
    const REQUEST: Duration = Duration::from_secs(1);
    let server = start("1", "60");
    let mut stream = connect(server.address());
    let began = Instant::now();
    let mut last = began;
    while began.elapsed() < 2 * REQUEST {
        // The end of one request and the beginning of the next come together.
        let sent = stream.write_all(b"a\nb");
        let mut back = [0; 2];
        let answered = sent.and_then(|()| stream.read_exact(&mut back));
        // A failure does not count if this thread was held up.
        assert!(
            answered.is_ok() || last.elapsed() >= REQUEST,
            "{answered:?}"
        );
        last = Instant::now();
    }
}

#[test]
fn term_closes_idle_clients_and_lets_others_finish() {
    let mut server = start("60", "60");
    let idle = connect(server.address());
    let mut busy = connect(server.address());
    busy.write_all(b"half ").expect("it is open");
    // An answer shows that the server has both clients, and the half line.
    let mut other = connect(server.address());
    other.write_all(b"line\n").expect("it is open");
    other.read_exact(&mut [0; 5]).expect("an answer");
    server.signal(Signal::TERM);
    for idle in [idle, other] {
        read_back(&idle, &[]).expect("the end");
    }
    busy.write_all(b"a line\n").expect("it is open");
    let mut answer = String::new();
    busy.read_to_string(&mut answer).expect("the end");
    assert_eq!(answer, "half a line\n");
    assert!(server.wait().success());
}
