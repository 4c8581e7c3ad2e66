//! Files beneath `--root`, and their responses.

use std::{fs, path::Path};

use crate::permitted_pollers::permitted;
use evcore_tests::{Client, Response, Scratch, Server, eventually};

pub(super) struct Site {
    pub(super) scratch: Scratch,
    pub(super) server: Server,
}

impl Site {
    /// Starts a server without a master, whose root is empty. The server keeps no files open, so
    /// that a test may change them.
    pub(super) fn start(options: &[&str]) -> Self {
        Self::with_command(|root| {
            let all = ["--workers", "0", "--open-files", "0", "--root", root];
            Server::start(&[&all[..], options].concat())
        })
    }

    pub(super) fn with_command(start: impl FnOnce(&str) -> Server) -> Self {
        let scratch = Scratch::new("site");
        let root = scratch.file("root");
        fs::create_dir(&root).expect("the directory is ours");
        let server = start(root.to_str().expect("a text"));
        Self { scratch, server }
    }

    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        let directory = path.parent().expect("it is in the root");
        fs::create_dir_all(directory).expect("the directory is ours");
        fs::write(path, content).expect("the directory is ours");
    }

    pub(super) fn path(&self, name: &str) -> std::path::PathBuf {
        self.scratch.file("root").join(Path::new(name))
    }
}

/// Sends a request with these header lines, each of which ends with CR LF. Returns the response.
pub(super) fn ask(client: &mut Client, method: &str, target: &str, lines: &str) -> Response {
    client.send(request(method, target, lines));
    if method == "HEAD" {
        return client.head_response().0;
    }
    client.response()
}

fn request(method: &str, target: &str, lines: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: test\r\n{lines}\r\n")
}

/// Bytes whose pattern shows a lost or misplaced piece.
pub(super) fn content(length: usize) -> Vec<u8> {
    // The period is a prime, so the size of a piece is not a multiple of it.
    let period: Vec<u8> = (0..65_521_usize)
        .map(|n| (n / 251 + n).to_le_bytes()[0])
        .collect();
    let mut content = period.repeat(length / period.len() + 1);
    content.truncate(length);
    content
}

#[test]
fn a_file_is_sent_byte_for_byte() {
    for poller in permitted(&["auto", "epoll-masked", "poll", "select", "io_uring"]) {
        let site = Site::start(&["--poller", poller]);
        let mut client = site.server.connect();
        // Some lengths are near the size of a chunk, which is the most that one call sends, and the
        // last one is more than a socket buffer holds.
        for length in [0, 1, 4096, 1_048_575, 1_048_576, 1_048_577, 20_000_000] {
            site.write("a.txt", content(length));
            let response = client.get("/files/a.txt");
            assert_eq!(response.status, 200);
            assert!(response.body == content(length), "{poller}, {length}");
            let length = length.to_string();
            assert_eq!(response.header("content-length"), Some(length.as_str()));
        }
    }
}

#[test]
fn a_file_is_sent_over_a_unix_socket() {
    let scratch = Scratch::new("unix");
    let path = scratch.file("socket");
    let listen = format!("unix:{}", path.display());
    let site = Site::start(&["--listen", &listen]);
    site.write("a", content(1_000_000));
    let mut client = Client::try_connect_unix(&path).expect("it listens");
    assert!(client.get("/files/a").body == content(1_000_000));
}

#[test]
fn the_head_describes_the_file() {
    let site = Site::start(&[]);
    site.write("a.html", "hello");
    let mut client = site.server.connect();
    for method in ["GET", "HEAD"] {
        let response = ask(&mut client, method, "/files/a.html?a=query", "");
        assert_eq!(response.status, 200);
        let header = |name| response.header(name).expect("it is there");
        assert_eq!(header("content-type"), "text/html");
        assert_eq!(header("content-length"), "5");
        assert_eq!(header("accept-ranges"), "bytes");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("server"), "evcore");
        let modified = fs::metadata(site.path("a.html")).expect("it is there");
        let modified = modified.modified().expect("it has a time");
        assert_eq!(header("last-modified"), httpdate::fmt_http_date(modified));
        assert!(httpdate::parse_http_date(header("date")).is_ok());
        let etag = header("etag");
        assert!(etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"'));
    }
    assert_eq!(client.get("/").text(), "Hello, World!");
}

#[test]
fn pipelined_files_are_sent_in_order() {
    for poller in ["epoll", "poll", "select"] {
        let site = Site::start(&["--poller", poller]);
        site.write("large", content(3_000_000));
        site.write("small", "small");
        let mut client = site.server.connect();
        let targets = [
            "/",
            "/files/large",
            "/files/small",
            "/files/none",
            "/",
            "/bytes/20000",
        ];
        let all = targets.map(|target| request("GET", target, "")).concat();
        let mut sender = client.try_clone();
        std::thread::scope(|threads| {
            threads.spawn(|| sender.send(all.repeat(20)));
            for _ in 0..20 {
                assert_eq!(client.response().text(), "Hello, World!");
                assert!(client.response().body == content(3_000_000));
                assert_eq!(client.response().text(), "small");
                assert_eq!(client.response().status, 404);
                assert_eq!(client.response().text(), "Hello, World!");
                assert_eq!(client.response().body.len(), 20_000);
            }
        });
    }
}

#[test]
fn workers_and_threads_send_files() {
    for workers in [["--workers", "2"], ["--threads", "2"]] {
        let site =
            Site::with_command(|root| Server::start(&[&workers[..], &["--root", root]].concat()));
        site.write("a", "hello");
        for _ in 0..10 {
            assert_eq!(site.server.connect().get("/files/a").text(), "hello");
        }
    }
}

#[test]
fn without_a_root_there_are_no_files() {
    let server = Server::start(&["--workers", "0"]);
    let mut client = server.connect();
    for method in ["GET", "HEAD", "POST"] {
        assert_eq!(ask(&mut client, method, "/files/a", "").status, 404);
    }
}

#[test]
fn other_methods_are_not_allowed() {
    let site = Site::start(&[]);
    site.write("a", "hello");
    let mut client = site.server.connect();
    for method in ["POST", "PUT", "DELETE"] {
        let response = ask(&mut client, method, "/files/a", "");
        assert_eq!(response.status, 405);
        assert_eq!(response.header("allow"), Some("GET, HEAD"));
    }
}

#[test]
fn a_later_minor_version_gets_a_part_of_a_file() {
    let site = Site::start(&[]);
    site.write("a", "hello");
    let mut client = site.server.connect();
    for version in ["1.1", "1.2", "1.9"] {
        client.send(format!(
            "GET /files/a HTTP/{version}\r\nHost: t\r\nRange: bytes=1-2\r\n\r\n"
        ));
        let response = client.response();
        assert_eq!((response.status, response.text()), (206, "el"), "{version}");
    }
}

#[test]
fn a_request_with_a_body_is_the_last() {
    let site = Site::start(&[]);
    site.write("a", "hello");
    for lines in [
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nExpect: 100-continue\r\n",
    ] {
        let mut client = site.server.connect();
        let response = ask(&mut client, "GET", "/files/a", lines);
        assert_eq!((response.status, response.text()), (200, "hello"));
        assert!(response.closes());
        assert!(client.is_closed());
    }
}

#[test]
fn a_directory_is_sent_by_its_index() {
    let site = Site::start(&["--index", "index.html"]);
    site.write("index.html", "of the root");
    site.write("d/index.html", "of d");
    site.write("empty/a", "no index");
    let mut client = site.server.connect();
    let of_the_root = client.get("/files/");
    assert_eq!(of_the_root.text(), "of the root");
    assert_eq!(of_the_root.header("content-type"), Some("text/html"));
    assert_eq!(client.get("/files/d/?a=b").text(), "of d");
    for (target, location) in [
        ("/files/d", "/files/d/"),
        ("/files/d?a=b", "/files/d/?a=b"),
        ("http://test/files/%64", "/files/%64/"),
        ("/files/empty", "/files/empty/"),
    ] {
        let response = client.get(target);
        assert_eq!(response.status, 301, "{target}");
        assert_eq!(response.header("location"), Some(location));
    }
    for target in [
        "/files",
        "/files/empty/",
        "/files/index.html/",
        "/files/d/index.html/",
    ] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
}

#[test]
fn an_index_that_is_a_directory_is_not_found() {
    let site = Site::start(&["--index", "index"]);
    site.write("d/index/a", "hello");
    site.write("index/a", "hello");
    let mut client = site.server.connect();
    for target in ["/files/", "/files/d/"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
    assert_eq!(client.get("/files/d/index").status, 301);
}

#[test]
fn a_directory_without_an_index_is_not_found() {
    let site = Site::start(&[]);
    site.write("d/a", "hello");
    let mut client = site.server.connect();
    for target in ["/files/", "/files/d", "/files/d/", "/files"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
}

#[test]
fn files_that_are_kept_open_are_looked_at_again() {
    let site = Site::with_command(|root| {
        Server::start(&["--workers", "0", "--open-files", "3", "--root", root])
    });
    let mut client = site.server.connect();
    for name in ["a", "b", "c", "d", "e", "a"] {
        site.write(name, name);
        assert_eq!(client.get(&format!("/files/{name}")).text(), name);
    }
    site.write("new", "replaced");
    fs::rename(site.path("new"), site.path("a")).expect("both are there");
    eventually("the new file is sent", || {
        client.get("/files/a").text() == "replaced"
    });
    fs::remove_file(site.path("a")).expect("it is there");
    eventually("no file is sent", || client.get("/files/a").status == 404);
}

#[test]
fn a_reload_opens_the_root_again() {
    use rustix::process::Signal;

    let scratch = Scratch::new("releases");
    for release in ["1", "2"] {
        fs::create_dir(scratch.file(release)).expect("the directory is ours");
        fs::write(scratch.file(release).join("a"), release).expect("the directory is ours");
    }
    let current = scratch.file("current");
    std::os::unix::fs::symlink("1", &current).expect("the directory is ours");
    let root = current.to_str().expect("a text");
    let server = Server::start(&["--workers", "1", "--root", root]);
    assert_eq!(server.connect().get("/files/a").text(), "1");
    fs::remove_file(&current).expect("it is there");
    std::os::unix::fs::symlink("2", &current).expect("the directory is ours");
    server.signal(Signal::HUP);
    eventually("the reload", || server.reloads() > 0);
    eventually("the new workers serve", || {
        // An old worker may accept the connection, and close it when the worker begins to stop.
        let response = server.connect().try_get("/files/a");
        response.is_ok_and(|response| response.text() == "2")
    });
}
