//! Files that change while they are sent, system calls that fail, and slow clients.

use std::fs;

use evcore_tests::{Client, Server, Strace, not_run, strace_works};

use crate::files::{Site, ask, content};

/// More bytes than the socket buffers of both sides hold.
const LARGE: usize = 40_000_000;

/// Requests the file `large`. A part of the response stays unsent.
fn begin(site: &Site) -> Client {
    if !site.path("large").exists() {
        site.write("large", content(LARGE));
    }
    let mut client = site.server.connect();
    let (response, length) = {
        client.send("GET /files/large HTTP/1.1\r\nHost: test\r\n\r\n");
        client.head_response()
    };
    assert_eq!((response.status, length), (200, Some(LARGE)));
    client
}

#[test]
fn a_file_that_shrinks_ends_only_its_connection() {
    for poller in ["epoll", "poll", "select"] {
        let site = Site::start(&["--poller", poller]);
        let mut client = begin(&site);
        let file = fs::File::options().write(true).open(site.path("large"));
        file.and_then(|file| file.set_len(10)).expect("it is ours");
        let received = client.read_to_end().unwrap_or(0);
        assert!(received < LARGE, "{poller}");
        assert_eq!(site.server.connect().get("/files/large").body, content(10));
        assert_eq!(site.server.connect().get("/").status, 200);
    }
}

#[test]
fn a_file_that_is_removed_or_replaced_is_still_sent_to_its_end() {
    let site = Site::start(&[]);
    for replaces in [false, true] {
        let mut client = begin(&site);
        if replaces {
            site.write("new", "new");
            fs::rename(site.path("new"), site.path("large")).expect("both are there");
        } else {
            fs::remove_file(site.path("large")).expect("it is there");
        }
        let rest = client.body(LARGE);
        assert!(rest.is_ok_and(|rest| rest == content(LARGE)));
        let status = if replaces { 200 } else { 404 };
        assert_eq!(client.get("/files/large").status, status);
    }
}

#[test]
fn a_client_that_does_not_read_a_file_is_closed() {
    for poller in ["epoll", "poll", "select"] {
        let site = Site::start(&["--poller", poller, "--send-timeout", "200"]);
        let mut client = begin(&site);
        let one_left = |status: &evcore_tests::Status| status.active == 1;
        site.server
            .wait_for_status("the connection is closed", one_left);
        assert!(client.read_to_end().is_ok_and(|n| n < LARGE));
    }
}

fn has_strace() -> bool {
    let works = strace_works();
    if !works {
        not_run("strace is not installed, or may not trace");
    }
    works
}

fn refuse(server: &Server, call: &str, error: &str) -> Strace {
    let (trace, inject) = (
        format!("trace={call}"),
        format!("inject={call}:error={error}"),
    );
    Strace::attach(server.pid(), &["-e", &trace, "-e", &inject])
}

#[test]
fn a_file_that_cannot_be_opened_has_a_status() {
    if !has_strace() {
        return;
    }
    let site = Site::start(&[]);
    site.write("a", "hello");
    let mut client = site.server.connect();
    for (error, status) in [
        ("EMFILE", 503),
        ("ENFILE", 503),
        ("ENOMEM", 503),
        ("EAGAIN", 503),
        ("EIO", 500),
        ("EACCES", 403),
        ("EXDEV", 404),
        ("ELOOP", 404),
        ("ESTALE", 404),
    ] {
        let strace = refuse(&site.server, "openat2", error);
        assert_eq!(client.get("/files/a").status, status, "{error}");
        assert_eq!(client.get("/").status, 200);
        drop(strace);
        assert_eq!(client.get("/files/a").text(), "hello");
    }
}

#[test]
fn without_descriptors_a_request_for_a_file_gets_503() {
    // The limit leaves room for all clients, and for the files of some of them.
    let site =
        Site::with_command(|root| Server::start_limited(40, &["--workers", "0", "--root", root]));
    let mut clients: Vec<_> = (0..20).map(|_| site.server.connect()).collect();
    for number in 0..40 {
        let name = format!("small{number}");
        site.write(&name, &name);
        // At the limit, the server closes a file that it keeps open for later, to open this one.
        let response = clients[0].get(&format!("/files/{name}"));
        assert_eq!((response.status, response.text()), (200, name.as_str()));
    }
    site.write("large", content(LARGE));
    let mut statuses = Vec::new();
    for (number, client) in clients.iter_mut().enumerate() {
        let name = format!("large{number}");
        fs::hard_link(site.path("large"), site.path(&name)).expect("the directory is ours");
        client.send(format!("GET /files/{name} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let (response, length) = client.head_response();
        if response.status == 503 {
            client.body(length.unwrap_or(0)).expect("a text");
            assert_eq!(client.get("/").text(), "Hello, World!");
        }
        statuses.push(response.status);
    }
    // Each client that is sent a file takes one more descriptor.
    assert!(
        statuses.starts_with(&[200]) && statuses.ends_with(&[503]),
        "{statuses:?}"
    );
    drop(clients);
    // The server has no descriptor for another client until it has closed these.
    site.server
        .wait_for_status("the clients are closed", |status| status.active == 1);
    assert_eq!(site.server.connect().get("/files/small0").text(), "small0");
}

#[test]
fn a_disk_that_fails_ends_only_the_connection() {
    if !has_strace() {
        return;
    }
    let site = Site::start(&[]);
    site.write("a", "hello");
    let strace = refuse(&site.server, "sendfile", "EIO");
    let mut client = site.server.connect();
    client.send("GET /files/a HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.head_response().0.status, 200);
    assert!(client.is_closed());
    assert_eq!(site.server.connect().get("/").status, 200);
    drop(strace);
    assert_eq!(site.server.connect().get("/files/a").text(), "hello");
}

/// Fetches a file under strace, with its `options`. Returns the server's calls during that time,
/// one in each line.
fn calls_for(site: &Site, name: &str, options: &[&str]) -> String {
    let output = site.scratch.file("strace");
    let output = output.to_str().expect("a text");
    let strace = Strace::attach(site.server.pid(), &[&["-o", output], options].concat());
    let length = fs::metadata(site.path(name)).expect("it is there").len();
    let mut client = site.server.connect();
    let body = client.get(&format!("/files/{name}")).body;
    assert!(body == content(body.len()) && body.len() as u64 == length);
    // When the server answers this request, strace has seen the earlier calls.
    assert_eq!(client.get("/").status, 200);
    strace.finish();
    let calls = fs::read_to_string(output).expect("strace has written it");
    let sent = calls.lines().filter(|line| line.contains("sendfile"));
    let sent = sent.filter_map(|line| line.rsplit("= ").next()?.parse::<u64>().ok());
    assert_eq!(sent.sum::<u64>(), length, "{calls}");
    calls
}

#[test]
fn a_file_is_not_copied_through_the_process() {
    if !has_strace() {
        return;
    }
    let site = Site::start(&[]);
    site.write("small", content(4096));
    site.write("large", content(1024 * 1024));
    for (name, shares_packet) in [("small", true), ("large", false)] {
        let copies = "trace=sendfile,read,pread64,readv,preadv,mmap,splice,sendto,sendmsg";
        let calls = calls_for(&site, name, &["-e", copies]);
        let others: Vec<_> = calls
            .lines()
            .filter(|line| !line.contains("sendfile("))
            .collect();
        // The other sends are the head, and the response after the file.
        let are_sends = others.iter().all(|line| line.contains("sendto("));
        assert!(others.len() == 2 && are_sends, "{calls}");
        assert_eq!(others[0].contains("MSG_MORE"), shares_packet, "{calls}");
    }
}

/// The thread that made the first call of this name.
fn thread_of<'a>(calls: &'a str, name: &str) -> Option<&'a str> {
    let line = calls.lines().find(|line| line.contains(name))?;
    line.split_whitespace().next()
}

#[test]
#[cfg(target_os = "linux")] // elsewhere the loop reads
fn a_chunk_not_in_memory_is_read_by_another_thread() {
    if !has_strace() {
        return;
    }
    let site = Site::start(&[]);
    site.write("a", content(3_000_000));
    let asks_in_vain = [
        "-e",
        "trace=sendfile,preadv2,pread64",
        "-e",
        "inject=preadv2:error=EAGAIN",
    ];
    let calls = calls_for(&site, "a", &asks_in_vain);
    let (reads, sends) = (
        thread_of(&calls, "pread64("),
        thread_of(&calls, "sendfile("),
    );
    assert!(reads.is_some() && sends.is_some(), "{calls}");
    assert_ne!(reads, sends, "{calls}");
}

/// The kernel begins to read a chunk that is not in memory, and returns `EAGAIN` unless the disk
/// was faster.
#[test]
#[cfg(target_os = "linux")]
fn the_kernel_says_which_chunk_is_not_in_memory() {
    use evcore_tests::pages_in_memory;
    use rustix::fs::{Advice, fadvise};

    if !has_strace() {
        return;
    }
    let site = Site::start(&[]);
    // A new file each time, because the server remembers which chunks were in memory.
    for number in 0..20 {
        let name = format!("file{number}");
        site.write(&name, content(3_000_000));
        let file = fs::File::open(site.path(&name)).expect("it is there");
        file.sync_all().expect("a disk");
        // The kernel keeps a page that is in use at this moment.
        let is_dropped = (0..1000).any(|_| {
            fadvise(&file, 0, None, Advice::DontNeed).expect("a file");
            pages_in_memory(&file) == Some(0)
        });
        if !is_dropped {
            break;
        }
        let calls = calls_for(&site, &name, &["-e", "trace=sendfile,preadv2,pread64"]);
        let asked = calls.lines().find(|line| line.contains("preadv2("));
        if asked.expect("the server asks first").contains("EAGAIN") {
            assert!(thread_of(&calls, "pread64(").is_some(), "{calls}");
            return;
        }
    }
    not_run("the file stays in memory, or the disk answers at once");
}

/// Clients of one worker do not wait for each other.
#[test]
fn many_clients_are_sent_a_file_at_the_same_time() {
    let site = Site::start(&[]);
    let clients: Vec<_> = (0..5).map(|_| begin(&site)).collect();
    assert_eq!(ask(&mut site.server.connect(), "GET", "/", "").status, 200);
    std::thread::scope(|threads| {
        for mut client in clients {
            threads.spawn(move || {
                assert!(client.body(LARGE).is_ok_and(|body| body == content(LARGE)));
            });
        }
    });
}
