//! Clients whose addresses `HAProxy` and nginx report by the PROXY protocol.

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    path::Path,
    process::{Command, Stdio},
};

use evcore_tests::{Client, PATIENCE, Running, Scratch, Server, eventually, is_installed, not_run};
use rustix::process::Signal;

/// Debian's module of nginx that forwards streams.
const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// Starts a load balancer, which gets a listener of this test as its standard input. Also returns
/// the address of the listener.
fn balancer(command: &mut Command, listener: TcpListener) -> (Running, SocketAddr) {
    let address = listener.local_addr().expect("it has one");
    command.stdin(Stdio::from(OwnedFd::from(listener)));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    (Running::start(command), address)
}

fn haproxy(directory: &Path, to: SocketAddr, header: &str) -> (Running, SocketAddr) {
    let configuration = format!(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n\
         listen proxy\n bind fd@0\n server httpd {to} {header}\n"
    );
    let path = directory.join("haproxy.cfg");
    fs::write(&path, configuration).expect("a file");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    balancer(
        Command::new("haproxy").arg("-db").arg("-f").arg(path),
        listener,
    )
}

fn nginx(directory: &Path, to: SocketAddr) -> (Running, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has one");
    let configuration = format!(
        "load_module {STREAM_MODULE};\ndaemon off;\npid nginx.pid;\n\
         error_log stderr;\nevents {{}}\nstream {{ server {{ listen {address}; proxy_pass {to}; \
         proxy_protocol on; }} }}\n"
    );
    let path = directory.join("nginx.conf");
    fs::write(&path, configuration).expect("a file");
    let mut command = Command::new("nginx");
    // nginx takes the listener over as descriptor 0, as a new binary takes over the listeners of
    // the old one.
    command.env("NGINX", "0;").arg("-p").arg(directory);
    balancer(command.arg("-c").arg(path), listener)
}

fn server(log: &Path) -> Server {
    let log = log.to_str().expect("text");
    let options = ["--proxy-protocol", "127.0.0.0/8", "--access-log", log];
    Server::start(&[&["--workers", "1"], options.as_slice()].concat())
}

fn shown(client: &mut Client) -> String {
    let body = client.get("/worker").body;
    let worker: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    worker["client"].as_str().expect("it is known").to_owned()
}

#[test]
fn haproxy_reports_its_clients_in_both_versions() {
    if !is_installed("haproxy") {
        return;
    }
    for header in ["send-proxy", "send-proxy-v2"] {
        let directory = Scratch::new(header);
        let server = server(&directory.path().join("access.log"));
        let (_haproxy, address) = haproxy(directory.path(), server.address(), header);
        for last in [2, 3] {
            let from = Ipv4Addr::new(127, 0, 0, last);
            let mut client = Client::connect_from(from, address);
            assert_eq!(shown(&mut client), from.to_string(), "{header}");
        }
        expect_logged(server, directory.path(), &["127.0.0.2", "127.0.0.3"]);
    }
}

#[test]
fn nginx_reports_its_clients() {
    if !is_installed("nginx") {
        return;
    }
    if !Path::new(STREAM_MODULE).exists() {
        return not_run("libnginx-mod-stream is not installed");
    }
    let directory = Scratch::new("nginx-stream");
    let server = server(&directory.path().join("access.log"));
    let (_nginx, address) = nginx(directory.path(), server.address());
    let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), address);
    assert_eq!(shown(&mut client), "127.0.0.2");
    expect_logged(server, directory.path(), &["127.0.0.2"]);
}

fn expect_logged(mut server: Server, directory: &Path, clients: &[&str]) {
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    let log = fs::read_to_string(directory.join("access.log")).expect("a log");
    let logged: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(logged, clients);
}

#[test]
fn a_client_without_a_header_is_closed_and_logged() {
    let directory = Scratch::new("no-proxy-header");
    let server = server(&directory.path().join("access.log"));
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("it is open");
    let mut received = Vec::new();
    // The client sees the end, or the reset that a close with unread bytes causes.
    let _ = stream.read_to_end(&mut received);
    assert_eq!(received, b"");
    let peer = stream.local_addr().expect("it has one");
    let line = format!("no PROXY header from {peer}: it is malformed");
    eventually("a line of the log", || server.log().contains(&line));
}

#[test]
fn other_clients_are_served_without_a_header() {
    let server = Server::start(&["--workers", "1", "--proxy-protocol", "192.0.2.0/24,unix:"]);
    assert_eq!(shown(&mut server.connect()), "127.0.0.1");
}
