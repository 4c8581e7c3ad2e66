//! A kernel that refuses to wait for events. The worker cannot continue, so it ends, and its last
//! line names the call.

use evcore_tests::{Client, Server, Strace, eventually, not_run, strace_works};

/// Pollers, the system calls by which each may wait, and the name of the call in an error.
const WAITS: [(&str, &str, &str); 2] = [
    ("epoll", "epoll_wait,epoll_pwait,epoll_pwait2", "epoll_wait"),
    ("poll", "poll,ppoll", "poll"),
];

/// Connects, which ends a wait that began before the injection. If there was no such wait, the
/// server may have ended already, so an error is ignored.
fn wake(server: &Server) {
    let _ = Client::try_connect(server.address());
}

#[test]
fn a_worker_that_cannot_wait_logs_the_call_that_failed() {
    if !strace_works() {
        not_run("strace is not installed, or may not trace");
        return;
    }
    for (poller, calls, name) in WAITS {
        let failed = format!("{name} failed: Input/output error (os error 5)");
        let known = calls.split(',').map(|call| format!("?{call}"));
        let trace = format!("trace={}", known.collect::<Vec<_>>().join(","));
        let inject = format!("inject={}:error=EIO:when=1", &trace["trace=".len()..]);

        let server = Server::start(&["--workers", "1", "--poller", poller]);
        let worker = server.worker_pids()[0];
        let strace = Strace::attach(worker, &["-e", &trace, "-e", &inject]);
        wake(&server);
        let line = format!("httpd: worker failed: {failed}\n");
        eventually("the worker logs why it ends", || {
            server.log().contains(&line)
        });
        drop(strace);

        let mut alone = Server::start(&["--workers", "0", "--poller", poller]);
        let strace = Strace::attach(alone.pid(), &["-e", &trace, "-e", &inject]);
        wake(&alone);
        let status = alone.wait();
        drop(strace);
        assert_eq!(status.code(), Some(1));
        let line = format!("httpd: {failed}\n");
        eventually("the server logs why it ends", || {
            alone.log().contains(&line)
        });
    }
}
