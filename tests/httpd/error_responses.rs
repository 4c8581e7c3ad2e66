//! Bad requests get the right status. `tests/hostile/corpus.rs` has the malformed ones.

use evcore_tests::{Client, Server};

fn server() -> Server {
    Server::start(&["--workers", "1"])
}

/// Asserts an error response and a close without a reset, which could destroy the response.
fn assert_refused(server: &Server, request: impl AsRef<[u8]>, status: u16) {
    let mut client = server.connect();
    client.send_lossy(request.as_ref());
    let start = String::from_utf8_lossy(&request.as_ref()[..request.as_ref().len().min(60)]);
    let response = client
        .try_response()
        .unwrap_or_else(|error| panic!("{start:?}: {error}"));
    assert_eq!(response.status, status, "{start:?}");
    assert!(response.closes(), "{start:?}");
    client.shutdown_write();
    assert!(client.is_closed(), "{start:?}");
}

/// A host is `uri-host [ ":" port ]` (RFC 9110, section 7.2).
#[test]
fn an_invalid_host_is_a_400() {
    let server = server();
    for host in [
        "a b",
        "a/b",
        "a, b",
        "user@host",
        "host:x",
        "[::1",
        "http://a",
    ] {
        assert_refused(
            &server,
            format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            400,
        );
    }
    let mut client = server.connect();
    for host in ["", "a", "a.b:80", "127.0.0.1", "[::1]", "%41", "a,b"] {
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.response().status, 200, "{host:?}");
    }
}

#[test]
fn the_options_of_the_server_are_its_methods() {
    let server = server();
    let mut client = server.connect();
    client.send("OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.text()), (200, ""));
    let allowed = response.header("allow").expect("the methods");
    let paths = [
        ("GET", "/"),
        ("HEAD", "/"),
        ("OPTIONS", "*"),
        ("POST", "/echo"),
    ];
    assert_eq!(allowed, paths.map(|(method, _)| method).join(", "));
    for (method, target) in paths {
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: t\r\n\r\n"));
        let status = match method {
            "HEAD" => client.head_response().0.status,
            _ => client.response().status,
        };
        assert_eq!(status, 200, "{method}");
    }
}

#[test]
fn a_tunnel_is_a_405_that_allows_nothing() {
    let server = server();
    let request = "CONNECT t:80 HTTP/1.1\r\nHost: t:80\r\n\r\n";
    assert_refused(&server, request, 405);
    let mut client = server.connect();
    client.send(request);
    assert_eq!(client.response().header("allow"), Some(""));
}

#[test]
fn a_target_of_more_than_8_kib_is_a_414() {
    let server = server();
    let target = |length: usize| "/".repeat(length);
    for (length, rest) in [
        (8193, " HTTP/1.1\r\nHost: t\r\n\r\n".to_owned()),
        // In these cases the head is too large as well, or the target is incomplete.
        (
            8193,
            format!(" HTTP/1.1\r\nHost: t\r\nX: {}", "x".repeat(16 * 1024)),
        ),
        (16 * 1024, String::new()),
    ] {
        assert_refused(&server, format!("GET {}{rest}", target(length)), 414);
    }
    let mut client = server.connect();
    assert_eq!(client.get(&target(8192)).status, 404);
}

#[test]
fn a_malformed_line_is_refused_before_the_head_is_complete() {
    assert_refused(&server(), "GARBAGE\r\n", 400);
}

#[test]
fn a_body_that_is_too_large_is_a_413_before_it_is_read() {
    let server = server();
    let echo = "POST /echo HTTP/1.1\r\nHost: test\r\n";
    assert_refused(
        &server,
        format!("{echo}Content-Length: 1048577\r\n\r\n"),
        413,
    );
    assert_refused(
        &server,
        format!("{echo}Content-Length: 99999999999999999999999\r\n\r\n"),
        413,
    );
    assert_refused(
        &server,
        format!("{echo}Transfer-Encoding: chunked\r\n\r\n100001\r\n"),
        413,
    );
    let chunks = format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(17);
    assert_refused(
        &server,
        format!("{echo}Transfer-Encoding: chunked\r\n\r\n{chunks}"),
        413,
    );
}

#[test]
fn the_error_response_arrives_while_the_client_is_sending() {
    let body = "x".repeat(2 * 1024 * 1024);
    let head = format!(
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    assert_refused(&server(), head + &body, 413);
}

#[test]
fn a_head_that_is_too_large_is_a_431() {
    let server = server();
    let line = "GET / HTTP/1.1\r\nHost: test\r\n";
    assert_refused(
        &server,
        format!("{line}X: {}\r\n\r\n", "x".repeat(16 * 1024)),
        431,
    );
    assert_refused(&server, "x".repeat(16 * 1024), 431);
    let many = (0..200).map(|n| format!("X{n}: 1\r\n")).collect::<String>();
    assert_refused(&server, format!("{line}{many}\r\n"), 431);
}

/// RFC 9110, section 9.3.2, forbids the body.
#[test]
fn a_refused_head_request_gets_no_body() {
    let server = Server::start(&["--workers", "0", "--header-timeout", "100"]);
    let host = "HEAD / HTTP/1.1\r\nHost: t\r\n";
    for (request, status) in [
        ("HEAD / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("\r\nHEAD / HTTP/3.0\r\n\r\n".to_owned(), 505),
        (format!("HEAD /{} HTTP/1.1\r\n\r\n", "x".repeat(8192)), 414),
        (format!("{host}Content-Length: 1048577\r\n\r\n"), 413),
        (format!("{host}Transfer-Encoding: chunked\r\n\r\nx"), 400),
        // In these cases the head or the body is incomplete.
        (host.to_owned(), 408),
        (format!("{host}Content-Length: 1\r\n\r\n"), 408),
    ] {
        let mut client = server.connect();
        client.send(&request);
        assert_eq!(client.head_response().0.status, status, "{request}");
        client.shutdown_write();
        assert!(client.is_closed(), "{request}");
    }
}

#[test]
fn a_head_just_below_the_limit_is_served() {
    let server = server();
    let mut client = server.connect();
    let head = "GET / HTTP/1.1\r\nHost: test\r\nX: ";
    let filling = "x".repeat(16 * 1024 - head.len() - 4);
    client.send(format!("{head}{filling}\r\n\r\n"));
    assert_eq!(client.response().status, 200);
}

#[test]
fn an_unknown_path_is_a_404_and_keeps_the_connection() {
    let server = server();
    let mut client = server.connect();
    for path in [
        "/nothing",
        "/bytes",
        "/bytes/",
        "/bytes/x",
        "/bytes/-1",
        "/bytes/+1",
        "/sleep/3600001",
        "/bytes/99999999999999999999999",
        "/files/x",
        "/sleep/1/2",
        "*",
    ] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    assert_eq!(client.get("/").status, 200);
}

#[test]
fn a_wrong_method_is_a_405_that_lists_the_allowed_ones() {
    let server = server();
    let mut client = server.connect();
    let ask = |client: &mut Client, line: &str| {
        client.send(format!("{line} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let response = client.response();
        assert_eq!(response.status, 405, "{line}");
        response.header("allow").map(str::to_owned)
    };
    assert_eq!(ask(&mut client, "POST /").as_deref(), Some("GET, HEAD"));
    assert_eq!(
        ask(&mut client, "DELETE /status").as_deref(),
        Some("GET, HEAD")
    );
    assert_eq!(ask(&mut client, "GET /echo").as_deref(), Some("POST"));
    assert_eq!(client.get("/").status, 200);
}

/// The error response comes at once, without `100 Continue`.
#[test]
fn expect_continue_of_a_bad_request_gets_its_error() {
    let server = server();
    for (path, status) in [("/", 405), ("/nothing", 404)] {
        let mut client = server.connect();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        ));
        let response = client.response();
        assert_eq!(response.status, status);
        assert!(response.closes());
    }
}

#[test]
fn the_option_no_delay_endpoints_turns_sleep_and_block_into_404s() {
    let server = Server::start(&["--workers", "0", "--no-delay-endpoints"]);
    let mut client = server.connect();
    for path in ["/sleep/1", "/block/1"] {
        assert_eq!(client.get(path).status, 404, "{path}");
        client.send(format!("DELETE {path} HTTP/1.1\r\nHost: t\r\n\r\n"));
        assert_eq!(client.response().status, 404, "{path}");
    }
    assert_eq!(client.get("/").status, 200);
}
