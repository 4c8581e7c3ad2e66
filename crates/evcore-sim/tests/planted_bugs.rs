//! Two planted bugs of edge-triggered servers, and how many seeds it takes to find them.
//!
//! Both change no byte: the connection only stalls. So they are found by the invariant that no
//! client is lost, under [`Faults::lossless`]. Each shows on one kind of kernel alone, which is why
//! the seed chooses the kernel.

use std::{io::ErrorKind, net::SocketAddr, time::Duration};

use evcore::{Connections, EventLoop, Interest, Mode, Step, Token};
use evcore_sim::{
    App, ClientOutcome, Faults, Process, Script, ScriptHandle, Sim, SimListener, SimStream,
    Workers, check,
};

/// Each bug is found within this many consecutive seeds.
const SEEDS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// The server does not rearm a side that would block.
    ForgottenRearm,
    /// The server takes a short read for the end of the data, and misses the end of the stream.
    ShortReadMeansDrained,
}

/// An edge-triggered echo server.
struct Echo {
    ev: EventLoop<SimListener>,
    conns: Connections<Conn>,
    bug: Bug,
}

struct Conn {
    stream: SimStream,
    unsent: Vec<u8>,
    is_readable: bool,
    is_at_eof: bool,
}

impl Echo {
    fn new(process: &Process, bug: Bug) -> Self {
        let builder = process.builder().listener(process.listen(address()));
        Self {
            ev: builder.build().expect("a loop"),
            conns: Connections::new(),
            bug,
        }
    }

    fn accept(&mut self, stream: SimStream) {
        let added = self.ev.add(&stream, Interest::BOTH, Mode::Edge);
        let conn = Conn {
            stream,
            unsent: Vec::new(),
            is_readable: false,
            is_at_eof: false,
        };
        self.conns.insert(added.expect("a new descriptor"), conn);
    }

    fn serve(&mut self, token: Token) {
        let bug = self.bug;
        match self.conns.get_mut(token).map(|conn| conn.progress(bug)) {
            Some(Some(blocked)) if bug != Bug::ForgottenRearm => {
                self.ev.rearm(token, blocked);
            }
            Some(None) => {
                self.conns.close(&mut self.ev, token);
            }
            _ => {}
        }
    }
}

impl Conn {
    /// Receives and sends as much as possible. Returns the sides that would block, or `None` if the
    /// connection is over.
    fn progress(&mut self, bug: Bug) -> Option<Interest> {
        let mut blocked = Interest::NONE;
        loop {
            while !self.unsent.is_empty() {
                match self.stream.send(&self.unsent) {
                    Ok(sent) => drop(self.unsent.drain(..sent)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return Some(blocked | Interest::WRITE);
                    }
                    Err(_) => return None,
                }
            }
            if self.is_at_eof {
                return None;
            }
            if !self.is_readable {
                return Some(blocked);
            }
            let mut buffer = [0; 256];
            match self.stream.recv(&mut buffer) {
                Ok(0) => self.is_at_eof = true,
                Ok(received) => {
                    self.unsent.extend(&buffer[..received]);
                    if bug == Bug::ShortReadMeansDrained && received < buffer.len() {
                        self.is_readable = false;
                        blocked |= Interest::READ;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_readable = false;
                    blocked |= Interest::READ;
                }
                Err(_) => return None,
            }
        }
    }
}

impl App for Echo {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        match step {
            Step::Accepted(new) => self.accept(new.stream),
            Step::Ready(token, ready) => {
                if let Some(conn) = self.conns.get_mut(token) {
                    conn.is_readable |= ready.is_readable();
                }
                self.serve(token);
            }
            _ => {}
        }
    }
}

fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7))
}

/// Sends some pieces, ends the stream, and waits for the end of the answer.
fn client(sim: &Sim) -> ScriptHandle {
    let mut rng = sim.rng();
    let mut script = Script::new();
    for _ in 0..rng.below(4) {
        let bytes = vec![b'x'; 1 + rng.index(2_000)];
        script = script.send(bytes.clone()).recv(bytes.len());
    }
    sim.client(address(), script.send("bye").shutdown_write().recv_eof())
}

/// Runs a server with ten clients, and returns the clients that did not complete.
fn lost_clients(sim: &Sim, bug: Bug) -> Vec<ScriptHandle> {
    sim.set_faults(Faults::lossless());
    let mut workers = Workers::new(sim, 2, move |process, _| Echo::new(process, bug));
    let mut clients: Vec<_> = (0..10).map(|_| client(sim)).collect();
    workers.run_for(Duration::from_secs(600));
    clients.retain(|client| client.outcome() != Some(ClientOutcome::Completed));
    clients
}

#[test]
fn without_a_bug_no_client_is_lost() {
    check("without_a_bug_no_client_is_lost", 0..200, |sim| {
        let lost = lost_clients(sim, Bug::None);
        assert!(lost.is_empty(), "{lost:?}");
    });
}

/// Looks for the bug from several first seeds.
#[track_caller]
fn assert_found(bug: Bug) {
    for first in (0..200).step_by(10) {
        let finds_it = |seed| !lost_clients(&Sim::new(seed), bug).is_empty();
        assert!(
            (first..first + SEEDS).any(finds_it),
            "{bug:?} survives {SEEDS} seeds from {first}"
        );
    }
}

#[test]
fn a_forgotten_rearm_is_found_within_4_seeds() {
    assert_found(Bug::ForgottenRearm);
}

#[test]
fn a_short_read_taken_for_drained_is_found_within_4_seeds() {
    assert_found(Bug::ShortReadMeansDrained);
}
