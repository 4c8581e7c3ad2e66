//! Requests that arrive in several segments.

use evcore_tests::{Client, Server};

const REQUEST: &str =
    "POST /echo HTTP/1.1\r\nHost: test\r\nX-Other: a b\r\nContent-Length: 4\r\n\r\nbody";

fn assert_echo(client: &mut Client) {
    let response = client.response();
    assert_eq!((response.status, response.text()), (200, "body"));
}

/// `/status` shows that the server has read the first piece before the second is sent.
#[test]
fn a_request_may_be_split_at_every_byte() {
    for poller in ["epoll", "poll", "select"] {
        let server = Server::start(&["--workers", "1", "--poller", poller]);
        for cut in 1..REQUEST.len() {
            let mut client = server.connect();
            client.send(&REQUEST[..cut]);
            server.wait_for_status("the first piece is read", |status| status.reading == 1);
            client.send(&REQUEST[cut..]);
            assert_echo(&mut client);
        }
    }
}

#[test]
fn a_request_may_arrive_a_byte_at_a_time() {
    for poller in ["epoll", "poll", "select"] {
        let server = Server::start(&["--workers", "1", "--poller", poller]);
        let mut client = server.connect();
        for _ in 0..10 {
            for byte in REQUEST.as_bytes() {
                client.send([*byte]);
            }
            assert_echo(&mut client);
        }
    }
}

#[test]
fn a_pipelined_request_may_be_split_at_every_byte() {
    let server = Server::start(&["--workers", "1"]);
    let two = REQUEST.repeat(2);
    for cut in REQUEST.len() + 1..two.len() {
        let mut client = server.connect();
        client.send(&two[..cut]);
        assert_echo(&mut client);
        client.send(&two[cut..]);
        assert_echo(&mut client);
    }
}
