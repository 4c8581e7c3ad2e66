//! The example `proxy`, which forwards bytes and the end of a stream in both directions, and has
//! timeouts.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use evcore_tests::{PATIENCE, Server, eventually, example, limited, not_run, signal_to};
use rustix::net::sockopt::{self, Timeout};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use super::{
    LENGTH, bytes, connect, read_back, send_without_reading, sends_before_it_reads, start,
};

pub(super) fn proxy(to: SocketAddr, options: &[&str]) -> Server {
    started(Command::new(example("evcore-serve", "proxy")), to, options)
}

fn started(mut command: Command, to: SocketAddr, options: &[&str]) -> Server {
    command.args(["--listen", "127.0.0.1:0", "--to", &to.to_string()]);
    command.args(options);
    Server::from_command(command, 1)
}

/// A listener of this test, and a proxy in front of it.
fn with_upstream(options: &[&str]) -> (TcpListener, Server) {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let proxy = proxy(upstream.local_addr().expect("an address"), options);
    (upstream, proxy)
}

pub(super) fn accept(upstream: &TcpListener) -> TcpStream {
    let (stream, _) = upstream.accept().expect("the proxy connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time");
    stream
}

/// Sends a message, and reads it at the other side.
pub(super) fn pass(mut from: &TcpStream, mut to: &TcpStream) {
    from.write_all(b"ping").expect("it reads");
    let mut received = [0; 4];
    to.read_exact(&mut received).expect("it forwards");
    assert_eq!(&received, b"ping");
}

/// Reads the end, or the reset that a close with unread bytes causes.
pub(super) fn read_end(mut stream: &TcpStream) {
    match stream.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("not an end: {other:?}"),
    }
}

#[test]
fn the_proxy_returns_16_mb_to_a_client_that_reads_late() {
    let server = start("60");
    let proxy = proxy(server.address(), &[]);
    let stream = connect(proxy.address());
    sends_before_it_reads(&stream, &bytes(LENGTH)).expect("all of it");
}

#[test]
fn the_proxy_begins_a_connection_with_the_address_of_its_client() {
    let (upstream, proxy) = with_upstream(&["--send-proxy"]);
    let client = connect(proxy.address());
    let at_server = accept(&upstream);
    let mut header = [0; 28];
    (&at_server).read_exact(&mut header).expect("a header");
    let (from, to) = (client.local_addr().unwrap(), proxy.address());
    let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    let signature = b"\r\n\r\n\0\r\nQUIT\n".as_slice(); // as the specification has it
    let version_2_over_tcp = [0x21, 0x11, 0, 12].as_slice();
    let addresses = [127, 0, 0, 1, 127, 0, 0, 1].as_slice();
    assert_eq!(
        header.as_slice(),
        [signature, version_2_over_tcp, addresses, &ports].concat()
    );
    pass(&client, &at_server);
    pass(&at_server, &client);
}

#[test]
fn more_sessions_are_served_than_the_default_of_a_loop() {
    let (sessions, limit) = (600, getrlimit(Resource::Nofile));
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
    if raised.is_err() || limit.maximum.is_some_and(|maximum| maximum < 4096) {
        return not_run("the limit on descriptors is below 4,096");
    }
    let (upstream, proxy) = with_upstream(&[]);
    let limit = sockopt::set_socket_timeout(&upstream, Timeout::Recv, Some(PATIENCE));
    limit.expect("a time to wait for a connection");
    let open = (0..sessions).map(|_| (connect(proxy.address()), accept(&upstream)));
    let open: Vec<_> = open.collect();
    for (client, at_upstream) in &open {
        assert_eq!(client.peer_addr().expect("an address"), proxy.address());
        pass(client, at_upstream);
    }
}

/// Sends the number of each session from one side, calls `act`, and reads the numbers at the other
/// side.
fn through(sessions: &[[TcpStream; 2]], from: usize, act: impl FnOnce()) {
    for (number, session) in (0_u32..).zip(sessions) {
        let sent = (&session[from]).write_all(&number.to_le_bytes());
        sent.expect("it is open");
    }
    act();
    for (number, session) in (0_u32..).zip(sessions) {
        let mut bytes = [0; 4];
        let received = (&session[1 - from]).read_exact(&mut bytes);
        received.expect("it goes on");
        assert_eq!(u32::from_le_bytes(bytes), number);
    }
}

/// There are more sessions than a batch (one message of the handover) holds, and some clients shut
/// down their writing side.
#[test]
fn both_ends_of_a_session_move_at_reloads_and_an_upgrade() {
    let (upstream, mut proxy) = with_upstream(&[]);
    let sessions = (0..300).map(|_| {
        let client = connect(proxy.address());
        [client, accept(&upstream)]
    });
    let sessions: Vec<_> = sessions.collect();
    let wait_for_ends = |old: &[u32]| {
        eventually("the old workers have ended", || {
            let living = proxy.worker_pids();
            !old.iter().any(|worker| living.contains(worker))
        });
    };
    for time in 0..6 {
        let old = proxy.worker_pids();
        through(&sessions, time % 2, || proxy.signal(Signal::HUP));
        wait_for_ends(&old);
    }
    let (half_ended, sessions) = sessions.split_at(20);
    for [client, _] in half_ended {
        client.shutdown(Shutdown::Write).expect("it is open");
    }
    let new = proxy.start_binary();
    eventually("the new worker serves", || {
        proxy.log().matches(" serves").count() == 1 + 6 + 1
    });
    through(sessions, 0, || proxy.signal(Signal::QUIT));
    through(half_ended, 1, || ());
    assert!(proxy.wait().success());
    through(sessions, 1, || ());
    through(half_ended, 1, || ());
    for [client, at_upstream] in half_ended {
        read_end(at_upstream);
        at_upstream.shutdown(Shutdown::Write).expect("it is open");
        read_end(client);
    }
    let log = proxy.log();
    assert!(!log.contains("do not move"), "{log}");
    upstream.set_nonblocking(true).expect("a listener");
    let further = upstream.accept().expect_err("a further connection");
    assert_eq!(further.kind(), ErrorKind::WouldBlock);
    signal_to(new, Signal::TERM);
}

#[test]
fn many_sessions_at_once_lose_nothing() {
    let server = start("60");
    let (proxy, bytes) = (proxy(server.address(), &[]), bytes(300_000));
    thread::scope(|scope| {
        for _ in 0..50 {
            let stream = connect(proxy.address());
            sockopt::set_socket_recv_buffer_size(&stream, 32 * 1024).expect("a size");
            sockopt::set_socket_send_buffer_size(&stream, 32 * 1024).expect("a size");
            let bytes = &bytes;
            scope.spawn(move || sends_before_it_reads(&stream, bytes).expect("all of it"));
        }
    });
}

#[test]
fn the_end_of_one_side_is_passed_on_while_the_other_sends() {
    let (upstream, proxy) = with_upstream(&[]);
    let mut client = connect(proxy.address());
    client.write_all(b"request").expect("it reads");
    client.shutdown(Shutdown::Write).expect("it is open");
    let mut server = accept(&upstream);
    let mut request = String::new();
    server.read_to_string(&mut request).expect("the end");
    assert_eq!(request, "request");
    for _ in 0..3 {
        pass(&server, &client);
    }
    drop(server);
    assert_eq!(client.read(&mut [0]).expect("an end"), 0);
}

#[test]
fn a_client_that_does_not_read_stops_the_server_from_sending() {
    let (upstream, proxy) = with_upstream(&[]);
    let client = connect(proxy.address());
    let server = accept(&upstream);
    let bytes = bytes(4 * LENGTH);
    let sent = send_without_reading(&server, &bytes).expect("some of it");
    assert!(sent < bytes.len(), "the proxy has kept {sent} bytes");
    drop(server);
    let received = thread::spawn(move || read_back(&client, &bytes[..sent]));
    received.join().expect("no panic").expect("all of it");
}

#[test]
fn a_refused_upstream_closes_the_client() {
    // The listener keeps its port until the proxy has another one. After that, connections to the
    // port are refused.
    let closed = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = closed.local_addr().expect("an address");
    let proxy = proxy(address, &[]);
    drop(closed);
    for _ in 0..3 {
        read_end(&connect(proxy.address()));
    }
}

/// TCP has no route to a multicast address.
#[test]
fn an_unreachable_upstream_closes_the_client() {
    let proxy = proxy(([224, 0, 0, 1], 80).into(), &[]);
    for _ in 0..3 {
        read_end(&connect(proxy.address()));
    }
    eventually("the reason is logged", || {
        proxy.log().contains("unreachable")
    });
}

/// Returns true if the server behind the proxy returns a message, false if the proxy has closed the
/// client, and `None` if neither happens in time.
fn is_answered(mut client: &TcpStream) -> Option<bool> {
    let mut received = [0; 4];
    let answered = client
        .write_all(b"ping")
        .and_then(|()| client.read_exact(&mut received));
    match answered.map_err(|error| error.kind()) {
        Ok(()) => Some(true),
        Err(ErrorKind::WouldBlock) => None,
        Err(_) => Some(false),
    }
}

/// If no descriptor is left for the connection to the upstream, the client is accepted and closed.
/// If none is left for the client itself, it waits in the backlog.
#[test]
fn without_a_descriptor_a_client_waits_or_is_closed() {
    let server = start("60");
    let command = limited(36, &example("evcore-serve", "proxy"));
    let proxy = started(command, server.address(), &[]);
    let mut clients = Vec::new();
    let (mut last, answered) = loop {
        let client = connect(proxy.address());
        let patience = client.read_timeout().expect("an option");
        client
            .set_read_timeout(Some(Duration::from_millis(500)))
            .expect("an option");
        let answered = is_answered(&client);
        client.set_read_timeout(patience).expect("an option");
        if answered != Some(true) {
            break (client, answered);
        }
        clients.push(client);
        assert!(clients.len() < 36, "there are descriptors for all");
    };
    let all_served = |clients: &[TcpStream]| {
        clients
            .iter()
            .all(|client| is_answered(client) == Some(true))
    };
    assert!(all_served(&clients));
    assert!(clients.pop().is_some(), "none was served");
    match answered {
        None => last.read_exact(&mut [0; 4]).expect("it has the place"),
        _ => eventually("a client has the place of one that has left", || {
            is_answered(&connect(proxy.address())) == Some(true)
        }),
    }
    assert!(all_served(&clients));
}

/// The process id of a proxy's only worker.
#[cfg(target_os = "linux")]
fn worker_of(proxy: &Server) -> u32 {
    let pid = proxy.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.expect("the proxy lives");
    children.trim().parse().expect("one worker")
}

/// The resident memory of a process, in KiB.
#[cfg(target_os = "linux")]
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.expect("a size").parse().expect("a number")
}

#[cfg(target_os = "linux")]
fn descriptors(pid: u32) -> u64 {
    let all = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
    all.count() as u64
}

/// Starts sessions whose two ends send until the proxy takes no more, and do not read.
#[cfg(target_os = "linux")]
fn stalled_sessions(
    count: u64,
    upstream: &TcpListener,
    proxy: &Server,
) -> Vec<(TcpStream, TcpStream)> {
    let sessions = (0..count).map(|_| {
        let client = connect(proxy.address());
        (client, accept(upstream))
    });
    let (sessions, bytes): (Vec<_>, _) = (sessions.collect(), vec![0; 4 * LENGTH]);
    thread::scope(|scope| {
        for end in sessions
            .iter()
            .flat_map(|(client, server)| [client, server])
        {
            let bytes = &bytes;
            scope.spawn(move || {
                let sent = send_without_reading(end, bytes).expect("some of it");
                assert!(sent < bytes.len(), "the proxy has taken everything");
            });
        }
    });
    sessions
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_takes_the_memory_of_its_two_buffers() {
    const SESSIONS: u64 = 16;
    const BUFFERS_KIB: u64 = 2 * 16; // of the session's two `SplicePipe`s
    const REST_KIB: u64 = 8;
    let (upstream, proxy) = with_upstream(&[]);
    let _first = stalled_sessions(1, &upstream, &proxy);
    let worker = worker_of(&proxy);
    let (before, open) = (resident_kib(worker), descriptors(worker));
    let _sessions = stalled_sessions(SESSIONS, &upstream, &proxy);
    assert!(
        descriptors(worker) >= open + 2 * SESSIONS,
        "they are not in this process"
    );
    let grown = resident_kib(worker) - before;
    let limit = SESSIONS * (BUFFERS_KIB + REST_KIB);
    assert!(grown <= limit, "{grown} KiB for {SESSIONS} sessions");
}

#[test]
fn an_upstream_that_does_not_answer_times_out() {
    const CONNECT: Duration = Duration::from_millis(300);
    let listener = evcore::Listener::builder().backlog(0).bind("127.0.0.1:0");
    let listener = listener.expect("a free port");
    let address = listener.local_addr().tcp().expect("an address of TCP");
    let _fills_the_backlog = connect(address);
    let proxy = proxy(address, &["--connect-timeout", "0.3"]);
    let began = Instant::now();
    let client = connect(proxy.address());
    read_end(&client);
    assert!(began.elapsed() >= CONNECT, "early");
}

#[test]
fn an_idle_session_is_closed_after_the_timeout_on_both_sides() {
    const IDLE: Duration = Duration::from_millis(300);
    let (upstream, proxy) = with_upstream(&["--idle-timeout", "0.3"]);
    let began = Instant::now();
    let client = connect(proxy.address());
    let server = accept(&upstream);
    read_end(&client);
    read_end(&server);
    assert!(began.elapsed() >= IDLE, "early");
}

#[test]
fn a_reset_of_either_side_ends_both_and_no_other_session() {
    let (upstream, proxy) = with_upstream(&[]);
    let other = connect(proxy.address());
    let other_server = accept(&upstream);
    for resets_client in [true, false] {
        let client = connect(proxy.address());
        let server = accept(&upstream);
        pass(&client, &server);
        pass(&server, &client);
        let (reset, left) = if resets_client {
            (client, server)
        } else {
            (server, client)
        };
        sockopt::set_socket_linger(&reset, Some(Duration::ZERO)).expect("a time");
        drop(reset);
        read_end(&left);
        pass(&other, &other_server);
        pass(&other_server, &other);
    }
}

#[test]
fn quit_ends_the_proxy_when_its_sessions_have_ended() {
    let (upstream, mut proxy) = with_upstream(&[]);
    let client = connect(proxy.address());
    let server = accept(&upstream);
    pass(&client, &server);
    proxy.signal(Signal::QUIT);
    eventually("it listens no more", || {
        TcpStream::connect(proxy.address()).is_err()
    });
    drop(upstream); // resets the sessions that the attempts above have opened
    pass(&server, &client);
    drop(client);
    read_end(&server);
    drop(server);
    assert!(proxy.wait().success());
}
