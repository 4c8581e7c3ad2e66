//! Forwards each connection to another address:
//!
//!     cargo run --release --example proxy -- --listen 127.0.0.1:7007 --to 127.0.0.1:80
//!
//! While one side does not read, the other is not read from. The end of one is passed on to the other.
//! QUIT stops it gracefully. More options, in seconds: `--connect-timeout` and `--idle-timeout`.
use evcore::{Accepted, Address, Connections, EdgeStream, EventLoop, Listener, Step, Stream};
use evcore::{Interest, Mode, Ready, Timer, Token, accept::SplicePipe};
use signal_hook::{consts::SIGQUIT, low_level::pipe};
use std::{env, error::Error, io, io::ErrorKind, os::unix::net::UnixStream, time::Duration};

/// The timer of a session, at its client's token: first for connecting, then for being idle.
const TIMEOUT: Timer = Timer::new(0);
const STOP_TIMEOUT: Duration = Duration::from_secs(30); // QUIT waits: no session is marked by `set_idle`

/// One side of a session, and what was received from it and not yet sent to the other.
struct Side {
    stream: EdgeStream,
    pipe: SplicePipe,
    is_connected: bool,
    has_ended: bool,
}

impl Side {
    fn new(stream: EdgeStream, is_connected: bool) -> Self {
        Self {
            stream,
            pipe: SplicePipe::new(),
            is_connected,
            has_ended: false,
        }
    }

    /// Moves bytes to the other side until that would block, or until the end is passed on.
    fn forward(&mut self, to: &mut Self, ev: &mut EventLoop) -> io::Result<()> {
        let pipe = &mut self.pipe;
        while !self.has_ended {
            while !pipe.is_empty() {
                to.stream.write_with(ev, |to| pipe.drain_to(to))?;
            }
            if self.stream.fill(ev, pipe)? == 0 {
                self.has_ended = true;
                to.stream.get_ref().shutdown_write()?;
            }
        }
        Ok(())
    }
}

struct Proxy {
    to: Address,
    connect_timeout: Duration,
    idle_timeout: Duration,
    sessions: Connections<(Side, Side)>, // client and upstream, by the token of the client
    clients: Connections<Token>,         // by the token of the upstream
    quit: Token,                         // readable after a QUIT
}

impl Proxy {
    fn handle(&mut self, step: Step, ev: &mut EventLoop) {
        let token = match step {
            Step::Accepted(new) => return self.open(new, ev).unwrap_or_else(|e| eprintln!("{e}")),
            Step::Ready(token, _) if token == self.quit => {
                ev.close(token); // the loop is not shut down while it watches a descriptor
                return ev.shutdown(STOP_TIMEOUT);
            }
            Step::Ready(token, ready) => match self.serve(token, ready, ev) {
                Ok(true) => return,
                Ok(false) | Err(_) => token,
            },
            Step::Expired(token, _) | Step::Evict(token) => token,
            Step::Woken => return,
        };
        let client = self.clients.get(token).copied().unwrap_or(token);
        let (_, upstream) = self.sessions.get(client).expect("it is open");
        self.clients.close(ev, upstream.stream.token());
        self.sessions.close(ev, client);
    }

    fn open(&mut self, new: Accepted, ev: &mut EventLoop) -> io::Result<()> {
        let upstream = Stream::connect(&self.to)?;
        let client = EdgeStream::add(ev, new.stream)?;
        let token = client.token();
        let upstream = EdgeStream::add(ev, upstream).inspect_err(|_| _ = ev.close(token))?;
        self.clients.insert(upstream.token(), token);
        let sides = (Side::new(client, true), Side::new(upstream, false));
        self.sessions.insert(token, sides);
        ev.arm(token, TIMEOUT, self.connect_timeout);
        Ok(())
    }

    /// Forwards in both directions. Returns whether the session goes on.
    fn serve(&mut self, token: Token, ready: Ready, ev: &mut EventLoop) -> io::Result<bool> {
        let key = self.clients.get(token).copied().unwrap_or(token);
        let (client, upstream) = self.sessions.get_mut(key).expect("it is open");
        if token == key {
            client.stream.on_ready(ready);
        } else {
            upstream.stream.on_ready(ready);
            if !upstream.is_connected {
                let error = upstream.stream.get_ref().take_error()?;
                error.map_or(Ok(()), Err)?;
                upstream.is_connected = true;
            }
        }
        if !upstream.is_connected {
            return Ok(true);
        }
        ev.arm(key, TIMEOUT, self.idle_timeout);
        let results = [client.forward(upstream, ev), upstream.forward(client, ev)];
        let mut errors = results.into_iter().filter_map(Result::err);
        match errors.find(|error| error.kind() != ErrorKind::WouldBlock) {
            Some(error) => Err(error),
            None => Ok(!client.has_ended || !upstream.has_ended),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let value = |name: &str| args.iter().skip_while(|arg| *arg != name).nth(1);
    let seconds = |name, default| {
        let seconds = value(name).map_or(Ok(default), |text| text.parse());
        seconds.map(Duration::from_secs_f64)
    };
    let listener = Listener::bind(value("--listen").ok_or("--listen ADDRESS")?)?;
    let address = listener.local_addr().clone();
    let mut ev = EventLoop::builder().listener(listener).build()?;
    let (quit, signals) = UnixStream::pair()?;
    pipe::register(SIGQUIT, signals)?; // the handler writes a byte
    let mut proxy = Proxy {
        to: value("--to").ok_or("--to ADDRESS")?.parse()?,
        connect_timeout: seconds("--connect-timeout", 5.0)?,
        idle_timeout: seconds("--idle-timeout", 60.0)?,
        sessions: Connections::new(),
        clients: Connections::new(),
        quit: ev.add(&quit, Interest::READ, Mode::Level)?,
    };
    eprintln!("listening on {address}");
    while !ev.is_shut_down() {
        ev.wait()?; // an error means that the loop cannot go on
        while let Some(step) = ev.next_step() {
            proxy.handle(step, &mut ev);
        }
        while let Some(error) = ev.take_listener_error() {
            eprintln!("{error}");
        }
    }
    Ok(())
}
