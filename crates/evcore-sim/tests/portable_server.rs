//! One generic server that runs on sockets and in the simulator.

use std::{
    error::Error,
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use evcore::{
    Acceptor, Address, EventLoop, Interest, Listener, Mode, Ready, Step, Timer, Token, TokenMap,
    Transport, poller::BackendKind,
};
use evcore_sim::{
    App, ClientOutcome, Faults, Script, ScriptHandle, Sim, SimListener, SimStream, Workers, check,
};

const IDLE: Duration = Duration::from_secs(10);

/// Answers each line with its length.
#[derive(Debug)]
struct Counter<L: Acceptor> {
    ev: EventLoop<L>,
    conns: TokenMap<Conn<L::Stream>>,
    ended: u32,
}

#[derive(Debug)]
struct Conn<S> {
    stream: S,
    line: usize,
    answer: Vec<u8>,
    is_at_eof: bool,
}

impl<L: Acceptor<Stream: Transport>> Counter<L> {
    fn new(ev: EventLoop<L>) -> Self {
        Self {
            ev,
            conns: TokenMap::new(),
            ended: 0,
        }
    }

    fn on_step(&mut self, step: Step<L::Stream>) {
        match step {
            Step::Accepted(new) => self.accept(new.stream),
            Step::Ready(token, ready) => self.serve(token, ready),
            Step::Expired(token, _) => self.end(token),
            _ => {}
        }
    }

    fn accept(&mut self, stream: L::Stream) {
        let conn = Conn {
            stream,
            line: 0,
            answer: Vec::new(),
            is_at_eof: false,
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
        match conn.progress(ready) {
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
    /// Reads once and answers. Returns the interest with which the connection is watched from now
    /// on. An error ends the connection.
    fn progress(&mut self, ready: Ready) -> io::Result<Interest> {
        if ready.is_readable() && self.answer.is_empty() && !self.is_at_eof {
            self.read()?;
        }
        while !self.answer.is_empty() {
            match self.stream.send(&self.answer) {
                Ok(sent) => drop(self.answer.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Interest::WRITE),
                Err(error) => return Err(error),
            }
        }
        if self.is_at_eof {
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
        self.is_at_eof = received == 0;
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

    fn on_step(&mut self, step: Step<SimStream>) {
        Counter::on_step(self, step);
    }
}

const QUESTION: &str = "one\n\nthree\nand a longer one\n";
const ANSWER: &str = "3\n0\n5\n16\n";

#[test]
fn a_generic_server_serves_on_sockets() {
    for kind in BackendKind::usable() {
        let answer = serve_one_client(kind);
        let answer = answer.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(answer, ANSWER, "{kind}");
    }
}

fn serve_one_client(kind: BackendKind) -> Result<String, Box<dyn Error>> {
    let listener = Listener::bind("127.0.0.1:0")?;
    let Address::Tcp(address) = listener.local_addr().clone() else {
        panic!("a TCP address");
    };
    let ev = EventLoop::builder().listener(listener).poller(kind);
    let mut server = Counter::new(ev.build()?);
    let client = thread::spawn(move || exchange(address));
    while server.ended == 0 {
        server.ev.wait()?;
        while let Some(step) = server.ev.next_step() {
            server.on_step(step);
        }
    }
    Ok(client.join().expect("the client thread")?)
}

fn exchange(address: SocketAddr) -> io::Result<String> {
    let (mut client, mut answer) = (TcpStream::connect(address)?, String::new());
    client.write_all(QUESTION.as_bytes())?;
    client.shutdown(Shutdown::Write)?;
    client.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_generic_server_loses_no_client_under_lossless_faults() {
    let test = "a_generic_server_loses_no_client_under_lossless_faults";
    check(test, 0..100, |sim| {
        sim.set_faults(Faults::lossless());
        let client = run(sim);
        assert_eq!(client.outcome(), Some(ClientOutcome::Completed));
        assert_eq!(client.received(), ANSWER.as_bytes());
    });
}

#[test]
fn a_generic_server_sends_only_correct_answers_under_all_faults() {
    let mut served = 0;
    let test = "a_generic_server_sends_only_correct_answers_under_all_faults";
    let seeds = check(test, 0..100, |sim| {
        sim.set_faults(Faults::all());
        let received = run(sim).received();
        assert!(ANSWER.as_bytes().starts_with(&received));
        served += u64::from(received == ANSWER.as_bytes());
    });
    assert!(
        seeds < 100 || served * 2 > seeds,
        "only {served} of {seeds}"
    );
}

fn run(sim: &Sim) -> ScriptHandle {
    let address = SocketAddr::from(([10, 0, 0, 1], 7));
    let mut workers = Workers::new(sim, 2, move |process, _| {
        let builder = process.builder().listener(process.listen(address));
        Counter::new(builder.build().expect("a loop"))
    });
    let request = Script::new().send_slowly(QUESTION, 3, Duration::from_millis(20));
    let client = sim.client(address, request.shutdown_write().recv_eof());
    assert!(workers.run_until(IDLE * 10, |_| client.is_done()));
    client
}
