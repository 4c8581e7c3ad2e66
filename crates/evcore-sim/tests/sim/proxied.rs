//! The proxy's reaction to each fault of its connections, and its work on sockets.

use std::{
    error::Error,
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    rc::Rc,
    thread,
    time::Duration,
};

use evcore::{Address, EventLoop, Listener, Step, net::ConnectOptions, poller::BackendKind};
use evcore_sim::{
    App, ClientOutcome, Fault, Faults, Probability, Process, Script, ScriptHandle, Sim,
    SimListener, SimStream, Workers, check,
};

use crate::{
    echo_server::{self, Echo},
    proxy::{CONNECT_TIMEOUT, End, Ends, IDLE_TIMEOUT, Proxy},
};

fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 9], 80))
}

enum Machine {
    Proxy(Proxy<SimListener, Process>),
    Server(Echo),
}

impl App for Machine {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        match self {
            Self::Proxy(proxy) => &mut proxy.ev,
            Self::Server(server) => &mut server.ev,
        }
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        match self {
            Self::Proxy(proxy) => proxy.on_step(step),
            Self::Server(server) => server.on_step(step),
        }
    }
}

/// Makes two workers of the proxy and, if `has_server`, a server.
fn machines(sim: &Sim, has_server: bool, ends: &Ends) -> Workers<Machine> {
    let ends = Rc::clone(ends);
    let start = move |process: &Process, index| {
        if index == 2 {
            return Machine::Server(Echo::new(process, &Rc::default()));
        }
        let builder = process.builder().listener(process.listen(address()));
        let ev = builder.build().expect("a loop");
        let to = Address::Tcp(echo_server::address());
        Machine::Proxy(Proxy::new(ev, process.clone(), to, &ends))
    };
    Workers::new(sim, if has_server { 3 } else { 2 }, start)
}

struct ProxyClient {
    client: ScriptHandle,
    bytes: Vec<u8>,
}

impl ProxyClient {
    fn start(sim: &Sim, letter: u8) -> Self {
        let mut rng = sim.rng();
        let (mut bytes, mut script) = (vec![letter], Script::new().send([letter]).recv(1));
        for _ in 0..rng.below(3) {
            let piece = vec![letter; 1 + rng.index(5_000)];
            bytes.extend(&piece);
            script = script.send(piece);
        }
        let client = sim.client(address(), script.shutdown_write().recv_eof());
        Self { client, bytes }
    }

    fn is_complete(&self) -> bool {
        let outcome = self.client.outcome();
        outcome == Some(ClientOutcome::Completed) && self.client.received() == self.bytes
    }
}

/// Runs ten clients to their end, and checks that the proxy keeps no session.
fn serve(sim: &Sim, faults: Faults, has_server: bool, ends: &Ends) -> Vec<ProxyClient> {
    sim.set_faults(faults);
    let mut machines = machines(sim, has_server, ends);
    let mut rng = sim.rng();
    let mut clients = Vec::new();
    for letter in b'a'..=b'j' {
        clients.push(ProxyClient::start(sim, letter));
        machines.run_for(rng.duration(&(Duration::ZERO..=Duration::from_secs(1))));
    }
    let all_done = |_: &_| clients.iter().all(|handle| handle.client.is_done());
    assert!(
        machines.run_until(Duration::from_secs(600), all_done),
        "a client is left waiting"
    );
    // The session of a client that is done may still be open. It ends by a timeout at the latest.
    sim.set_faults(Faults::none());
    machines.run_for(CONNECT_TIMEOUT + 2 * IDLE_TIMEOUT);
    for (_, machine) in machines.apps() {
        if let Machine::Proxy(proxy) = machine {
            assert!(proxy.sessions.is_empty() && proxy.ev.stats().active == 0);
        }
    }
    for client in &clients {
        let received = client.client.received();
        assert!(client.bytes.starts_with(&received), "{:?}", client.client);
    }
    clients
}

#[test]
fn under_lossless_faults_the_proxy_loses_no_client() {
    let name = "under_lossless_faults_the_proxy_loses_no_client";
    check(name, 0..200, |sim| {
        let ends = Ends::default();
        for client in serve(sim, Faults::lossless(), true, &ends) {
            assert!(client.is_complete(), "{:?}", client.client);
        }
        assert_eq!(ends.borrow().get(&End::Completed), Some(&10));
    });
}

#[test]
fn under_all_faults_the_proxy_keeps_no_session() {
    let (all_ends, mut complete) = (Ends::default(), 0);
    let name = "under_all_faults_the_proxy_keeps_no_session";
    let seeds = check(name, 0..200, |sim| {
        let clients = serve(sim, Faults::all(), true, &all_ends);
        complete += clients.iter().filter(|client| client.is_complete()).count();
    });
    if seeds < 200 {
        return;
    }
    assert!(
        complete > 1_000,
        "only {complete} of 2,000 clients completed"
    );
    let all_ends = all_ends.borrow();
    for end in [
        End::Completed,
        End::NotConnected(ErrorKind::ConnectionRefused),
        End::NotConnected(ErrorKind::HostUnreachable),
        End::NotConnected(ErrorKind::AddrNotAvailable),
        End::ConnectTimeout,
        End::Broken(ErrorKind::ConnectionReset),
    ] {
        assert!(
            all_ends.contains_key(&end),
            "{end:?} is not in {all_ends:?}"
        );
    }
}

/// Returns the ways in which ten sessions end under faults that always occur. No client gets an
/// answer.
fn ends_under(seed: u64, faults: &[Fault], has_server: bool) -> Vec<End> {
    let sim = Sim::new(seed);
    let always = |faults: Faults, fault: &Fault| faults.with(*fault, Probability::ALWAYS);
    let ends = Ends::default();
    let faults = faults.iter().fold(Faults::none(), always);
    for client in serve(&sim, faults, has_server, &ends) {
        // The outcome is a reset if the proxy closes before it has read everything from the client.
        let closed = [ClientOutcome::ClosedEarly, ClientOutcome::Reset];
        let outcome = client.client.outcome().expect("it has ended");
        assert!(closed.contains(&outcome), "{outcome:?}");
        assert_eq!(client.client.received(), []);
    }
    assert_eq!(ends.borrow().values().sum::<u32>(), 10);
    ends.borrow().keys().copied().collect()
}

#[test]
fn an_upstream_that_refuses_ends_the_session() {
    let refused = End::NotConnected(ErrorKind::ConnectionRefused);
    let unreachable = End::NotConnected(ErrorKind::HostUnreachable);
    for seed in 0..4 {
        assert_eq!(ends_under(seed, &[], false), [refused]);
        assert_eq!(
            ends_under(seed, &[Fault::ImmediateConnect], false),
            [refused]
        );
        let ends = ends_under(seed, &[Fault::ConnectRefused], true);
        assert!(ends.iter().all(|end| [refused, unreachable].contains(end)));
    }
}

#[test]
fn an_upstream_that_does_not_answer_ends_the_session_in_time() {
    let ends = ends_under(7, &[Fault::ConnectTimeout], true);
    assert_eq!(ends, [End::ConnectTimeout]);
}

#[test]
fn a_proxy_without_a_local_port_ends_the_session_at_once() {
    let ends = ends_under(7, &[Fault::NoLocalPort], true);
    assert_eq!(ends, [End::NotConnected(ErrorKind::AddrNotAvailable)]);
}

#[test]
fn the_same_proxy_runs_on_sockets() {
    for kind in BackendKind::usable() {
        let run = run_on_sockets(kind);
        let (ends, received) = run.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(*ends.borrow(), [(End::Completed, 1)].into(), "{kind}");
        assert_eq!(received, 100_000, "{kind}");
    }
}

/// Runs one session. Returns the way in which it ended, and the number of bytes that the client
/// received.
fn run_on_sockets(kind: BackendKind) -> Result<(Ends, usize), Box<dyn Error>> {
    let upstream = TcpListener::bind("127.0.0.1:0")?;
    let to = Address::Tcp(upstream.local_addr()?);
    let listener = Listener::bind("127.0.0.1:0")?;
    let Address::Tcp(address) = listener.local_addr().clone() else {
        panic!("a TCP address");
    };
    let server = thread::spawn(move || {
        let (mut stream, _) = upstream.accept()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        stream.write_all(&bytes)
    });
    let client = thread::spawn(move || {
        let mut stream = TcpStream::connect(address)?;
        let mut bytes = Vec::new();
        stream.write_all(&[b'x'; 100_000])?;
        stream.shutdown(Shutdown::Write)?;
        stream.read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes.len())
    });
    let builder = EventLoop::builder().listener(listener).poller(kind);
    let ends = Ends::default();
    let mut proxy = Proxy::new(builder.build()?, ConnectOptions::new(), to, &ends);
    while ends.borrow().is_empty() {
        proxy.ev.wait()?;
        while let Some(step) = proxy.ev.next_step() {
            proxy.on_step(step);
        }
    }
    let received = client.join().expect("no panic")?;
    server.join().expect("no panic")?;
    Ok((ends, received))
}
