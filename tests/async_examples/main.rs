//! The examples of `evcore-async`, as processes.

mod load;

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    sync::Arc,
};

use async_tungstenite::{WebSocketStream, client_async, tungstenite::Message};
use evcore_async::Runtime;
use evcore_tests::{Client, PATIENCE, Server, eventually, example, not_run};
use futures_lite::StreamExt;
use rustix::process::Signal;
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
    for _ in 0..3 {
        let mut client = Client::connect(proxy.address());
        for _ in 0..10 {
            let response = client.get("/");
            assert_eq!((response.status, response.text()), (200, GREETING));
        }
    }
}

#[test]
fn a_proxy_without_its_server_answers_502() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    let proxy = start("hyper_proxy", &[&address]);
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.get("/").status, 502);
    assert_eq!(client.get("/").status, 502, "the connection stays");
}

/// A client of the chat.
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
        // A client is in the room when it gets a message: bob sends until alice and carol have.
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
fn tls_clients_get_their_bytes_back() {
    let server = start("async_tls", &[CERTIFICATE, KEY]);
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
    let mut client = StreamOwned::new(session.unwrap(), stream);
    for length in [1, 1_000, 100_000] {
        let sent = vec![7; length];
        client.write_all(&sent).unwrap();
        let mut received = vec![0; length];
        client.read_exact(&mut received).unwrap();
        assert_eq!(received, sent);
    }
    client.conn.send_close_notify();
    client.flush().unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "a close_notify");
}
