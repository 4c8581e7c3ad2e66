//! A kernel that refuses to register a listener, to accept a client, or to take the requests of an
//! `io_uring`. No worker ends, and clients are still served.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use evcore_tests::{
    Client, Scratch, Server, Strace, assert_within, eventually, not_run, strace_works,
};

/// The policies under which workers register their listeners repeatedly.
const POLICIES: [&str; 3] = ["least-loaded", "mutex", "exclusive"];

/// The errors for a lack of memory, and of watches (`fs.epoll.max_user_watches`).
const ERRORS: [&str; 2] = ["ENOMEM", "ENOSPC"];

const CLIENTS: usize = 60;

/// Time for which a refused listener is suspended.
const SUSPENDED: Duration = Duration::from_millis(500);

#[test]
fn a_refused_listener_ends_no_worker_and_no_connection() {
    if !strace_works() {
        not_run("strace is not installed, or may not trace");
        return;
    }
    for policy in POLICIES {
        for error in ERRORS {
            // The injection makes `epoll_ctl` fail.
            let options = ["--workers", "2", "--poller", "epoll", "--accept", policy];
            let server = Server::start(&options);
            let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
            clients.iter_mut().for_each(assert_served);
            let workers = server.worker_pids();
            let straces: Vec<_> = workers
                .iter()
                .map(|worker| refuse_listener_once(*worker, server.address(), error))
                .collect();

            // New clients make workers start and stop listening.
            let mut others = Vec::new();
            eventually("a listener is refused", || {
                others.push(server.connect());
                others.last_mut().map(assert_served);
                server
                    .log()
                    .contains("listener 0 is suspended for half a second: epoll_ctl")
            });
            drop(straces);
            clients.iter_mut().for_each(assert_served);
            let came = Instant::now();
            assert_served(&mut server.connect());
            assert_within("the listener is back", SUSPENDED, came);
            assert_eq!(server.worker_pids(), workers, "{policy}, {error}");
        }
    }
}

/// EPERM means that a firewall forbids one client.
#[test]
fn a_forbidden_client_does_not_suspend_the_listener() {
    if !strace_works() {
        not_run("strace is not installed, or may not trace");
        return;
    }
    let scratch = Scratch::new("forbidden-clients");
    for policy in POLICIES {
        let server = Server::start(&["--workers", "1", "--accept", policy]);
        let trace = scratch.file(policy);
        let inject = [
            "-o",
            trace.to_str().expect("a text"),
            "-e",
            "trace=accept4",
            "-e",
            "inject=accept4:error=EPERM:when=1",
        ];
        let strace = Strace::attach(server.worker_pids()[0], &inject);
        for _ in 0..3 {
            assert_served(&mut server.connect());
        }
        eventually("a call fails", || has_injected(&trace));
        drop(strace);
        assert!(!server.log().contains("suspended"), "{policy}");
    }
}

/// With `EAGAIN`, the kernel has no memory for a request at the moment. With `EBUSY`, it requires
/// that the program takes completions before it makes more requests.
#[cfg(target_os = "linux")]
#[test]
fn a_ring_that_is_busy_for_now_ends_no_worker_and_no_connection() {
    use evcore_poller::BackendKind;

    if !strace_works() {
        not_run("strace is not installed, or may not trace");
        return;
    }
    if !BackendKind::usable().contains(&BackendKind::IoUring) {
        not_run("this kernel permits no io_uring");
        return;
    }
    let scratch = Scratch::new("busy-rings");
    for error in ["EAGAIN", "EBUSY"] {
        let server = Server::start(&["--workers", "2", "--poller", "io_uring"]);
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(assert_served);
        let workers = server.worker_pids();
        let inject = format!("inject=io_uring_enter:error={error}:when=1+3");
        let trace = scratch.file(error);
        let output = ["-o", trace.to_str().expect("a text")];
        let options = ["-e", "trace=io_uring_enter", "-e", &inject];
        let strace = Strace::attach_all(&workers, &[&output[..], &options].concat());
        for _ in 0..3 {
            clients.iter_mut().for_each(assert_served);
            assert_served(&mut server.connect());
        }
        assert_eq!(server.worker_pids(), workers, "{error}");
        assert!(has_injected(&trace), "{error}");
        // The server must end before the tracer. If a tracer ends within an injected call, the
        // result of the call is ENOSYS. If a tracer ends when it has just seen a signal, the signal
        // is lost.
        drop(server);
        // An ended process has no command line, even before its new parent has waited for it.
        let line = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        eventually("the workers have ended", || {
            workers.iter().all(|pid| line(pid).is_empty())
        });
        drop(strace);
    }
}

/// Returns whether strace has made a call fail. strace writes a line when the call has returned.
fn has_injected(trace: &Path) -> bool {
    fs::read_to_string(trace).is_ok_and(|trace| trace.contains("(INJECTED)"))
}

fn assert_served(client: &mut Client) {
    assert_eq!(client.get("/").status, 200);
}

/// Makes the next `epoll_ctl` of a worker for its listener fail.
fn refuse_listener_once(worker: u32, listener: SocketAddr, error: &str) -> Strace {
    let socket = format!("socket:[{}]", inode_of_listener(listener));
    let inject = format!("inject=epoll_ctl:error={error}:when=1");
    Strace::attach(
        worker,
        &["-P", &socket, "-e", "trace=epoll_ctl", "-e", &inject],
    )
}

fn inode_of_listener(address: SocketAddr) -> u64 {
    const LISTENS: &str = "0A";
    let sockets = fs::read_to_string("/proc/net/tcp").expect("Linux has this file");
    let port = format!(":{:04X}", address.port());
    let inode = sockets.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_listener = words.get(1)?.ends_with(&port) && *words.get(3)? == LISTENS;
        is_listener.then(|| words.get(9)?.parse().ok()).flatten()
    });
    inode.expect("a socket listens at the address")
}
