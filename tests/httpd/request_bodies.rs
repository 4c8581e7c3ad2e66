//! The limit on the memory of request bodies; every client gets a response.

#[cfg(target_os = "linux")]
use std::process::Command;
use std::{
    fs,
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use evcore_tests::Server;
#[cfg(target_os = "linux")]
use evcore_tests::{Client, Status, eventually, httpd};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// A timeout that is long enough for a busy machine.
const PATIENT: [&str; 2] = ["--header-timeout", "600000"];

fn head(length: usize) -> String {
    format!("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n")
}

/// The peak memory of a process, in bytes.
fn peak_memory(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    let kib: usize = kib.and_then(|kib| kib.parse().ok()).expect("a size");
    kib * KIB
}

#[test]
fn incomplete_bodies_do_not_exceed_the_memory_limit() {
    const CLIENTS: usize = 300;
    const LENGTH: usize = 256 * KIB;
    const ADMITTED: usize = 64;
    for poller in ["epoll", "poll"] {
        let room = (ADMITTED * LENGTH).to_string();
        let options = ["--workers", "1", "--poller", poller, "--bodies", &room];
        let server = Server::start(&[&options[..], &PATIENT].concat());
        let worker = server.connect().worker();
        let body = vec![b'x'; LENGTH];
        let (held_back, released) = (AtomicUsize::new(0), Barrier::new(ADMITTED + 1));
        let visit = || {
            let mut client = server.connect();
            // With a small buffer, unread bytes stay in the client and not in the kernel.
            client.set_send_buffer(16 * KIB);
            client.send(head(LENGTH));
            client.send(&body[1..]);
            // The first clients wait here for each other and for the test.
            if held_back.fetch_add(1, Ordering::Relaxed) < ADMITTED {
                released.wait();
            }
            client.send(&body[..1]);
            let answer = client.response();
            assert_eq!((answer.status, answer.body.len()), (200, LENGTH));
        };
        thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(visit)).collect();
            let sent = || held_back.load(Ordering::Relaxed);
            server.wait_for_status("all have sent what is taken", |status| {
                status.reading == CLIENTS as u64 && sent() >= ADMITTED
            });
            for _ in 0..100 {
                assert_eq!(server.connect().get("/").status, 200);
            }
            let admitted = sent();
            released.wait();
            for client in clients {
                client.join().expect("each gets a response");
            }
            assert_eq!(admitted, ADMITTED, "{poller}");
        });
        let peak = peak_memory(worker);
        assert!(peak < 48 * MIB, "{poller}: {} MiB", peak / MIB);
    }
}

#[test]
fn a_chunked_body_that_cannot_grow_is_a_503() {
    let server =
        Server::start(&[&["--workers", "1", "--bodies", "1048576"][..], &PATIENT].concat());
    let (mut chunked, mut other) = (server.connect(), server.connect());
    chunked.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
    server.wait_for_status("it has a little room", |status| status.reading == 1);
    other.send(head(MIB - 4 * KIB));
    server.wait_for_status("the other has the rest", |status| status.reading == 2);
    chunked.send_lossy(format!("1001\r\n{}\r\n", "x".repeat(0x1001)));
    assert_eq!(chunked.response().status, 503);
    drop(chunked);
    // The memory of the first body is released.
    other.send(vec![b'x'; MIB - 4 * KIB]);
    assert_eq!(other.response().status, 200);
    let mut largest = server.connect();
    largest.send(head(MIB));
    largest.send(vec![b'x'; MIB]);
    assert_eq!(largest.response().status, 200);
}

/// On Linux, `ulimit -v` makes allocations fail, and kills no process.
#[cfg(target_os = "linux")]
#[test]
fn failed_allocations_of_bodies_are_503s() {
    const CLIENTS: usize = 100;
    let mut command = Command::new("sh");
    // The limit in KiB is far less than the bodies need together.
    command.args(["-c", "ulimit -v 60000; exec \"$0\" \"$@\""]);
    command.arg(httpd()).args(["--listen", "127.0.0.1:0"]);
    command.args(["--workers", "1", "--bodies", "1073741824"]);
    command.args(PATIENT);
    let server = Server::from_command(command, 1);
    let worker = server.connect().worker();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    // This client connects now, because later there may be no memory for another connection.
    let mut observer = server.connect();
    let mut status = || Status::parse(observer.get("/status").text());
    eventually("all are there", || status().active == CLIENTS as u64 + 1);
    for client in &mut clients {
        client.set_send_buffer(2 * MIB);
        client.send(head(MIB));
        client.send_lossy("x");
    }
    // For each client, the server is reading the body, has refused it, or has closed the
    // connection.
    eventually("all have begun", || status().waiting == 0);
    let ask = |client: &mut Client| {
        client.send_lossy(vec![b'x'; MIB - 1]);
        client.try_response().expect("each gets a response").status
    };
    let answers: Vec<_> = clients.iter_mut().map(ask).collect();
    let count = |status| answers.iter().filter(|answer| **answer == status).count();
    assert_eq!(count(200) + count(503), CLIENTS, "{answers:?}");
    assert!(count(200) > 0 && count(503) > 0, "{answers:?}");
    let mut client = server.connect();
    eventually("it still serves", || client.get("/").status == 200);
    assert_eq!(client.worker(), worker);
}
