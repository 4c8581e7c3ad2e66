//! The limit on the memory of a process (`ulimit -v`, `ulimit -d`): it ends connections and no
//! workers.

use std::{fs, path::Path, process::Command};

use evcore_tests::{Client, Scratch, Server, allow_many_descriptors, eventually, httpd, not_run};

/// Memory that the limit leaves to a worker after its start, in KiB.
const ROOM: u64 = 4 * 1024;

/// Number of clients in a load in which each sends little.
const CLIENTS: usize = 700;

/// Limit on the descriptors of this process: enough for the clients of both tests, and for tests
/// that run at the same time.
const DESCRIPTORS: u64 = 2 * CLIENTS as u64 + 1000;

const OPTIONS: [&str; 8] = [
    "--listen",
    "127.0.0.1:0",
    "--workers",
    "1",
    "--connections",
    "2000",
    "--access-log",
    "/dev/null",
];

/// Memory of a worker after its start, as the limit counts it, in KiB.
fn used(field: &str) -> u64 {
    let server = Server::start(&OPTIONS[2..]);
    let worker = server.connect().worker();
    let status = fs::read_to_string(format!("/proc/{worker}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .expect("the kernel counts it")
        .parse()
        .expect("a number")
}

/// A server with [`ROOM`] to grow, limited by `ulimit -v` or `ulimit -d`.
fn limited(option: &str, field: &str, socket: &Path) -> Server {
    let limit = used(field) + ROOM;
    let mut command = Command::new("sh");
    let script = format!("ulimit {option} {limit}; exec \"$0\" \"$@\"");
    command.args(["-c", &script]).arg(httpd()).args(OPTIONS);
    command
        .arg("--listen")
        .arg(format!("unix:{}", socket.display()));
    Server::from_command(command, 2)
}

/// Connects clients that send these bytes. The kernel buffers less for a Unix socket than for TCP,
/// so the server has to keep more.
fn load(socket: &Path, clients: usize, bytes: &[u8]) -> Vec<Client> {
    let client = |_| {
        let mut client = Client::try_connect_unix(socket).expect("it listens");
        // The server may refuse the bytes.
        client.send_lossy(bytes);
        client
    };
    (0..clients).map(client).collect()
}

fn costs_no_worker(option: &str, field: &str) {
    if allow_many_descriptors() < DESCRIPTORS {
        not_run("1,400 clients need a higher hard limit on descriptors (`ulimit -Hn`)");
        return;
    }
    let head = format!("GET / HTTP/1.1\r\nHost: t\r\nX: {}", "a".repeat(6_000));
    let body = |length: usize| format!("Content-Length: {length}\r\n\r\n{}", "a".repeat(60_000));
    let body = format!("POST /echo HTTP/1.1\r\nHost: t\r\n{}", body(900_000));
    let response = "GET /bytes/16000 HTTP/1.1\r\nHost: t\r\n\r\n".repeat(50);
    // Each load needs more than the room.
    let loads = [
        ("heads", CLIENTS, head),
        ("bodies", 20, body),
        ("responses", CLIENTS, response),
    ];
    for (name, clients, bytes) in loads {
        let scratch = Scratch::new(&format!("memory{option}"));
        let socket = scratch.file("socket");
        let server = limited(option, field, &socket);
        let worker = server.connect().worker();
        let clients = load(&socket, clients, bytes.as_bytes());
        eventually(&format!("{name}: it runs out of memory"), || {
            assert_eq!(server.worker_pids(), [worker], "{name}");
            server.log().contains("out of memory with")
        });
        drop(clients);
        eventually("the worker serves again", || {
            let served = server.connect().try_worker();
            assert_eq!(server.worker_pids(), [worker], "{name}");
            served.is_ok_and(|pid| pid == worker)
        });
        assert!(!server.log().contains("ended"), "{}", server.log());
    }
}

#[test]
fn a_limit_of_the_address_space_costs_no_worker() {
    costs_no_worker("-v", "VmSize:");
}

#[test]
fn a_limit_of_the_data_segment_costs_no_worker() {
    costs_no_worker("-d", "VmData:");
}
