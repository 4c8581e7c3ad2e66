//! Forwards each connection to another address, by worker processes that share one listener:
//!
//!     cargo run --release --example proxy -- --listen 127.0.0.1:7007 --to 127.0.0.1:80
//!
//! While one side does not read, the other is not read from. The end of one is passed on to the other.
//! QUIT stops it gracefully. More options: `--workers N`, `--connect-timeout S`, `--idle-timeout S`.
use evcore::{Accepted, Address, Connections, EdgeStream, EventLoop, Listener, Step, Stream};
use evcore::{Ready, Timer, Token, accept::SplicePipe};
use evcore_prefork::{Supervisor, Worker};
use std::{env, error::Error, io, io::ErrorKind, time::Duration};

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
    fn new(stream: EdgeStream) -> Self {
        Self {
            stream,
            pipe: SplicePipe::new(),
            is_connected: false,
            has_ended: false,
        }
    }

    /// Moves bytes to the other side until that would block, or until the end is passed on.
    fn forward(&mut self, to: &mut Self, ev: &mut EventLoop) -> io::Result<()> {
        while !self.has_ended {
            while !self.pipe.is_empty() {
                to.stream.write_with(ev, |to| self.pipe.drain_to(to))?;
            }
            self.has_ended = self.stream.fill(ev, &mut self.pipe)? == 0;
            if self.has_ended && !to.has_ended {
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
    sessions: Connections<[Side; 2]>, // client and upstream, by the token of the client
    clients: Connections<Token>,      // by the token of the upstream
}

impl Proxy {
    fn handle(&mut self, step: Step, ev: &mut EventLoop) {
        let token = match step {
            Step::Accepted(new) => return self.open(new, ev).unwrap_or_else(|e| eprintln!("{e}")),
            Step::Ready(token, ready) => match self.serve(token, ready, ev) {
                Ok(true) => return,
                Ok(false) | Err(_) => token,
            },
            Step::Expired(token, _) | Step::Evict(token) => token,
            Step::Woken => return, // a signal: the loop in `work` looks
        };
        let client = self.clients.get(token).copied().unwrap_or(token);
        let [_, upstream] = self.sessions.get(client).expect("it is open");
        self.clients.close(ev, upstream.stream.token());
        self.sessions.close(ev, client);
    }

    fn open(&mut self, new: Accepted, ev: &mut EventLoop) -> io::Result<()> {
        let upstream = Stream::connect(&self.to)?;
        let client = EdgeStream::add(ev, new.stream)?;
        let token = client.token();
        let upstream = EdgeStream::add(ev, upstream).inspect_err(|_| _ = ev.close(token))?;
        self.clients.insert(upstream.token(), token);
        self.sessions
            .insert(token, [client, upstream].map(Side::new));
        ev.arm(token, TIMEOUT, self.connect_timeout);
        Ok(())
    }

    /// Forwards in both directions. Returns whether the session goes on.
    fn serve(&mut self, token: Token, ready: Ready, ev: &mut EventLoop) -> io::Result<bool> {
        let key = self.clients.get(token).copied().unwrap_or(token);
        let sides = self.sessions.get_mut(key).expect("it is open");
        let side = &mut sides[usize::from(token != key)];
        side.stream.on_ready(ready);
        side.is_connected = true; // or it has failed to connect, which a call below returns
        let [client, upstream] = sides;
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
    let seconds = |name, default| value(name).map_or(Ok(default), |text| text.parse());
    let listener = Listener::bind(value("--listen").ok_or("--listen ADDRESS")?)?;
    let proxy = Proxy {
        to: value("--to").ok_or("--to ADDRESS")?.parse()?,
        connect_timeout: Duration::from_secs_f64(seconds("--connect-timeout", 5.0)?),
        idle_timeout: Duration::from_secs_f64(seconds("--idle-timeout", 60.0)?),
        sessions: Connections::new(),
        clients: Connections::new(),
    };
    eprintln!("listening on {}", listener.local_addr());
    Supervisor::new(value("--workers").map_or(Ok(1), |text| text.parse())?)
        .stop_timeout(STOP_TIMEOUT * 2)
        .on_exit(|exit| eprintln!("{exit}"))
        // An error means that the loop cannot go on: the supervisor starts another worker.
        .run(|worker| {
            let worked = work(&worker, listener, proxy);
            worked.inspect_err(|e| eprintln!("{e}")).is_err().into()
        })?;
    Ok(())
}

fn work(worker: &Worker, listener: Listener, mut proxy: Proxy) -> Result<(), Box<dyn Error>> {
    let mut ev = EventLoop::builder().listener(listener).build()?;
    worker.wake_fd(ev.handle())?;
    worker.ready();
    while ev.next_turn(worker.stop_within(STOP_TIMEOUT))? {
        while let Some(step) = ev.next_step() {
            proxy.handle(step, &mut ev);
        }
        while let Some(error) = ev.take_listener_error() {
            eprintln!("{error}");
        }
    }
    Ok(())
}
