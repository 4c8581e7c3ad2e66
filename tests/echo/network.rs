//! Faults of a network, each in a network namespace of its own: no local port is left, the host
//! does not exist, or no answer comes.

use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    time::Duration,
};

use evcore::{Stream, net::ConnectOptions};
use evcore_tests::{PATIENCE, eventually, in_own_network};
use rustix::net::sockopt;

use super::{
    client::run_to_an_error,
    connect,
    proxy::{accept, pass, proxy, read_end},
};

/// Commands for a network without other hosts, in which the kernel soon finds that a host is
/// missing.
const NO_HOST: &str = "
    ip link add near type veth peer name far
    ip link set far up
    ip address add 10.9.9.1/24 dev near
    ip link set near up
    echo 20 > /proc/sys/net/ipv4/neigh/near/retrans_time_ms";
const MISSING_HOST: &str = "10.9.9.2:80";

/// Commands after which the kernel sends the first segment of a connection twice, and gives up
/// after three seconds.
const FEW_RETRIES: &str = "
    echo 1 > /proc/sys/net/ipv4/tcp_syn_retries
    [ ! -e /proc/sys/net/ipv4/tcp_syn_linear_timeouts ] ||
        echo 0 > /proc/sys/net/ipv4/tcp_syn_linear_timeouts";

fn ports(last: u16) -> String {
    format!("echo 40000 {last} > /proc/sys/net/ipv4/ip_local_port_range")
}

/// Closes a connection by a reset, so that its port is free at once.
fn reset(stream: TcpStream) {
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a time");
}

#[test]
fn without_a_local_port_connecting_fails_until_one_is_free() {
    let test = "network::without_a_local_port_connecting_fails_until_one_is_free";
    in_own_network(test, &ports(40003), || {
        // The listener has one of the four ports.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut clients = [(); 3].map(|()| connect(address)).into_iter();
        let refused = Stream::connect(address).expect_err("no port is free");
        let refused = io::Error::from(refused);
        assert_eq!(refused.kind(), ErrorKind::AddrNotAvailable, "{refused}");
        reset(clients.next().expect("three"));
        eventually("the port is free again", || {
            Stream::connect(address).is_ok()
        });
    });
}

/// Connects a client from another local address, which has a port range of its own.
fn connect_from(host: u8, server: SocketAddr) -> TcpStream {
    let local = SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0));
    let stream = ConnectOptions::new().local_address(local).connect(server);
    let stream = TcpStream::from(OwnedFd::from(stream.expect("a free port")));
    stream.set_nonblocking(false).expect("it is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream
}

#[test]
fn without_a_local_port_the_proxy_closes_new_clients() {
    let test = "network::without_a_local_port_the_proxy_closes_new_clients";
    in_own_network(test, &ports(40003), || {
        // This listener and the proxy's have two of the four ports.
        let upstream = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let proxy = proxy(upstream.local_addr().expect("an address"), &[]);
        let open = |host| {
            let client = connect_from(host, proxy.address());
            let server = accept(&upstream);
            pass(&client, &server);
            (client, server)
        };
        let [(first, first_server), (second, second_server)] = [open(2), open(3)];
        read_end(&connect_from(4, proxy.address()));
        pass(&second, &second_server);
        reset(first_server);
        read_end(&first);
        let (third, third_server) = open(5);
        pass(&third_server, &third);
    });
}

#[test]
fn connecting_to_a_missing_host_fails_later() {
    let test = "network::connecting_to_a_missing_host_fails_later";
    in_own_network(test, NO_HOST, || {
        let error = run_to_an_error(MISSING_HOST, "60");
        assert!(error.contains("No route to host"), "{error}");
        let proxy = proxy(MISSING_HOST.parse().expect("an address"), &[]);
        read_end(&connect(proxy.address()));
    });
}

#[test]
fn the_kernel_gives_up_connecting_before_a_long_timeout() {
    let test = "network::the_kernel_gives_up_connecting_before_a_long_timeout";
    in_own_network(test, FEW_RETRIES, || {
        let listener = evcore::Listener::builder().backlog(0).bind("127.0.0.1:0");
        let listener = listener.expect("a free port");
        let address = listener.local_addr().tcp().expect("an address of TCP");
        let _fills_the_backlog = connect(address);
        let error = run_to_an_error(address, "60");
        // The client's own timeout has no error number.
        let number = rustix::io::Errno::TIMEDOUT.raw_os_error();
        assert!(error.contains(&format!("os error {number}")), "{error}");
    });
}
