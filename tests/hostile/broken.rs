//! Clients that end a connection in the middle of an exchange, and bytes that are not a request.

use evcore_tests::{Client, Server};

/// Beginnings of exchanges. The first [`INCOMPLETE`] ones are incomplete requests. The others are
/// complete requests: one with a large response, and at the end one whose response waits for a
/// timer.
const MIDDLES: [&str; 6] = [
    "GET / HT",
    "GET / HTTP/1.1\r\nHost: t\r\nX: ",
    "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1048576\r\n\r\nhello",
    "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    "GET /bytes/1000000000 HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET /sleep/3600000 HTTP/1.1\r\nHost: t\r\n\r\n",
];

const INCOMPLETE: usize = 4;

/// Number of clients for each beginning.
const EACH: usize = 4;

/// Number of bodies of the maximum size for which the server has memory: one for each client that
/// sends such a `Content-Length` in [`MIDDLES`], and one more.
const BODIES: usize = EACH + 1;

const MIB: usize = 1024 * 1024;

fn server(poller: &str) -> Server {
    let bodies = (BODIES * MIB).to_string();
    Server::start(&["--workers", "1", "--poller", poller, "--bodies", &bodies])
}

/// Connects clients that stop at each of these points, and waits until the server has read what
/// they sent.
fn in_the_middle(server: &Server, middles: &[&str]) -> Vec<Client> {
    let stop_at = |start: &str| {
        let mut client = server.connect();
        client.send(start);
        client
    };
    let starts = middles.iter().flat_map(|start| [*start; EACH]);
    let clients: Vec<_> = starts.map(stop_at).collect();
    server.wait_for_status("all have begun", |status| {
        status.reading + status.writing == clients.len() as u64 + 1
    });
    clients
}

/// Checks that no connection of the clients is left, and that the memory of their bodies is free.
fn assert_nothing_is_left(server: &Server) {
    server.wait_for_status("their connections are closed", |status| status.active == 1);
    let mut clients: Vec<_> = (0..BODIES).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1048576\r\n\r\n");
    }
    server.wait_for_status("all have begun", |status| status.reading == BODIES as u64);
    // The last client is served first, so all of them have memory at the same time.
    for client in clients.iter_mut().rev() {
        client.send(vec![b'x'; MIB]);
        assert_eq!(client.response().body.len(), MIB);
    }
}

#[test]
fn a_reset_in_the_middle_leaves_nothing_behind() {
    for poller in ["epoll", "poll", "select"] {
        let server = server(poller);
        // select reports no reset of a connection that waits only for a timer.
        let count = MIDDLES.len() - usize::from(poller == "select");
        let clients = in_the_middle(&server, &MIDDLES[..count]);
        let mut other = server.connect();
        for client in clients {
            client.reset();
            assert_eq!(other.get("/").status, 200, "{poller}");
        }
        drop(other);
        assert_nothing_is_left(&server);
    }
}

/// An incomplete request gets no response. (For a complete one see
/// `a_half_closed_client_gets_its_responses`.)
#[test]
fn a_half_close_in_the_middle_ends_an_incomplete_request() {
    for poller in ["epoll", "poll", "select"] {
        let server = server(poller);
        for mut client in in_the_middle(&server, &MIDDLES[..INCOMPLETE]) {
            client.shutdown_write();
            assert!(client.is_closed(), "{poller}");
        }
        assert_nothing_is_left(&server);
    }
}

/// The refusal waits neither for a timeout nor for the end of a line, which other protocols may
/// never send.
#[test]
fn a_first_byte_of_no_request_is_refused_at_once() {
    let server = Server::start(&["--workers", "1", "--header-timeout", "3600000"]);
    for first in [0x00, 0x01, 0x05, 0x16, b' ', b'\t', 0x7f, 0x80, 0xff] {
        let mut client = server.connect();
        client.send([first]);
        assert_eq!(client.response().status, 400, "{first:#x}");
        client.shutdown_write();
        assert!(client.is_closed(), "{first:#x}");
    }
    // An empty line before a request is ignored, and does not begin one.
    for (first, rest) in [("G", "ET "), ("\r", "\nGET "), ("\n", "GET ")] {
        let mut client = server.connect();
        client.send(first);
        let begun = u64::from(first != "\n");
        server.wait_for_status("it is read", |status| status.reading == begun);
        client.send(format!("{rest}/ HTTP/1.1\r\nHost: t\r\n\r\n"));
        assert_eq!(client.response().status, 200, "{first:?}");
    }
}
