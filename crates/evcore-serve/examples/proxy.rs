//! Forwards each connection to another address, by worker processes that share one listener:
//!
//!     cargo run --release --example proxy -- --listen 127.0.0.1:7007 --to 127.0.0.1:80
//!
//! While one side does not read, the proxy does not read from the other side. When one side ends
//! its stream, the proxy ends the stream to the other side. QUIT stops it gracefully. At a reload
//! (HUP) or an upgrade (USR2, then QUIT), a session moves to a new worker with both its connections
//! as soon as no bytes are in the proxy. More options: `--workers N`, `--connect-timeout S`,
//! `--idle-timeout S`; `--send-proxy` begins each connection with the client's address (the PROXY
//! protocol, version 2).
use evcore::{Accepted, Address, Connections, EdgeStream, EventLoop, Step, Stream};
use evcore::{Ready, Timer, Token, net::SplicePipe};
use evcore_serve::{Arrival, Server, Worker};
use proxy_header::{ProxiedAddress, ProxyHeader};
use std::{env, error::Error, io, io::ErrorKind, time::Duration};

/// The version of a session's state: a byte for the client and one for the upstream, each of which
/// is 1 if that side has ended its stream.
const STATE_VERSION: u32 = 1;

/// The timer of a session, under its client's token. It limits first the connect, and then idle
/// time.
const TIMEOUT: Timer = Timer::new(0);

/// A side of a session: its state, and the bytes that wait to be sent to the other side.
#[derive(Default)]
struct Side {
    ends: Option<[Token; 2]>, // the client and the upstream of this session
    header: Vec<u8>,          // the PROXY header, sent to the other side before the pipe's bytes
    pipe: SplicePipe,
    is_connected: bool,
    has_ended: bool,
}

type End = (EdgeStream, Side);

/// Moves bytes from one side to the other until a call would block, or until the end of the stream
/// is passed on.
fn forward((from, side): &mut End, (to, other): &mut End, ev: &mut EventLoop) -> io::Result<()> {
    while !side.header.is_empty() {
        side.header.drain(..to.send(ev, &side.header)?);
    }
    while !side.has_ended {
        while !side.pipe.is_empty() {
            to.write_with(ev, |to| side.pipe.drain_to(to))?;
        }
        side.has_ended = from.fill(ev, &mut side.pipe)? == 0;
        if side.has_ended && !other.has_ended {
            to.get_ref().shutdown_write()?;
        }
    }
    Ok(())
}

fn header(new: &Accepted) -> io::Result<Vec<u8>> {
    let header = match (new.peer.tcp(), new.stream.local_addr()?.tcp()) {
        (Some(client), Some(local)) => {
            ProxyHeader::with_address(ProxiedAddress::stream(client, local))
        }
        _ => ProxyHeader::with_local(), // a Unix socket
    };
    let mut bytes = Vec::new();
    header.encode_v2(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// Returns the upstream and the state of a client's session, if the session can move: the upstream
/// is connected, and no bytes wait in this process.
fn leave(client: Token, sides: &mut Connections<Side>) -> Option<(Token, Vec<u8>)> {
    let (_, side) = sides.get(client)?;
    let ends = side.ends.filter(|ends| ends[0] == client)?;
    let [(_, client), (_, upstream)] = sides.get_disjoint_mut(ends)?;
    let is_empty = |side: &Side| side.header.is_empty() && side.pipe.is_empty();
    let can_move = upstream.is_connected && is_empty(client) && is_empty(upstream);
    let ended = [client, upstream].map(|side| side.has_ended.into());
    can_move.then(|| (ends[1], ended.to_vec()))
}

struct Proxy {
    to: Address,
    connect_timeout: Duration,
    idle_timeout: Duration,
    sends_header: bool,
    sides: Connections<Side>,
}

impl Proxy {
    /// Serves as a worker. A graceful stop without a successor waits for the sessions up to the
    /// stop timeout, because none is marked by `set_idle`.
    fn work(mut self, mut worker: Worker) -> evcore::Result<()> {
        while worker.next_turn()? {
            while let Some(step) = worker.next_step() {
                self.handle(step, &mut worker.ev);
            }
            worker.hand_over_pairs(&mut self.sides, leave);
            while let Some(arrival) = worker.next_arrival() {
                self.resume(arrival, &mut worker.ev);
            }
        }
        Ok(())
    }

    fn resume(&mut self, arrival: Arrival, ev: &mut EventLoop) {
        let partner = arrival.partner.expect("a session has two connections");
        let mut ended = arrival.state.iter().map(|byte| *byte != 0);
        let ends = [arrival.stream, partner].map(|stream| {
            let side = Side {
                is_connected: true,
                has_ended: ended.next().expect("a byte each"),
                ..Side::default()
            };
            self.sides.insert(stream, side)
        });
        self.pair(ends);
        ev.arm(ends[0], TIMEOUT, self.idle_timeout);
    }

    fn pair(&mut self, ends: [Token; 2]) {
        for end in ends {
            let (_, side) = self.sides.get_mut(end).expect("it was just added");
            side.ends = Some(ends);
        }
    }

    fn handle(&mut self, step: Step, ev: &mut EventLoop) {
        let token = match step {
            Step::Accepted(new) => return self.open(new, ev).unwrap_or_else(|e| eprintln!("{e}")),
            Step::Ready(token, ready) => match self.serve(token, ready, ev) {
                Ok(true) => return,
                Ok(false) | Err(_) => token,
            },
            Step::Expired(token, _) | Step::Evict(token) => token,
            Step::Woken | Step::ShuttingDown => return, // `next_turn` handles stops
        };
        let (_, side) = self.sides.get(token).expect("it is open");
        for end in side.ends.into_iter().flatten() {
            self.sides.close(ev, end);
        }
    }

    fn open(&mut self, new: Accepted, ev: &mut EventLoop) -> io::Result<()> {
        let upstream = Stream::connect(&self.to)?;
        let header = if self.sends_header {
            header(&new)?
        } else {
            Vec::new()
        };
        let side = Side {
            header,
            ..Side::default()
        };
        let client = self.sides.add(ev, new.stream, side)?;
        let upstream = self.sides.add(ev, upstream, Side::default());
        let upstream = upstream.inspect_err(|_| _ = self.sides.close(ev, client))?;
        self.pair([client, upstream]);
        ev.arm(client, TIMEOUT, self.connect_timeout);
        Ok(())
    }

    /// Forwards in both directions. Returns whether the session goes on.
    fn serve(&mut self, token: Token, ready: Ready, ev: &mut EventLoop) -> io::Result<bool> {
        let (_, side) = self.sides.ready(token, ready).expect("it is open");
        side.is_connected = true; // if the connect has failed, a call below returns its error
        let ends = side.ends.expect("it was opened with both");
        let both = self.sides.get_disjoint_mut(ends);
        let [client, upstream] = both.expect("they end together");
        if !upstream.1.is_connected {
            return Ok(true);
        }
        ev.arm(ends[0], TIMEOUT, self.idle_timeout);
        let up = forward(client, upstream, ev);
        let down = forward(upstream, client, ev);
        let mut errors = [up, down].into_iter().filter_map(Result::err);
        match errors.find(|error| error.kind() != ErrorKind::WouldBlock) {
            Some(error) => Err(error),
            None => Ok(!client.1.has_ended || !upstream.1.has_ended),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let value = |name: &str| env::args().skip_while(|arg| arg != name).nth(1);
    let seconds = |name, default| value(name).map_or(Ok(default), |text| text.parse());
    let proxy = Proxy {
        to: value("--to").ok_or("--to ADDRESS")?.parse()?,
        connect_timeout: Duration::from_secs_f64(seconds("--connect-timeout", 5.0)?),
        idle_timeout: Duration::from_secs_f64(seconds("--idle-timeout", 60.0)?),
        sends_header: env::args().any(|arg| arg == "--send-proxy"),
        sides: Connections::new(),
    };
    let server = Server::new(value("--workers").map_or(Ok(1), |text| text.parse())?);
    let server = server.bind(value("--listen").ok_or("--listen ADDRESS")?)?;
    for listener in server.listeners() {
        eprintln!("listening on {}", listener.local_addr());
    }
    // Rebalancing moves only connections that are marked as idle, and no session is marked.
    server
        .handover(STATE_VERSION)
        .rebalance(false)
        .event_loop(|builder| builder.connections(20_000)) // a session has two connections
        .on_event(|event| eprintln!("{event}"))
        .run(|worker| proxy.work(worker))?;
    Ok(())
}
