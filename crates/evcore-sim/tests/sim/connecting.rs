//! Outgoing connections of a process.

use std::{io::ErrorKind, net::SocketAddr, time::Duration};

use evcore::{
    Acceptor, Address, Connector, EventLoop, Interest, Mode, Ready, Step, Timer, TokenMap,
    net::{Accept, Error},
    poller::{Events, Poller},
};
use evcore_sim::{Fault, Faults, Probability, Process, Sim, SimConfig, SimListener, SimStream};

const MS: Duration = Duration::from_millis(1);

fn server() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 80))
}

/// A simulation in which these faults always occur, and no others.
fn sim_with(seed: u64, faults: &[Fault]) -> Sim {
    let sim = Sim::new(seed);
    sim.set_config(SimConfig {
        latency: MS..=MS,
        ..SimConfig::default()
    });
    let always = |faults: Faults, fault: &Fault| faults.with(*fault, Probability::ALWAYS);
    sim.set_faults(faults.iter().fold(Faults::none(), always));
    sim
}

fn connect(process: &Process) -> Result<SimStream, Error> {
    process.connect(&Address::Tcp(server()))
}

/// Connects, and waits for the first report of the stream.
fn result(process: &Process) -> (SimStream, Ready, Option<ErrorKind>) {
    let mut ev = process.builder().build().expect("a loop");
    let stream = connect(process).expect("it is in progress");
    let added = ev.add(&stream, Interest::BOTH, Mode::Edge);
    added.expect("a fresh descriptor");
    ev.wait().expect("the result comes");
    let Some(Step::Ready(_, ready)) = ev.next_step() else {
        panic!("the result is a step");
    };
    let error = stream.take_error().expect("the process lives");
    (stream, ready, error.map(|error| error.kind()))
}

fn accept(listener: &SimListener) -> SimStream {
    match listener.accept().expect("it listens") {
        Accept::Connection(stream, _) => stream,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connect_succeeds_after_a_round_trip() {
    for seed in 0..2 {
        let sim = sim_with(seed, &[]);
        let (process, other) = (sim.process(), sim.process());
        let listener = other.listen(server());
        let (stream, ready, error) = result(&process);
        assert_eq!((ready, error), (Ready::WRITABLE, None));
        assert!(sim.now() >= 2 * MS, "{:?}", sim.now());
        assert_eq!(stream.peer_addr().expect("connected"), server());

        let accepted = accept(&listener);
        assert_eq!(stream.send(b"hello").expect("connected"), 5);
        sim.run_for(2 * MS);
        assert_eq!(accepted.recv(&mut [0; 8]).expect("it has arrived"), 5);
    }
}

#[test]
fn an_immediate_connect_succeeds_at_once() {
    let sim = sim_with(7, &[Fault::ImmediateConnect]);
    let process = sim.process();
    let listener = process.listen(server());
    let stream = connect(&process).expect("it is connected");
    assert_eq!(stream.send(b"hello").expect("connected"), 5);
    sim.run_for(2 * MS);
    assert_eq!(accept(&listener).recv(&mut [0; 8]).expect("arrived"), 5);
}

#[test]
fn a_connect_without_a_listener_is_refused_later() {
    let sim = sim_with(7, &[]);
    let process = sim.process();
    let (stream, ready, error) = result(&process);
    assert!(ready.is_writable() && ready.is_error(), "{ready:?}");
    assert_eq!(error, Some(ErrorKind::ConnectionRefused));
    assert!(sim.now() >= 2 * MS, "{:?}", sim.now());
    let sent = stream.send(b"hello").expect_err("it is not connected");
    assert_eq!(sent.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn an_immediate_connect_without_a_listener_is_refused_at_once() {
    let sim = sim_with(7, &[Fault::ImmediateConnect]);
    let refused = connect(&sim.process()).expect_err("no process listens");
    assert!(matches!(
        refused,
        Error::Connect {
            call: "connect",
            ..
        }
    ));
    let refused = std::io::Error::from(refused);
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_connect_is_refused_with_one_of_two_errors_both_at_once_and_later() {
    for also in [&[][..], &[Fault::ImmediateConnect]] {
        let mut kinds = Vec::new();
        for seed in 0..20 {
            let sim = sim_with(seed, &[&[Fault::ConnectRefused], also].concat());
            let process = sim.process();
            let _listener = sim.process().listen(server());
            if also.is_empty() {
                kinds.push(result(&process).2.expect("it failed"));
            } else {
                let error = connect(&process).expect_err("it failed");
                kinds.push(std::io::Error::from(error).kind());
            }
        }
        for kind in [ErrorKind::ConnectionRefused, ErrorKind::HostUnreachable] {
            assert!(kinds.contains(&kind), "{kinds:?}");
        }
    }
}

#[test]
fn a_connect_that_nothing_answers_times_out() {
    let sim = sim_with(7, &[Fault::ConnectTimeout, Fault::ImmediateConnect]);
    let process = sim.process();
    let _listener = process.listen(server());
    let (_, ready, error) = result(&process);
    assert!(ready.is_writable() && ready.is_error(), "{ready:?}");
    assert_eq!(error, Some(ErrorKind::TimedOut));
    assert_eq!(sim.now().as_secs(), 31);
}

#[test]
fn a_connect_without_a_local_port_fails_at_once() {
    let sim = sim_with(7, &[Fault::NoLocalPort]);
    let error = connect(&sim.process()).expect_err("there is no port");
    let error = std::io::Error::from(error);
    assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
}

#[test]
#[should_panic(expected = "the process has free descriptors")]
fn a_channel_pair_takes_two_descriptors() {
    let sim = Sim::new(1);
    sim.set_config(SimConfig {
        max_descriptors: 1,
        ..SimConfig::default()
    });
    let _ = sim.process().channel_pair();
}

#[test]
fn a_connect_without_a_free_descriptor_fails_at_once() {
    let sim = sim_with(7, &[]);
    sim.set_config(SimConfig {
        max_descriptors: 1,
        ..SimConfig::default()
    });
    let process = sim.process();
    let first = connect(&process).expect("one is free");
    let error = connect(&process).expect_err("none is free");
    assert!(matches!(error, Error::Connect { call: "socket", .. }));
    drop(first);
    assert!(connect(&process).is_ok());
}

#[test]
fn a_connect_to_a_unix_socket_is_not_supported() {
    let sim = sim_with(7, &[]);
    let address = "unix:/run/server.sock".parse().expect("an address");
    let error = sim.process().connect(&address).expect_err("there is none");
    let error = std::io::Error::from(error);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_connect_to_a_full_backlog_succeeds_when_there_is_room() {
    let sim = sim_with(7, &[]);
    sim.set_config(SimConfig {
        backlog: 1,
        ..SimConfig::default()
    });
    let process = sim.process();
    let listener = process.listen(server());
    let _first = sim.connect(server()).expect("there is room");
    let stream = connect(&process).expect("it is in progress");
    sim.run_for(10 * MS);
    let sent = stream.send(b"hello").expect_err("there is no room");
    assert_eq!(sent.kind(), ErrorKind::WouldBlock);
    accept(&listener);
    sim.run_for(Duration::from_secs(2));
    assert_eq!(stream.send(b"hello").expect("connected"), 5);
}

#[test]
fn a_connect_to_a_full_backlog_times_out() {
    let sim = sim_with(7, &[]);
    sim.set_config(SimConfig {
        backlog: 0,
        ..SimConfig::default()
    });
    let process = sim.process();
    let _listener = process.listen(server());
    assert_eq!(result(&process).2, Some(ErrorKind::TimedOut));
    assert_eq!(sim.now().as_secs(), 31);
}

#[test]
fn a_timer_ends_a_connect_and_nothing_is_left_of_it() {
    let sim = sim_with(7, &[Fault::ConnectTimeout]);
    let process = sim.process();
    let _listener = process.listen(server());
    let mut ev: EventLoop<SimListener> = process.builder().build().expect("a loop");
    let mut conns = TokenMap::new();
    let stream = connect(&process).expect("it is in progress");
    let added = conns.add(&mut ev, stream, Interest::BOTH, Mode::Edge);
    let token = added.expect("a fresh descriptor");
    ev.arm(token, Timer::READ, Duration::from_secs(5));
    ev.wait().expect("the timer fires");
    assert!(matches!(ev.next_step(), Some(Step::Expired(expired, _)) if expired == token));
    assert!(conns.close(&mut ev, token));
    sim.run_for(Duration::from_secs(60));
    assert_eq!(sim.backlog_len(server()), 0);
}

/// The client gives up after the server has got the connection. The answer arrives at a closed
/// socket.
#[test]
fn a_client_that_closes_before_the_answer_resets_its_connection() {
    let sim = sim_with(7, &[]);
    let listener = sim.process().listen(server());
    let stream = connect(&sim.process()).expect("it is in progress");
    sim.run_for(MS + MS / 2);
    drop(stream);
    let accepted = accept(&listener);
    sim.run_for(10 * MS);
    let error = accepted.recv(&mut [0; 8]).expect_err("it is reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn calls_on_a_connect_in_progress_do_what_linux_does() {
    let sim = sim_with(7, &[Fault::ConnectTimeout]);
    let in_progress = connect(&sim.process()).expect("it is in progress");
    let simulated = outcomes(&in_progress);
    assert_eq!(simulated[0], Err(ErrorKind::WouldBlock));
    #[cfg(target_os = "linux")]
    {
        // With a full backlog, the connect stays in progress.
        let listener = evcore::Listener::builder().backlog(0).bind("127.0.0.1:0");
        let listener = listener.expect("a free port");
        let _fills = std::net::TcpStream::connect(listener.local_addr()).expect("there is room");
        let in_progress = evcore::Stream::connect(listener.local_addr()).expect("in progress");
        assert_eq!(outcomes(&in_progress), simulated);
    }
}

fn outcomes(stream: &impl evcore::Transport) -> Vec<Result<String, ErrorKind>> {
    let number = |result: std::io::Result<usize>| result.map(|number| number.to_string());
    [
        number(stream.recv(&mut [0; 8])),
        number(stream.send(b"hello")),
        stream.peer_addr().map(|peer| peer.to_string()),
        stream.take_error().map(|error| format!("{error:?}")),
        // This call gives up the connection.
        stream.shutdown_write().map(|()| String::new()),
        number(stream.recv(&mut [0; 8])),
        number(stream.send(b"hello")),
    ]
    .map(|result| result.map_err(|error| error.kind()))
    .to_vec()
}

#[test]
fn a_connect_under_way_is_not_reported_spuriously() {
    let sim = sim_with(7, &[Fault::SpuriousReadiness]);
    let (process, other) = (sim.process(), sim.process());
    let _listener = other.listen(server());
    let mut poller = Poller::from(process.backend());
    let stream = connect(&process).expect("it is in progress");
    let added = poller.add(&stream, 0, Interest::BOTH, Mode::Edge);
    added.expect("a fresh descriptor");
    let mut events = Events::bounded(1);
    let waited = poller.wait(&mut events, Some(MS / 2));
    waited.expect("it ends by its timeout");
    assert!(events.is_empty());
    poller.wait(&mut events, None).expect("the result comes");
    assert!(stream.peer_addr().is_ok());
}
