//! The example `proxy --send-proxy` in front of real receivers of the PROXY protocol, version 2:
//! `HAProxy` and nginx report the address of the proxy's client.

use std::{
    fs,
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::fd::OwnedFd,
    path::Path,
    process::{Command, Stdio},
};

use evcore_tests::{Client, Running, Scratch, is_installed};

use super::proxy::proxy;

/// Starts a receiver, which gets a listener of this test as its standard input.
fn start(command: &mut Command, listener: TcpListener) -> Running {
    command.stdin(Stdio::from(OwnedFd::from(listener)));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Running::start(command)
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has one");
    (listener, address)
}

/// The receiver answers with the address of its client. Checks that this is the address of the
/// proxy's client, and not that of the proxy.
fn expect_clients_reported(receiver: SocketAddr) {
    let proxy = proxy(receiver, &["--send-proxy"]);
    for last in [2, 3] {
        let from = Ipv4Addr::new(127, 0, 0, last);
        let mut client = Client::connect_from(from, proxy.address());
        let expected = SocketAddr::from((from, client.local_port())).to_string();
        // Only the first request has the PROXY header before it.
        for _ in 0..2 {
            assert_eq!(client.get("/").text(), expected);
        }
    }
    // The receiver refuses a request without the header, so the reported address is from the
    // header.
    let mut client = Client::connect(receiver);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    match client.read_to_end() {
        Ok(0) => {}
        // A close with unread bytes causes a reset.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("it was not refused: {other:?}"),
    }
}

#[test]
fn haproxy_reports_the_client_of_the_proxy() {
    if !is_installed("haproxy") {
        return;
    }
    let directory = Scratch::new("accept-proxy");
    let path = directory.path().join("haproxy.cfg");
    let configuration = "defaults\n mode http\n timeout client 60s\n\
         frontend receiver\n bind fd@0 accept-proxy\n \
         http-request return status 200 content-type text/plain lf-string \"%[src]:%[src_port]\"\n";
    fs::write(&path, configuration).expect("a file");
    let (listener, address) = listener();
    let mut command = Command::new("haproxy");
    let _haproxy = start(command.arg("-db").arg("-f").arg(path), listener);
    expect_clients_reported(address);
}

/// The settings of nginx for a receiver on an address, with all its files in its directory.
fn nginx_configuration(address: SocketAddr) -> String {
    let modules = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let directories: String = modules
        .iter()
        .map(|name| format!("{name}_temp_path {name};\n"))
        .collect();
    format!(
        "daemon off;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\n\
         http {{ access_log off;\n{directories}\
         server {{ listen {address} proxy_protocol; \
         return 200 \"$proxy_protocol_addr:$proxy_protocol_port\"; }} }}\n"
    )
}

fn nginx(directory: &Path) -> Command {
    let mut command = Command::new("nginx");
    // nginx takes over the listener as descriptor 0, as in an upgrade of its binary.
    command.env("NGINX", "0;").arg("-p").arg(directory);
    command
}

#[test]
fn nginx_reports_the_client_of_the_proxy() {
    if !is_installed("nginx") {
        return;
    }
    let directory = Scratch::new("nginx-receiver");
    let path = directory.path().join("nginx.conf");
    let (listener, address) = listener();
    fs::write(&path, nginx_configuration(address)).expect("a file");
    let mut command = nginx(directory.path());
    let _nginx = start(command.arg("-c").arg(path), listener);
    expect_clients_reported(address);
}
