//! Files that change while they are sent, system calls that fail, and slow clients.

use std::fs;

use evcore_tests::{Client, Server, Strace, strace_works};

use crate::files::{Site, ask, content};

/// More than the socket buffers of both sides hold.
const LARGE: usize = 40_000_000;

/// Starts the response with the file `large`, of which a part stays unsent.
fn begin(site: &Site) -> Client {
    site.write("large", content(LARGE));
    let mut client = site.server.connect();
    let (response, length) = {
        client.send("GET /files/large HTTP/1.1\r\nHost: test\r\n\r\n");
        client.head_response()
    };
    assert_eq!((response.status, length), (200, Some(LARGE)));
    client
}

#[test]
fn a_file_that_shrinks_ends_the_connection_alone() {
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
fn a_file_that_is_removed_or_replaced_is_sent_on() {
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

/// Whether strace can be used; otherwise the test is not run, and says so.
fn has_strace() -> bool {
    let works = strace_works();
    if !works {
        eprintln!("not tested: strace is not installed, or may not trace");
    }
    works
}

/// Injects an error into each of these calls of the server.
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
    // 3 standard ones; 16 suffice to start, and not for all of these clients and files.
    let site =
        Site::with_command(|root| Server::start_limited(40, &["--workers", "0", "--root", root]));
    site.write("a", "hello");
    site.write("large", content(LARGE));
    let mut clients: Vec<_> = (0..30).map(|_| site.server.connect()).collect();
    let mut refused = 0;
    // Files that are kept open make room for others first.
    for number in 0..30 {
        let name = format!("{number}");
        site.write(&name, "hello");
        let response = clients[0].get(&format!("/files/{name}"));
        refused += usize::from(response.status == 503);
        assert!(matches!(response.status, 200 | 503));
    }
    assert_eq!(refused, 0, "no client holds a file");
    // Each of these holds one.
    let begin = |client: &mut Client| {
        client.send("GET /files/large HTTP/1.1\r\nHost: test\r\n\r\n");
        client.head_response().0.status
    };
    let statuses: Vec<_> = clients.iter_mut().map(begin).collect();
    assert!(statuses.iter().all(|status| matches!(status, 200 | 503)));
    drop(clients);
    assert_eq!(site.server.connect().get("/files/a").text(), "hello");
}

#[test]
fn a_disk_that_fails_ends_the_connection_alone() {
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

/// Runs `claim` under strace. Returns the calls of the server meanwhile, a line each.
fn calls(site: &Site, trace: &str, claim: impl FnOnce()) -> String {
    let output = site.scratch.file("strace");
    let output = output.to_str().expect("a text");
    let strace = Strace::attach(site.server.pid(), &["-o", output, "-e", trace]);
    claim();
    drop(strace);
    fs::read_to_string(output).expect("strace has written it")
}

#[test]
fn a_file_is_not_copied_through_the_process() {
    if !has_strace() {
        return;
    }
    let site = Site::start(&[]);
    site.write("a", content(1024 * 1024));
    let mut client = site.server.connect();
    let calls = calls(
        &site,
        "trace=sendfile,read,pread64,readv,preadv,mmap,splice,sendto",
        || {
            assert!(client.get("/files/a").body == content(1024 * 1024));
        },
    );
    let sent = calls.lines().filter(|line| line.contains("sendfile("));
    let sent = sent.filter_map(|line| line.rsplit("= ").next()?.parse::<usize>().ok());
    assert_eq!(sent.sum::<usize>(), 1024 * 1024, "{calls}");
    let others = calls.lines().filter(|line| !line.contains("sendfile("));
    let others: Vec<_> = others.collect();
    // The head.
    assert_eq!(others.len(), 1, "{calls}");
    assert!(
        others[0].contains("sendto(") && others[0].contains("MSG_MORE"),
        "{calls}"
    );
}

#[test]
fn what_is_not_in_memory_is_read_by_another_thread() {
    use rustix::fs::{Advice, fadvise};

    if !has_strace() {
        return;
    }
    let site = Site::start(&[]);
    site.write("a", content(3_000_000));
    let file = fs::File::open(site.path("a")).expect("it is there");
    file.sync_all().expect("a disk");
    fadvise(&file, 0, None, Advice::DontNeed).expect("a file");
    if is_in_memory(&file) {
        eprintln!("not tested: this file system keeps the file in memory");
        return;
    }
    let mut client = site.server.connect();
    let calls = calls(&site, "trace=sendfile,pread64", || {
        assert!(client.get("/files/a").body == content(3_000_000));
        assert_eq!(client.get("/").status, 200);
    });
    let thread_of = |call| {
        let line = calls.lines().find(|line| line.contains(call));
        line.and_then(|line| line.split_whitespace().next())
    };
    let (reads, sends) = (thread_of("pread64("), thread_of("sendfile("));
    assert!(reads.is_some() && sends.is_some(), "{calls}");
    assert_ne!(reads, sends, "{calls}");
}

fn is_in_memory(file: &fs::File) -> bool {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    let mut byte = [0];
    let mut buffers = [std::io::IoSliceMut::new(&mut byte)];
    preadv2(file, &mut buffers, 0, ReadWriteFlags::NOWAIT) != Err(Errno::AGAIN)
}

/// Clients of one worker do not wait for each other.
#[test]
fn many_clients_are_sent_a_file_at_a_time() {
    let site = Site::start(&[]);
    let clients: Vec<_> = (0..20).map(|_| begin(&site)).collect();
    assert_eq!(ask(&mut site.server.connect(), "GET", "/", "").status, 200);
    std::thread::scope(|threads| {
        for mut client in clients {
            threads.spawn(move || assert!(client.body(LARGE).is_ok_and(|it| it == content(LARGE))));
        }
    });
}
