//! The counts add up.

use evcore_tests::{Server, Status};

#[test]
fn counts_add_up_over_workers() {
    for accept in ["mutex", "off"] {
        let server = Server::start(&["--workers", "2", "--accept", accept]);
        let mut clients: Vec<_> = (0..40).map(|_| server.connect()).collect();
        for client in &mut clients {
            for _ in 0..5 {
                assert_eq!(client.get("/").status, 200);
            }
        }
        let mut asker = server.connect();
        let mut asked = 0;
        let settled =
            |status: &Status, asked| status.requests == 40 * 5 + asked && status.waiting == 40;
        let status = loop {
            asked += 1;
            let status = Status::parse(asker.get("/status").text());
            // What the other worker has counted is published at the end of its turn.
            if settled(&status, asked) || asked == 100_000 {
                break status;
            }
        };
        assert_eq!(status.active, 41);
        assert_eq!(status.accepts, 41);
        assert_eq!(status.handled, 41);
        assert_eq!(status.requests, 40 * 5 + asked);
        assert_eq!((status.reading, status.writing, status.waiting), (0, 1, 40));
        drop(clients);
        server.wait_for_status("all but the two who ask are gone", |status| {
            status.active == 2
        });
    }
}

#[test]
fn each_state_is_counted_as_what_it_is() {
    let server = Server::start(&["--workers", "1"]);
    let mut reading = server.connect();
    reading.send("GET / HT");
    let mut body = server.connect();
    body.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nab");
    let mut writing = server.connect();
    writing.send("GET /sleep/3600000 HTTP/1.1\r\nHost: test\r\n\r\n");
    let _waiting = server.connect();
    server.wait_for_status("two read, two write, one waits", |status| {
        (
            status.reading,
            status.writing,
            status.waiting,
            status.active,
        ) == (2, 2, 1, 5)
    });
}
