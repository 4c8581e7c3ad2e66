//! Tests of the examples of `evcore-async`, which run as processes.

mod load;

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use async_tungstenite::{WebSocketStream, client_async, tungstenite::Message};
use evcore_async::Runtime;
use evcore_testing::in_time;
use evcore_tests::{Client, PATIENCE, Server, eventually, example, not_run};
use futures_lite::StreamExt;
use rustix::{
    net::{self, AddressFamily, SocketType},
    process::Signal,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject},
};

const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/echo/localhost.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/echo/localhost.key");

const GREETING: &str = "Hello, world!";

fn start(name: &str, arguments: &[&str]) -> Server {
    let mut command = Command::new(example("evcore-async", name));
    command.arg("127.0.0.1:0").args(arguments);
    Server::from_command(command, 1)
}

fn start_workers(workers: usize, options: &[&str]) -> Server {
    let count = workers.to_string();
    let server = start("hyper_hello", &[&[&count[..]], options].concat());
    wait_for_workers(server, workers)
}

fn wait_for_workers(server: Server, workers: usize) -> Server {
    let serving = |server: &Server| server.log().matches(" serves").count();
    eventually("all workers serve", || serving(&server) == workers);
    server
}

#[test]
fn hyper_answers_many_requests_of_a_connection() {
    let server = start_workers(1, &[]);
    let mut client = Client::connect(server.address());
    for _ in 0..100 {
        let response = client.get("/");
        assert_eq!((response.status, response.text()), (200, GREETING));
        assert!(!response.closes());
    }
    client.send("no request\r\n\r\n");
    assert_eq!(client.response().status, 400);
}

#[test]
fn a_stop_closes_connections_and_ends() {
    let mut server = start_workers(2, &[]);
    let mut idle = Client::connect(server.address());
    idle.get("/");
    server.signal(Signal::QUIT);
    assert!(idle.is_closed());
    assert!(server.wait().success(), "{}", server.log());
}

#[test]
fn hyper_speaks_http2_with_curl() {
    let version = Command::new("curl").arg("--version").output();
    if !version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("HTTP2")) {
        return not_run("there is no curl with HTTP/2");
    }
    let server = start_workers(1, &["--h2"]);
    let url = format!("http://{}/", server.address());
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--fail",
        "--http2-prior-knowledge",
        "--write-out",
        "%{http_version}",
    ]);
    let output = curl.arg(&url).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, format!("{GREETING}2"));
}

#[test]
fn a_proxy_forwards_by_kept_connections() {
    let upstream = start_workers(1, &[]);
    let proxy = start("hyper_proxy", &[&upstream.address().to_string()]);
    let connections = || established_to(upstream.address());
    for _ in 0..3 {
        let mut client = Client::connect(proxy.address());
        for _ in 0..10 {
            let response = client.get("/");
            assert_eq!((response.status, response.text()), (200, GREETING));
        }
    }
    // Of 30 requests, a few may come before the connection of an earlier one is kept. They open
    // another one.
    assert!((1..10).contains(&connections()), "{}", connections());
}

/// Number of TCP connections to this address that clients hold open, from `/proc`.
fn established_to(address: SocketAddr) -> usize {
    let SocketAddr::V4(address) = address else {
        panic!("it listens on IPv4");
    };
    let ip = u32::from_ne_bytes(address.ip().octets());
    let remote = format!("{ip:08X}:{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    // The third field is the remote address, and the fourth the state: 01 is ESTABLISHED.
    let fields = table.lines().map(|line| line.split_whitespace().collect());
    let is_open = |row: &Vec<&str>| row.get(2) == Some(&&remote[..]) && row.get(3) == Some(&"01");
    fields.filter(is_open).count()
}

#[test]
fn axum_routes_requests_to_its_handlers() {
    let server = wait_for_workers(start("axum_router", &["2"]), 2);
    let mut client = Client::connect(server.address());
    for _ in 0..10 {
        assert_eq!(client.get("/").text(), GREETING);
        assert_eq!(client.get("/greet/alice").text(), "Hello, alice!");
        assert_eq!(client.get("/nothing").status, 404);
        client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nbytes");
        assert_eq!(client.response().text(), "bytes");
        client.send("DELETE /echo HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().status, 405);
    }
}

#[test]
fn a_proxy_without_its_server_answers_502() {
    // A socket that is bound and does not listen keeps the port from other tests.
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(net::getsockname(&socket).unwrap()).unwrap();
    let address = address.to_string();
    let proxy = start("hyper_proxy", &[&address]);
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.get("/").status, 502);
    assert_eq!(client.get("/").status, 502, "the connection stays");
}

async fn join_chat(server: &Server) -> WebSocketStream<evcore_async::TcpStream> {
    let stream = evcore_async::TcpStream::connect(server.address())
        .await
        .unwrap();
    let (socket, _) = client_async("ws://chat/", stream).await.unwrap();
    socket
}

async fn next_text(client: &mut WebSocketStream<evcore_async::TcpStream>) -> String {
    let next = evcore_async::timeout(PATIENCE, client.next()).await;
    let message = next.expect("in time").expect("it is open").unwrap();
    message.into_text().unwrap().to_string()
}

#[test]
fn chat_clients_get_what_the_others_send() {
    let server = start("chat", &[]);
    let chat = async {
        let (mut alice, mut bob) = (join_chat(&server).await, join_chat(&server).await);
        let mut carol = join_chat(&server).await;
        // Bob's message shows that alice and carol are in the room.
        bob.send(Message::text("hello")).await.unwrap();
        for client in [&mut alice, &mut carol] {
            assert_eq!(next_text(client).await, "hello");
        }
        drop(carol);
        alice.send(Message::text("hi")).await.unwrap();
        assert_eq!(next_text(&mut bob).await, "hi");
        bob.close(None).await.unwrap();
    };
    Runtime::new().unwrap().block_on(chat).unwrap();
}

#[test]
fn a_chat_client_that_does_not_read_is_disconnected() {
    let server = start("chat", &[]);
    let chat = async {
        let (mut reads, mut waits) = (join_chat(&server).await, join_chat(&server).await);
        reads.send(Message::text("hello")).await.unwrap();
        assert_eq!(next_text(&mut waits).await, "hello");
        // More bytes than the buffers of the sockets and the server's queue hold.
        for _ in 0..500 {
            let piece = vec![0; 64 * 1024];
            reads.send(Message::binary(piece)).await.unwrap();
        }
        let all = async { while let Some(Ok(_)) = waits.next().await {} };
        evcore_async::timeout(PATIENCE, all).await.expect("it ends");
    };
    Runtime::new().unwrap().block_on(chat).unwrap();
    eventually("the server gives up the client", || {
        server.log().contains("it does not read")
    });
}

type TlsClient = StreamOwned<ClientConnection, TcpStream>;

fn connect_by_tls(server: &Server) -> TlsClient {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(CERTIFICATE).unwrap())
        .unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let session = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap());
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    StreamOwned::new(session.unwrap(), stream)
}

fn echo_by_tls(client: &mut TlsClient, length: usize) -> io::Result<()> {
    let sent = vec![7; length];
    client.write_all(&sent)?;
    let mut received = vec![0; length];
    client.read_exact(&mut received)?;
    assert_eq!(received, sent);
    Ok(())
}

#[test]
fn tls_clients_get_their_bytes_back() {
    let server = start("async_tls", &[CERTIFICATE, KEY]);
    let mut client = connect_by_tls(&server);
    for length in [1, 1_000, 100_000] {
        echo_by_tls(&mut client, length).unwrap();
    }
    client.conn.send_close_notify();
    client.flush().unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "a close_notify");
}

#[test]
fn tls_clients_keep_their_old_worker_at_a_reload_until_they_are_silent() {
    // The time for which a stopping worker waits for the next bytes of a client.
    let grace = Duration::from_secs(1);
    in_time(grace, || {
        let server = wait_for_workers(start("async_tls", &[CERTIFICATE, KEY, "2"]), 2);
        let mut clients: Vec<_> = (0..8).map(|_| connect_by_tls(&server)).collect();
        let mut echo_all = |length| {
            let mut clients = clients.iter_mut();
            clients.try_for_each(|client| echo_by_tls(client, length))
        };
        echo_all(100).unwrap();
        let old = server.worker_pids();
        server.signal(Signal::HUP);
        let begun = Instant::now();
        // Bytes that a client sends within the grace come back from its old worker.
        let echoed = echo_all(10_000).map_err(|error| error.to_string());
        let took = begun.elapsed();
        if echoed.is_ok() {
            let is_closed = |client: &mut TlsClient| client.read(&mut [0; 1]).unwrap() == 0;
            assert!(clients.iter_mut().all(is_closed), "a close_notify");
            eventually("the old workers end", || {
                let now = server.worker_pids();
                now.len() == 2 && !now.iter().any(|pid| old.contains(pid))
            });
        }
        (took, echoed)
    });
}
