//! Slow clients do not delay others.

use evcore_tests::Server;

#[test]
fn slow_request_heads_time_out_while_others_are_served() {
    for poller in ["epoll", "poll", "select"] {
        let server = Server::start(&[
            "--workers",
            "2",
            "--poller",
            poller,
            "--header-timeout",
            "1000",
        ]);
        let mut slow: Vec<_> = (0..50).map(|_| server.connect()).collect();
        for client in &mut slow {
            client.send("GET / HTTP/1.1\r\nHost: slow");
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..250 {
                        let mut client = server.connect();
                        for _ in 0..4 {
                            assert_eq!(client.get("/").status, 200);
                        }
                    }
                });
            }
        });
        for client in &mut slow {
            assert_eq!(client.response().status, 408);
            assert!(client.is_closed());
        }
    }
}

#[test]
fn clients_that_stop_reading_delay_no_other() {
    let server = Server::start(&["--workers", "1"]);
    let mut stalled: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for client in &mut stalled {
        client.send("GET /bytes/100000000 HTTP/1.1\r\nHost: test\r\n\r\n");
    }
    server.wait_for_status("the server sends to all of them", |status| {
        status.writing == 21
    });
    assert_eq!(server.connect().get("/").status, 200);
    assert_eq!(stalled[7].response().body.len(), 100_000_000);
}
