//! One server, on sockets and in the simulator: not a line of it knows which.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use evcore::{
    Acceptor, Address, Connections, EventLoop, Interest, Listener, Mode, Ready, Step, Timer, Token,
    Transport,
};
use evcore_sim::{App, Fault, Faults, Script, SimListener, SimStream, Workers, World, check};

const IDLE: Duration = Duration::from_secs(10);

/// Answers each line by its length.
#[derive(Debug)]
struct Counter<L: Acceptor> {
    ev: EventLoop<L>,
    conns: Connections<Conn<L::Stream>>,
    ended: u32,
}

#[derive(Debug)]
struct Conn<S> {
    stream: S,
    line: usize,
    answer: Vec<u8>,
    is_at_end: bool,
}

impl<L: Acceptor<Stream: Transport>> Counter<L> {
    fn new(ev: EventLoop<L>) -> Self {
        Self {
            ev,
            conns: Connections::new(),
            ended: 0,
        }
    }

    fn take(&mut self, step: Step<L::Stream>) {
        match step {
            Step::Accepted(new) => self.begin(new.stream),
            Step::Ready(token, ready) => self.serve(token, ready),
            Step::Expired(token, _) => self.end(token),
            _ => {}
        }
    }

    fn begin(&mut self, stream: L::Stream) {
        let conn = Conn {
            stream,
            line: 0,
            answer: Vec::new(),
            is_at_end: false,
        };
        let added = self.ev.add(&conn.stream, Interest::READ, Mode::Level);
        let token = added.expect("a fresh descriptor");
        self.conns.insert(token, conn);
        self.ev.arm(token, Timer::READ, IDLE);
    }

    fn serve(&mut self, token: Token, ready: Ready) {
        let Some(conn) = self.conns.get_mut(token) else {
            return;
        };
        match conn.go_on(ready) {
            Ok(interest) => {
                self.ev.modify(token, interest).expect("it is watched");
                self.ev.arm(token, Timer::READ, IDLE);
            }
            Err(_) => self.end(token),
        }
    }

    fn end(&mut self, token: Token) {
        self.conns.close(&mut self.ev, token);
        self.ended += 1;
    }
}

impl<S: Transport> Conn<S> {
    /// Reads a little, and answers. Returns what it waits for; an error is the end of it.
    fn go_on(&mut self, ready: Ready) -> io::Result<Interest> {
        if ready.is_readable() && self.answer.is_empty() && !self.is_at_end {
            self.read()?;
        }
        while !self.answer.is_empty() {
            match self.stream.send(&self.answer) {
                Ok(sent) => drop(self.answer.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Interest::WRITE),
                Err(error) => return Err(error),
            }
        }
        if self.is_at_end {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(Interest::READ)
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 64];
        let received = match self.stream.recv(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            received => received?,
        };
        self.is_at_end = received == 0;
        for byte in &buffer[..received] {
            if *byte == b'\n' {
                writeln!(self.answer, "{}", self.line)?;
                self.line = 0;
            } else {
                self.line += 1;
            }
        }
        Ok(())
    }
}

impl App for Counter<SimListener> {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn take(&mut self, step: Step<SimStream>) {
        Counter::take(self, step);
    }
}

const QUESTION: &str = "one\n\nthree\nand a longer one\n";
const ANSWER: &str = "3\n0\n5\n16\n";

#[test]
fn it_serves_over_sockets() {
    let listener = Listener::bind("127.0.0.1:0").expect("listen");
    let Address::Tcp(address) = listener.local_addr().clone() else {
        panic!("it is of the Internet");
    };
    let ev = EventLoop::builder()
        .listener(listener)
        .build()
        .expect("a loop");
    let mut server = Counter::new(ev);
    let client = thread::spawn(move || ask(address));
    while server.ended == 0 {
        server.ev.wait().expect("a wait");
        while let Some(step) = server.ev.next_step() {
            server.take(step);
        }
    }
    assert_eq!(
        client.join().expect("it got its answer").expect("no error"),
        ANSWER
    );
}

fn ask(address: SocketAddr) -> io::Result<String> {
    let (mut client, mut answer) = (TcpStream::connect(address)?, String::new());
    client.write_all(QUESTION.as_bytes())?;
    client.shutdown(Shutdown::Write)?;
    client.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn it_serves_in_the_simulator_whatever_goes_wrong() {
    let mut served = 0;
    let test = "it_serves_in_the_simulator_whatever_goes_wrong";
    check(test, 0..100, |world| served += u32::from(serves(world)));
    assert!(served > 50, "{served}: too few to learn from");
}

/// Whether the client got its answer; it must, unless it, or its server, was harmed.
fn serves(world: &World) -> bool {
    world.set_faults(Faults::all());
    let address = SocketAddr::from(([10, 0, 0, 1], 7));
    let mut workers = Workers::new(world, 2, move |process, _| {
        let builder = process.builder().listener(process.listen(address));
        Counter::new(builder.build().expect("a loop"))
    });
    let ask = Script::new().send_slowly(QUESTION, 3, Duration::from_millis(20));
    let client = world.client(address, ask.shutdown_write().hear_end());
    assert!(workers.run_until(IDLE * 10, |_| client.is_done()));
    let heard = client.heard();
    assert!(ANSWER.as_bytes().starts_with(&heard));

    // By the last, a client seems to have been silent for too long.
    let harms = [Fault::Reset, Fault::Abort, Fault::Kill, Fault::ClockJump];
    let was_harmed = harms.into_iter().any(|fault| world.count(fault) > 0);
    assert!(was_harmed || heard == ANSWER.as_bytes());
    heard == ANSWER.as_bytes()
}
