//! The example that sends back bursts of datagrams.

use std::{collections::BTreeSet, net::UdpSocket, process::Command};

use evcore_tests::{PATIENCE, Server, example};

#[test]
fn each_datagram_of_a_burst_comes_back() {
    for options in [&[][..], &["--one"]] {
        let mut command = Command::new(example("evcore", "udp_bursts"));
        command.arg("127.0.0.1:0").args(options);
        let server = Server::from_command(command, 1);
        let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        client.connect(server.address()).expect("it has a route");
        client.set_read_timeout(Some(PATIENCE)).expect("a time");
        let mut buffer = [0; 2_000];
        for length in [1, 1_200] {
            // The datagrams differ in their first byte. The sockets' buffers have room for all.
            let mut sent: BTreeSet<Vec<u8>> = (0..20).map(|n| vec![n; length]).collect();
            for datagram in &sent {
                assert_eq!(client.send(datagram).expect("it has room"), length);
            }
            while !sent.is_empty() {
                let received = client.recv(&mut buffer).expect("a datagram");
                assert!(sent.remove(&buffer[..received]), "it comes back once");
            }
        }
    }
}
