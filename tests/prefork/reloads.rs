//! HUP, USR2 and WINCH: workers are replaced, and no client is lost.

use std::{
    net::SocketAddr,
    os::unix::net::UnixStream,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use evcore_tests::{
    Client, Scratch, Server, SetOnDrop, assert_within, eventually, not_run, signal_to,
};
use rustix::process::Signal;

use crate::stops::LAST_REQUEST;

/// The default of `--accept-delay`: while workers come and go, another one accepts within this
/// time.
const DELAY: Duration = Duration::from_millis(500);

/// Connects one client after another until `is_over` is set, and returns their number. Each must be
/// served in time.
pub(crate) fn visit(address: SocketAddr, is_over: &AtomicBool) -> u32 {
    let mut visits = 0;
    while !is_over.load(Relaxed) {
        let came = Instant::now();
        let mut client = Client::try_connect(address).expect("no client is refused");
        client.send("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        let response = client.try_response().expect("no client is reset");
        assert_eq!(response.status, 200);
        assert_within("a client is served", DELAY, came);
        visits += 1;
    }
    visits
}

/// Waits until there are `count` workers, none of which is in `old`. Returns them.
pub(crate) fn all_new(server: &Server, old: &[u32], count: usize) -> Vec<u32> {
    let mut pids = Vec::new();
    eventually("the new workers have taken over", || {
        pids = server.worker_pids();
        pids.len() == count && !pids.iter().any(|pid| old.contains(pid))
    });
    pids
}

fn reloads_lose_no_client(reloads: usize, options: &[&str]) {
    let server = Server::start(options);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let end = SetOnDrop(&is_over);
        let visitor = || scope.spawn(|| visit(server.address(), &is_over));
        let clients = [visitor(), visitor(), visitor()];
        let mut pids = all_new(&server, &[], 2);
        for _ in 0..reloads {
            server.signal(Signal::HUP);
            pids = all_new(&server, &pids, 2);
            assert!(!clients.iter().any(|client| client.is_finished()));
        }
        drop(end);
        for client in clients {
            assert!(client.join().expect("no client failed") > 0);
        }
    });
}

/// Keeps a connection busy until `is_over` is set. Continues on another one when the server
/// announces the end of the first. Returns the number of connections, and the number of requests
/// that were lost because they came late.
fn keep_busy(address: SocketAddr, is_over: &AtomicBool) -> (u32, u32) {
    let connect = || Client::try_connect(address).expect("no client is refused");
    let (mut client, mut connections, mut late) = (connect(), 1, 0);
    // The time at which the last answered request was sent, or the connection was opened.
    let mut last = Instant::now();
    while !is_over.load(Relaxed) {
        let sent = Instant::now();
        client.send_lossy("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        let pause = last.elapsed();
        match client.try_response() {
            Ok(response) => {
                assert_eq!(response.status, 200);
                assert_within("a request is served", DELAY, sent);
                last = sent;
                if !response.closes() {
                    continue;
                }
            }
            // A server that stops waits a second for a last request, but this client did not run
            // for most of that second.
            Err(_) if pause > LAST_REQUEST => late += 1,
            Err(error) => panic!("a request was lost {pause:?} after the last one: {error}"),
        }
        last = Instant::now();
        client = connect();
        connections += 1;
    }
    (connections, late)
}

#[test]
fn reloads_lose_no_request_of_a_busy_client() {
    const RELOADS: usize = 20;
    const CLIENTS: usize = 8;
    for accept in ["off", "mutex", "exclusive", "least-loaded", "reuseport"] {
        for (workers, handover) in [
            ("--workers", "on"),
            ("--workers", "off"),
            ("--threads", "on"),
        ] {
            let options = [workers, "2", "--accept", accept, "--handover", handover];
            let mut server = Server::start(&options);
            let moves = (workers, handover) == ("--workers", "on");
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                let end = SetOnDrop(&is_over);
                let client = |_| scope.spawn(|| keep_busy(server.address(), &is_over));
                let clients: Vec<_> = (0..CLIENTS).map(client).collect();
                for done in 1..=RELOADS {
                    server.signal(Signal::HUP);
                    eventually("the reload is done", || {
                        let lost = clients.iter().any(|client| client.is_finished());
                        lost || server.reloads() == done
                    });
                }
                drop(end);
                let clients = clients.into_iter().map(|client| client.join());
                let counts = clients.map(|client| client.expect("no client failed"));
                let (connections, late) = counts.fold((0, 0), |(connections, late), count| {
                    (connections + count.0, late + count.1)
                });
                if moves {
                    let all = u32::try_from(CLIENTS).expect("few");
                    assert_eq!((connections, late), (all, 0), "{accept}: all have moved");
                    return;
                }
                if late > 0 {
                    not_run(&format!(
                        "{late} requests came more than {LAST_REQUEST:?} after the last ones, and were lost"
                    ));
                }
                // With fewer connections the test would not show anything.
                let least = u32::try_from(2 * CLIENTS).expect("few");
                assert!(connections >= least, "{accept}: {connections} connections");
            });
            server.signal(Signal::TERM);
            assert!(server.wait().success());
        }
    }
}

#[test]
fn a_signal_right_after_the_announcement_is_handled() {
    for workers in [["--workers", "1"], ["--threads", "1"]] {
        for _ in 0..20 {
            let server = Server::start(&workers);
            server.signal(Signal::HUP);
            assert_eq!(server.connect().get("/").status, 200);
            eventually("it reloads", || server.reloads() > 0);
        }
    }
}

#[test]
fn a_signal_right_after_the_pid_file_appears_is_handled() {
    let directory = Scratch::new("early-signal");
    let file = directory.path().join("pid");
    let path = file.to_str().expect("a text");
    for (option, workers) in [("--workers", "1"), ("--threads", "1"), ("--workers", "0")] {
        let signal = if workers == "0" {
            Signal::QUIT
        } else {
            Signal::HUP
        };
        for _ in 0..20 {
            let mut server = thread::scope(|scope| {
                scope.spawn(|| {
                    let mut pid = None;
                    eventually("the file is there", || {
                        pid = pid_in(&file);
                        pid.is_some()
                    });
                    signal_to(pid.expect("just found"), signal);
                });
                Server::start(&[option, workers, "--pid", path])
            });
            if signal == Signal::HUP {
                eventually("it reloads", || server.reloads() > 0);
                server.signal(Signal::QUIT);
            }
            assert!(server.wait().success());
            assert!(!file.exists());
        }
    }
}

#[test]
fn a_hundred_reloads_lose_no_client() {
    reloads_lose_no_client(100, &["--workers", "2"]);
    reloads_lose_no_client(100, &["--workers", "2", "--accept", "off"]);
}

#[test]
fn reloads_under_the_other_policies_lose_no_client() {
    for accept in ["mutex", "exclusive"] {
        reloads_lose_no_client(100, &["--workers", "2", "--accept", accept]);
    }
}

#[test]
fn a_hundred_reloads_with_reuseport_lose_no_client() {
    // The listener of an old worker stays open in the master. So the kernel does not reset clients
    // that wait there, and the new worker serves them.
    reloads_lose_no_client(100, &["--workers", "2", "--accept", "reuseport"]);
}

/// The new worker takes longer than a second to start, as on a busy machine.
#[cfg(target_os = "linux")]
#[test]
fn a_reload_waits_for_a_worker_that_starts_slowly() {
    use evcore_tests::{Strace, strace_works};

    if !strace_works() {
        not_run("strace is not installed, or may not trace");
        return;
    }
    // The first call of epoll is delayed.
    let server = Server::start(&["--workers", "1", "--poller", "epoll"]);
    let old = server.worker_pids();
    let delay = [
        "-e",
        "trace=epoll_create1",
        "-e",
        "inject=epoll_create1:delay_enter=1500000",
    ];
    let _strace = Strace::attach(server.pid(), &delay);
    server.signal(Signal::HUP);
    eventually("the reload", || server.reloads() > 0);
    let new = server
        .worker_pids()
        .into_iter()
        .find(|pid| !old.contains(pid));
    let new = new.expect("a new worker");
    let files = std::fs::read_dir(format!("/proc/{new}/fd")).expect("it lives");
    let has_poller = files
        .filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
        .any(|file| file.to_string_lossy().contains("eventpoll"));
    assert!(has_poller, "the new worker cannot serve yet");
}

#[test]
fn an_old_worker_finishes_requests_under_way() {
    let server = Server::start(&["--workers", "1"]);
    let old = all_new(&server, &[], 1);
    let mut sleeper = server.connect();
    sleeper.send("GET /sleep/1000 HTTP/1.1\r\nHost: test\r\n\r\n");
    server.wait_for_status("it sleeps", |status| status.writing == 2);
    server.signal(Signal::HUP);
    let mut idle = server.connect();
    assert_eq!(idle.get("/").status, 200);
    assert_eq!(sleeper.response().text(), "slept\n");
    all_new(&server, &old, 1);
}

#[test]
fn an_old_worker_ends_with_its_last_response() {
    let server = Server::start(&["--workers", "1"]);
    let old = all_new(&server, &[], 1);
    let mut idle: Vec<_> = (0..50).map(|_| server.connect()).collect();
    let mut sleeper = server.connect();
    sleeper.send("GET /sleep/500 HTTP/1.1\r\nHost: test\r\n\r\n");
    server.wait_for_status("it sleeps", |status| status.writing == 2);
    // These clients were answered within the last second. Without a handover, their connections
    // would stay open for another second.
    idle.iter_mut().for_each(|client| drop(client.get("/")));
    server.signal(Signal::HUP);
    assert_eq!(sleeper.response().text(), "slept\n");
    let answered = Instant::now();
    all_new(&server, &old, 1);
    assert_within("the old worker ends", Duration::from_millis(100), answered);
    idle.push(sleeper);
    assert!(idle.iter_mut().all(|client| client.get("/").status == 200));
}

#[test]
fn winch_stops_all_workers_and_hup_starts_new_ones() {
    for accept in ["least-loaded", "reuseport"] {
        winch_and_hup(accept);
    }
}

fn winch_and_hup(accept: &str) {
    let server = Server::start(&["--workers", "2", "--accept", accept]);
    let mut idle = server.connect();
    assert_eq!(idle.get("/").status, 200);
    all_new(&server, &[], 2);
    server.signal(Signal::WINCH);
    assert!(idle.is_closed());
    eventually("they are gone", || server.worker_pids().is_empty());
    // The master keeps the listener open, so a client that comes now waits.
    let mut patient = server.connect();
    server.signal(Signal::HUP);
    assert_eq!(patient.get("/").status, 200);
}

#[test]
fn a_body_that_is_being_read_at_a_reload_is_answered_and_then_its_connection_moves() {
    let server = Server::start(&["--workers", "1"]);
    let old = server.wait_for_workers(1, &[]);
    let (mut idle, mut sending) = (server.connect(), server.connect());
    assert_eq!([idle.worker(), sending.worker()], [old[0]; 2]);
    sending.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    server.wait_for_status("it reads the body", |status| status.reading == 1);
    server.signal(Signal::HUP);
    eventually("idle connections move", || idle.worker() != old[0]);
    sending.send("world");
    let response = sending.response();
    assert_eq!((response.status, response.text()), (200, "helloworld"));
    assert!(!response.closes());
    assert_eq!(sending.worker(), idle.worker());
    all_new(&server, &old, 1);
}

#[test]
fn a_new_binary_takes_over_and_the_old_one_finishes() {
    let directory = Scratch::new("upgrade");
    let file = directory.path().join("httpd.pid");
    let aside = directory.path().join("httpd.pid.oldbin");
    let path = file.to_str().expect("a text");
    let mut server = Server::start(&["--workers", "1", "--pid", path]);
    let old = server.pid();
    assert_eq!(pid_in(&file), Some(old));
    assert_eq!(server.connect().get("/").status, 200);
    let mut new = upgrade(&server, &file);
    assert_eq!(pid_in(&aside), Some(old));
    // The old binary serves until it is stopped.
    assert_eq!(server.connect().get("/").status, 200);
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    assert!(!aside.exists());
    assert_eq!(server.connect().get("/").status, 200);
    signal_to(new.0, Signal::QUIT);
    eventually("the port is closed", || {
        Client::try_connect(server.address()).is_err()
    });
    eventually("its file is gone", || !file.exists());
    new.0 = 0;
}

fn upgrade(server: &Server, pid_file: &Path) -> KilledOnDrop {
    let old = server.pid();
    server.signal(Signal::USR2);
    let mut new = None;
    eventually("the new binary has written its id", || {
        new = pid_in(pid_file).filter(|pid| *pid != old);
        new.is_some()
    });
    KilledOnDrop(new.expect("just found"))
}

pub(crate) fn pid_in(file: &Path) -> Option<u32> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[test]
fn a_new_binary_that_ends_first_leaves_the_unix_socket() {
    let directory = Scratch::new("taken-back");
    let [socket, pid_file, aside] =
        ["socket", "pid", "pid.oldbin"].map(|name| directory.path().join(name));
    let listen = format!("unix:{}", socket.display());
    let options = ["--workers", "1", "--listen", &listen, "--pid"];
    let mut server = Server::start(&[&options[..], &[pid_file.to_str().expect("a text")]].concat());
    let mut new = upgrade(&server, &pid_file);
    eventually("it handles signals", || {
        server.log().matches("listening on").count() == 4
    });
    // A third binary would take the name of the first one's pid file.
    signal_to(new.0, Signal::USR2);
    eventually("it is refused", || {
        server.log().contains("an upgrade is still under way")
    });
    assert_eq!(pid_in(&aside), Some(server.pid()));

    signal_to(new.0, Signal::QUIT);
    eventually("the old one is alone again", || {
        pid_in(&pid_file) == Some(server.pid())
    });
    new.0 = 0;
    UnixStream::connect(&socket).expect("the old one listens here");

    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    assert!(!socket.exists());
}

#[test]
fn a_second_usr2_leaves_the_unix_socket_to_the_new_binary() {
    let directory = Scratch::new("second-usr2");
    let [socket, pid_file] = ["socket", "pid"].map(|name| directory.path().join(name));
    let listen = format!("unix:{}", socket.display());
    let options = ["--workers", "1", "--listen", &listen, "--pid"];
    let mut server = Server::start(&[&options[..], &[pid_file.to_str().expect("a text")]].concat());
    let mut new = upgrade(&server, &pid_file);
    server.signal(Signal::USR2);
    eventually("it is refused", || {
        server.log().contains("an upgrade is still under way")
    });
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    UnixStream::connect(&socket).expect("the new one listens here");
    signal_to(new.0, Signal::QUIT);
    eventually("the file goes with the new one", || !socket.exists());
    new.0 = 0;
}

#[test]
fn a_server_leaves_a_pid_file_that_is_not_its_own() {
    let directory = Scratch::new("not-its-own");
    let pid_file = directory.path().join("pid");
    let mut server = Server::start(&[
        "--workers",
        "1",
        "--pid",
        pid_file.to_str().expect("a text"),
    ]);
    assert_eq!(server.connect().get("/").status, 200);
    std::fs::write(&pid_file, "1\n").expect("it may be written");
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    assert_eq!(pid_in(&pid_file), Some(1));
}

/// A process that a failing test would leave behind; 0 if it has ended.
pub(crate) struct KilledOnDrop(pub(crate) u32);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        if self.0 != 0 {
            signal_to(self.0, Signal::KILL);
        }
    }
}

#[test]
fn stuck_threads_are_logged_and_reloads_are_refused() {
    let options = ["--threads", "1", "--shutdown-timeout", "20"];
    let server = Server::start(&options);
    let is_refused = || server.log().contains("reload: no new workers:");
    let mut blocked = Vec::new();
    // The fourth reload is refused, or a later one if a request comes too late to block its thread.
    for reloads in 1.. {
        let mut client = server.connect();
        assert_eq!(client.get("/").status, 200);
        client.send("GET /block/3600000 HTTP/1.1\r\nHost: test\r\n\r\n");
        blocked.push(client);
        server.signal(Signal::HUP);
        eventually("it reloads or refuses", || {
            is_refused() || server.reloads() == reloads
        });
        if is_refused() {
            break;
        }
    }
    assert_eq!(server.log().matches("worker 0 does not stop").count(), 3);
}

#[test]
fn threads_serve_reload_and_stop_as_processes_do() {
    for accept in ["least-loaded", "mutex", "reuseport", "off"] {
        let options = ["--threads", "2", "--accept", accept, "--accept-delay", "20"];
        let mut server = Server::start(&options);
        let mut idle = server.connect();
        assert_eq!(idle.get("/").status, 200);
        server.signal(Signal::HUP);
        assert!(idle.is_closed(), "its thread has finished");
        let mut sleeper = server.connect();
        sleeper.send("GET /sleep/500 HTTP/1.1\r\nHost: test\r\n\r\n");
        server.wait_for_status("it sleeps", |status| status.writing == 2);
        server.signal(Signal::QUIT);
        assert_eq!(sleeper.response().text(), "slept\n");
        assert!(server.wait().success());
    }
}
