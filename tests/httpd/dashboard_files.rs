//! The files of `/dashboard`, without a browser. `tests/dashboard` opens them in a browser.

use evcore_tests::Server;

#[test]
fn each_file_of_the_dashboard_has_its_type_and_a_strict_policy() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.connect();
    for (path, content_type, start) in [
        ("/dashboard", "text/html; charset=utf-8", "<!doctype html>"),
        ("/dashboard.js", "text/javascript; charset=utf-8", "//"),
        ("/dashboard.css", "text/css; charset=utf-8", ":root {"),
    ] {
        let response = client.get(path);
        assert_eq!(response.status, 200, "{path}");
        assert!(response.text().starts_with(start), "{path}");
        assert_eq!(response.header("content-type"), Some(content_type));
        assert_eq!(response.header("cache-control"), Some("no-cache"));
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        let policy = response.header("content-security-policy");
        let policy = policy.expect("a policy");
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");

        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let (head, length) = client.head_response();
        assert_eq!(head.header("content-type"), Some(content_type));
        assert_eq!(length, Some(response.body.len()));
    }
}

#[test]
fn the_dashboard_refers_to_no_other_host() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.connect();
    for path in ["/dashboard", "/dashboard.js", "/dashboard.css"] {
        let response = client.get(path);
        let text = response.text().replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("://"), "{path}");
    }
}

/// The client requests the script and the numbers repeatedly, and reads no response.
#[test]
fn a_dashboard_client_that_never_reads_is_closed() {
    let server = Server::start(&["--workers", "1", "--send-timeout", "200"]);
    let mut client = server.connect();
    let requests = "GET /dashboard.js HTTP/1.1\r\nHost: test\r\n\r\n\
                    GET /status.json HTTP/1.1\r\nHost: test\r\n\r\n";
    // The responses are more bytes than the buffers of both sockets take. Requests that are not yet
    // sent when the server closes the connection are lost.
    client.send_lossy(requests.repeat(20_000));
    server.wait_for_status("the connection is closed", |status| status.active == 1);
    assert_eq!(server.connect().get("/dashboard").status, 200);
}
