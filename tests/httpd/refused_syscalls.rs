//! System calls that a kernel or a sandbox refuses when the server starts.

#![cfg(target_os = "linux")]

use std::process::Command;

use evcore_tests::{Scratch, httpd, without};

use crate::{command_line::assert_refusal, permitted_pollers::permitted};

#[test]
fn workers_that_cannot_start_are_an_error_of_one_line() {
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
            // One line, so it logs no address.
            assert_refusal(&output.expect("it runs"), &workers, 1, &[name]);
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
            &["a mailbox (socketpair)", "Too many open files", "file-max"],
        ),
    ];
    for (call, errno, named) in cases {
        let mut command = Command::new(httpd());
        let options = ["--listen", "127.0.0.1:0", "--workers", "2"];
        let output = without(call, errno, || command.args(options).output());
        assert_refusal(&output.expect("it runs"), &options, 1, named);
    }
}
