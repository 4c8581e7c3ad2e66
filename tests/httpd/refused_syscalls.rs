//! System calls that a kernel or a sandbox refuses when the server starts.

#![cfg(target_os = "linux")]

use std::process::Command;

use evcore_tests::{Scratch, httpd, without};

use crate::{command_line::assert_refusal, permitted_pollers::permitted};

#[test]
fn a_server_whose_workers_cannot_start_logs_no_address() {
    let scratch = Scratch::new("refused");
    let pid_file = scratch.path().join("pid");
    for (poller, call, errno, name) in [
        (
            "epoll",
            libc::SYS_epoll_create1,
            libc::EMFILE,
            "epoll_create1",
        ),
        (
            "io_uring",
            libc::SYS_io_uring_enter,
            libc::EPERM,
            "io_uring_enter",
        ),
    ] {
        if permitted(&[poller]).is_empty() {
            continue;
        }
        for workers in [["--workers", "0"], ["--workers", "2"], ["--threads", "2"]] {
            let mut command = Command::new(httpd());
            command.args(["--listen", "127.0.0.1:0", "--poller", poller]);
            command.args(workers).arg("--pid").arg(&pid_file);
            let output = without(call, errno, || command.output());
            let output = output.expect("it runs");
            let log = String::from_utf8(output.stderr).expect("a text");
            assert_eq!(output.status.code(), Some(1), "{log}");
            assert!(!log.contains("listening on"), "{workers:?}: {log}");
            assert!(log.contains(name), "{workers:?}: {log}");
            assert!(!pid_file.exists());
        }
    }
}

#[test]
fn a_refused_system_call_is_named_with_a_remedy() {
    let cases: [(_, _, &[&str]); 3] = [
        (
            libc::SYS_mmap,
            libc::ENOMEM,
            &["shared memory (mmap)", "Cannot allocate", "ulimit -v"],
        ),
        (
            libc::SYS_eventfd2,
            libc::EMFILE,
            &["an eventfd", "Too many open files", "ulimit -n"],
        ),
        (
            libc::SYS_socketpair,
            libc::ENFILE,
            &["self-pipe (socketpair)", "Too many open files", "file-max"],
        ),
    ];
    for (call, errno, named) in cases {
        let mut command = Command::new(httpd());
        let options = ["--listen", "127.0.0.1:0", "--workers", "2"];
        let output = without(call, errno, || command.args(options).output());
        assert_refusal(&output.expect("it runs"), &options, 1, named);
    }
}
